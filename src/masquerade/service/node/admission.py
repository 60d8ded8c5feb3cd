"""Whether a request, a contract or a release is admitted: by this party's own policy, ledger, trust store and table.

Nothing is signed, noted or released here; `node.py` does that. Several threads may ask at once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from masquerade.audit import AuditLog
from masquerade.errors import BadInput, Conflict, NotFound, ParameterError, PeerRefused
from masquerade.files import PRIVATE, write_whole
from masquerade.forms import json_decoder
from masquerade.net import PROTOCOL_VERSION
from masquerade.protocol import ASSEMBLER
from masquerade.service.agree.answering import accepts, answer
from masquerade.service.agree.arrangements import RULES
from masquerade.service.agree.objections import against_requester
from masquerade.service.agree.request import Request
from masquerade.service.agree.signing import SignedContract
from masquerade.service.agree.terms import Deal, Offer, Refusal
from masquerade.service.clock import Clock, seconds_since_1970
from masquerade.service.ledger import Ledger
from masquerade.service.logs import log
from masquerade.service.node.datasets import Dataset, KeptReadings, TableReading
from masquerade.service.node.settings import NodeSettings
from masquerade.service.node.state import StateFolder

# --- approvals ----------------------------------------------------------------------------------------------
# Contracts that wait for a person, and what the person said.
#
# An approval is for a deal: who gets what from which snapshot, for what and at what price. The same deal in
# another contract, after a failed attempt or because the first one expired, needs no new one, for as many
# runs as the deal has attempts. Then it waits for a person again.

Decision = Literal["approved", "refused"]

NO_APPROVAL = "a person has not approved it, has taken the approval back, or it has run as often as was approved"
LEAST_PREFIX = 4
_KEPT = 7 * 86_400  # seconds after which a contract that nobody looked at is forgotten


class Word(msgspec.Struct, frozen=True):
    """What a person said, and when; of an approval, how many sessions have begun by it."""

    time: int
    reason: str = ""
    runs: int = 0


@dataclass(frozen=True)
class Waiting:
    """A contract that waits for a person."""

    deal: str
    contract: SignedContract


def deal_id(deal: Deal) -> str:
    """The deal's digest, by which people refer to it."""
    return hashlib.sha256(deal.canonical()).hexdigest()


class Approvals:
    """The folders of contracts that wait, and of deals that were approved or refused."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state

    def approved(self, deal: str) -> bool:
        """Return whether a person has approved a deal, and has not refused it since."""
        return self._approval(deal) is not None

    def may_run(self, deal: Deal) -> bool:
        """Return whether a person has approved a deal for one more session."""
        word = self._approval(deal_id(deal))
        return word is not None and word.runs < deal.attempts

    def run_begins(self, deal: Deal) -> None:
        """Count a session that begins; Conflict if no approval is left for it."""
        name = deal_id(deal)
        word = self._approval(name)
        if word is None or word.runs >= deal.attempts:
            raise Conflict(NO_APPROVAL)
        counted = msgspec.structs.replace(word, runs=word.runs + 1)
        write_whole(self._state.approved / name, msgspec.json.encode(counted), PRIVATE)

    def refused(self, deal: str) -> str | None:
        """The reason with which a person has refused a deal, if one has."""
        word = self._word(self._state.refused / deal)
        return word.reason if word is not None else None

    def decided(self, deal: str) -> Decision | None:
        """A person's last decision on a deal, if there is one."""
        if self.approved(deal):
            return "approved"
        return "refused" if self.refused(deal) is not None else None

    def ask(self, contract: SignedContract) -> bool:
        """Let a contract wait, in place of an older one of its deal; return whether the deal has not waited before."""
        path, written = self._state.pending / f"{deal_id(contract.deal)}.json", contract.canonical()
        try:
            before = path.read_bytes()
        except FileNotFoundError:  # it has not waited before, or somebody has just decided
            before = None
        if before != written:
            write_whole(path, written, PRIVATE)
            # Whoever decided while it was written has spoken: then it does not wait.
            if self.may_run(contract.deal) or self.refused(path.stem) is not None:
                path.unlink(missing_ok=True)
        return before is None

    def waiting(self) -> tuple[Waiting, ...]:
        """All contracts that wait, by the names of their deals."""
        found = []
        for path in sorted(self._state.pending.glob("[0-9a-f]*.json")):
            try:
                found.append(Waiting(path.stem, SignedContract.read(path.read_bytes())))
            except FileNotFoundError:  # somebody has just decided
                continue
            except ParameterError as error:
                raise ParameterError(f"{path}: {error}") from None
        return tuple(found)

    def find(self, prefix: str) -> Waiting:
        """The contract that waits whose deal has this name, or is the only one that begins with it."""
        waiting = {each.deal: each for each in self.waiting()}
        return waiting[_the_one(prefix, waiting, "waits for approval")]

    def known(self, prefix: str) -> str:
        """The whole name of a deal that waits or was decided before: a person may think again."""
        decided = [path.name for folder in (self._state.approved, self._state.refused) for path in folder.glob("*")]
        return _the_one(prefix, [*(each.deal for each in self.waiting()), *decided], "is known here")

    def approve(self, deal: str, now: int) -> None:
        """Record that a person approves a deal."""
        self._decide(self._state.approved, self._state.refused, deal, Word(now))

    def refuse(self, deal: str, now: int, reason: str) -> None:
        """Record that a person refuses a deal, and why."""
        self._decide(self._state.refused, self._state.approved, deal, Word(now, reason))

    def tidy(self, now: int) -> None:
        """Forget contracts that expired long ago."""
        for each in self.waiting():
            if each.contract.expiry + _KEPT < now:
                (self._state.pending / f"{each.deal}.json").unlink(missing_ok=True)

    def _approval(self, deal: str) -> Word | None:
        """The approval of a deal; a refusal beside it counts more, whoever was counting runs meanwhile."""
        return self._word(self._state.approved / deal) if self.refused(deal) is None else None

    def _word(self, path: Path) -> Word | None:
        try:
            return json_decoder(Word).decode(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            raise ParameterError(f"{path}: cannot be read") from None

    def _decide(self, said: Path, unsaid: Path, deal: str, word: Word) -> None:
        write_whole(said / deal, msgspec.json.encode(word), PRIVATE)
        (unsaid / deal).unlink(missing_ok=True)
        (self._state.pending / f"{deal}.json").unlink(missing_ok=True)


def _the_one(prefix: str, deals: Iterable[str], there: str) -> str:
    """The only name that begins with `prefix`; `there` says what the deals do, for the error."""
    known = sorted(set(deals))
    if len(prefix) < LEAST_PREFIX:
        raise ParameterError(f'"{prefix}": give at least {LEAST_PREFIX} characters of the deal\'s name')
    fitting = [deal for deal in known if deal.startswith(prefix.lower())]
    if not fitting:
        listed = ", ".join(deal[:12] for deal in known) or "none"
        raise NotFound(f'no deal "{prefix}" {there}; there are: {listed}')
    if len(fitting) > 1:
        raise ParameterError(f'"{prefix}": {len(fitting)} deals begin so; give more characters')
    return fitting[0]


# --- admission ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Admitted:
    """The table of a contract that nothing speaks against."""

    dataset: Dataset
    reading: TableReading


class Admission:
    """Compares requests and contracts with what this party has and allows, at every step anew."""

    def __init__(
        self,
        settings: NodeSettings,
        state: StateFolder,
        approvals: Approvals,
        readings: KeptReadings,
        datasets: Callable[[], Mapping[str, Dataset]],
        tell_changed: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._settings, self._state, self._clock = settings, state, clock
        self._approvals, self._readings = approvals, readings
        self._datasets = datasets  # those of this moment
        self._tell_changed = tell_changed  # a table is found to be another one than was published

    def request(self, request: Request, name: str, source: str | None = None, *, keep: bool = True) -> Offer | Refusal:
        """Answer a request by the policy of a dataset; the table that an offer names is kept for a while
        if `keep`.

        With `source` the release of those terms is to be rolled up. How many sessions run does not matter: they queue
        at the coordinator.
        """
        dataset = self._datasets().get(name)
        if dataset is None:
            return self._refusal(self.no_dataset(name))
        reading = self._reading(dataset)
        if reading is None:
            return self._refusal(unreadable(name))
        ledger = self._ledger()
        if ledger is None:
            return self._refusal(unknown_past(name))
        schema = reading.table.schema
        given = answer(dataset.policy, request, reading.card, ledger, self._now(), schema, source)
        against = self._against_requester(dataset, request)
        if against:
            more = given.reasons if isinstance(given, Refusal) else ()
            return Refusal(self._settings.name, (*against, *more))
        if keep and isinstance(given, Offer):
            self._readings.offered(dataset, reading, self._now())
        return given

    def contract(
        self, contract: SignedContract, *, for_session: bool = False
    ) -> tuple[tuple[str, ...], Admitted | None]:
        """Every reason against a contract, or the table that it is about."""
        wrong = tuple(_faults(contract, self._settings, self._now()))
        if for_session and contract.deal.terms.source is not None:
            wrong += ("the contract is for a roll-up of an earlier release; no protocol runs by it",)
        provision = contract.deal.terms.provision(self._settings.name)
        if provision is None:
            return wrong, None
        dataset = self._datasets().get(provision.dataset)
        if dataset is None:
            return (*wrong, self.no_dataset(provision.dataset)), None
        kept = self._readings.find(dataset, provision.snapshot, self._now())
        reading = kept or self._reading(dataset, for_session=for_session)
        if reading is None:
            return (*wrong, unreadable(provision.dataset)), None
        against = self._against(dataset, contract, reading, runs=for_session)
        if for_session and dataset.policy.needs_approval and not self._approvals.may_run(contract.deal):
            against = (*against, NO_APPROVAL)
        reasons = wrong + against
        return reasons, None if reasons else Admitted(dataset, reading)

    def release(self, contract: SignedContract, name: str, reading: TableReading) -> tuple[str, ...]:
        """Every reason why a release may not leave, by all that holds at this moment."""
        dataset = self._datasets().get(name)
        if dataset is None:
            return (self.no_dataset(name),)
        if dataset.policy.needs_approval and not self._approvals.approved(deal_id(contract.deal)):
            return (NO_APPROVAL,)
        return self._against(dataset, contract, reading, runs=True)

    def no_dataset(self, name: str) -> str:
        """The reason for refusing a dataset that does not exist."""
        return f'there is no dataset "{name}"; there are {", ".join(self._datasets())}'

    def _against(
        self, dataset: Dataset, contract: SignedContract, reading: TableReading, *, runs: bool
    ) -> tuple[str, ...]:
        """What policy and ledger have against a contract."""
        ledger = self._ledger()
        if ledger is None:
            return (unknown_past(dataset.name),)
        card, schema = reading.card, reading.table.schema
        if runs:
            ledger = ledger.without(contract.hash.hex())
        reasons = accepts(dataset.policy, contract.deal, card, ledger, self._now(), schema, runs=runs)
        try:
            request = contract.deal.asked
        except ParameterError:  # among the reasons
            return reasons
        return (*self._against_requester(dataset, request, contract.deal), *reasons)

    def _against_requester(self, dataset: Dataset, request: Request, deal: Deal | None = None) -> tuple[str, ...]:
        """Why a request, or the deal that was made of it, is not taken to be its user's, or was carried out before."""
        against = tuple(against_requester(dataset.policy, request, self._settings.clients, self._now(), deal))
        used = request.signed is not None and self._state.deals_of_request(request.signed.nonce)
        if not against and used and (deal is None or {deal_id(deal)} != {*used}):
            against = ("the signed request was used before; its client signs a new one",)
        return against

    def _reading(self, dataset: Dataset, *, for_session: bool = False) -> TableReading | None:
        before = dataset.snapshot
        try:
            reading = dataset.reading(for_session=for_session)
        except BadInput:
            return None
        finally:
            if dataset.snapshot != before:
                self._tell_changed()
        return reading

    def _ledger(self) -> Ledger | None:
        """Read the ledger; None when it is damaged: nobody knows what was released, and nothing more is."""
        try:
            return Ledger.load(self._state.ledger)
        except BadInput as error:  # its text names file and line, and shows no cell
            log().error("nothing is offered or signed: the ledger is wrong", problems=list(error.lines))
            return None

    def _now(self) -> int:
        return seconds_since_1970(self._clock)

    def _refusal(self, reason: str) -> Refusal:
        return Refusal(self._settings.name, (reason,))


def unreadable(dataset: str) -> str:
    """The reason for refusing a table that cannot be read; why it cannot is for its steward alone."""
    return f"{dataset} cannot be read now; its steward can see why"


def unknown_past(dataset: str) -> str:
    """The reason for refusing a table of which nobody knows what was released: its ledger is damaged."""
    return f"{dataset} cannot be released now; its steward can see why"


def _faults(contract: SignedContract, settings: NodeSettings, now: int) -> Iterator[str]:
    """Why this party would not sign a contract, whatever its policy says: parties, keys, expiry, version."""
    terms = contract.deal.terms
    if settings.name not in contract.parties:
        yield f"{settings.name} is none of the contract's parties"
    if len(set(contract.parties)) < len(contract.parties):
        yield "a party is named twice"
    if len(contract.parties) < 2:
        yield "a mashup needs at least two parties"
    for outsider in (settings.coordinator.name, ASSEMBLER):
        if outsider in contract.parties:
            yield f"{outsider} puts the release together; it cannot be a party"
    if terms.version != PROTOCOL_VERSION:
        yield f"the contract is for version {terms.version} of the protocol; this node speaks {PROTOCOL_VERSION}"
    if contract.expiry <= now:
        yield "the contract has expired"
    if not 1 <= contract.attempt <= contract.deal.attempts:
        yield f"attempt {contract.attempt}; the deal allows 1 to {contract.deal.attempts}"
    holders = {column.holder for column in terms.columns} | ({terms.class_from} - {None})
    known = {RULES[terms.arrangement].holder(party) for party in contract.parties}
    for stranger in sorted(map(str, holders - known)):
        yield f"{stranger} is to hand in columns, and is none of the parties"
    for party in contract.parties:
        try:
            ours = settings.identity.fingerprint if party == settings.name else settings.trust.fingerprint(party)
        except PeerRefused:
            yield f"party {party} is not in our trust store"
            continue
        if contract.keys.get(party) != ours:
            yield f"party {party} has another key in the contract than in our trust store"


# --- decide -------------------------------------------------------------------------------------------------
# A steward's decision on a deal: into the audit log first, then it counts.


def decide(
    settings: NodeSettings, word: str, reason: str | None, operator: Mapping[str, str | None]
) -> tuple[str, Decision | None]:
    """Approve the deal that `word` names, or refuse it with a reason; return its whole name and the decision before.

    `operator` says who decided.
    """
    state = StateFolder(settings.state)
    approvals = Approvals(state)
    deal = approvals.known(word)
    before = approvals.decided(deal)
    now = int(time.time())
    with AuditLog(state.audit, settings.identity) as audit:
        if reason is None:
            audit.append("approval", {"deal": deal, **operator})
            approvals.approve(deal, now)
        else:
            audit.append("disapproval", {"deal": deal, "reason": reason, **operator})
            approvals.refuse(deal, now, reason)
    return deal, before
