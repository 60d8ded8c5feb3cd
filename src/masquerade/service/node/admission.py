"""Whether a request, a contract or a release is admitted: by this party's own policy, ledger, trust store and table.

Nothing is signed, noted or released here; `node.py` does that. Several threads may ask at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from masquerade.errors import BadInput, ParameterError, PeerRefused
from masquerade.net.channel import PROTOCOL_VERSION
from masquerade.protocol.method import ASSEMBLER
from masquerade.service.answering import accepts, answer
from masquerade.service.clock import Clock, seconds_since_1970
from masquerade.service.kinds import RULES
from masquerade.service.ledger import Ledger
from masquerade.service.logs import log
from masquerade.service.node.approvals import NO_APPROVAL, Approvals, deal_id
from masquerade.service.node.datasets import Dataset, Reading
from masquerade.service.node.kept_readings import KeptReadings
from masquerade.service.node.settings import Settings
from masquerade.service.node.state import State
from masquerade.service.offers import Load, Offer, Refusal
from masquerade.service.request import Request
from masquerade.service.requester import against_requester
from masquerade.service.signing import SignedContract


@dataclass(frozen=True)
class Admitted:
    """The table of a contract that nothing speaks against."""

    dataset: Dataset
    reading: Reading


class Admission:
    """Compares requests and contracts with what this party has and allows, at every step anew."""

    def __init__(
        self,
        settings: Settings,
        state: State,
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

    def request(
        self, request: Request, name: str, source: str | None = None, *, keep: bool = True
    ) -> Offer | Refusal:
        """Answer a request by the policy of a dataset; the table that an offer names is kept for a while
        if `keep`.

        With `source` the release of those terms is to be rolled up. The load is not looked at: sessions queue at the
        coordinator.
        """
        dataset = self._datasets().get(name)
        if dataset is None:
            return self._refusal(self.no_dataset(name))
        reading = self._reading(dataset)
        if reading is None:
            return self._refusal(unreadable(name))
        ledger = self._ledger()
        if ledger is None:
            return self._refusal(_unknown_past(name))
        load, schema = Load(0, self._now()), reading.table.schema
        given = answer(dataset.policy, request, reading.card, ledger, load, schema, source)
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

    def release(self, contract: SignedContract, name: str, reading: Reading) -> tuple[str, ...]:
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
        self, dataset: Dataset, contract: SignedContract, reading: Reading, *, runs: bool
    ) -> tuple[str, ...]:
        """What policy and ledger have against a contract."""
        ledger = self._ledger()
        if ledger is None:
            return (_unknown_past(dataset.name),)
        load = Load(0, self._now())
        card, schema = reading.card, reading.table.schema
        reasons = accepts(dataset.policy, contract.deal, card, ledger, load, schema, runs=runs)
        try:
            request = contract.deal.asked
        except ParameterError:  # among the reasons
            return reasons
        return (*self._against_requester(dataset, request, deal_id(contract.deal)), *reasons)

    def _against_requester(
        self, dataset: Dataset, request: Request, deal: str | None = None
    ) -> tuple[str, ...]:
        """Why a request, or the deal that was made of it, is not taken to be its user's, or was carried out before."""
        against = tuple(against_requester(dataset.policy, request, self._settings.clients, self._now()))
        used = request.signed is not None and self._state.deals_of_request(request.signed.nonce)
        if not against and used and (deal is None or {deal} != {*used}):
            against = ("the signed request was used before; its client signs a new one",)
        return against

    def _reading(self, dataset: Dataset, *, for_session: bool = False) -> Reading | None:
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


def _unknown_past(dataset: str) -> str:
    return f"{dataset} cannot be released now; its steward can see why"


def _faults(contract: SignedContract, settings: Settings, now: int) -> Iterator[str]:
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
            ours = (
                settings.identity.fingerprint if party == settings.name else settings.trust.fingerprint(party)
            )
        except PeerRefused:
            yield f"party {party} is not in our trust store"
            continue
        if contract.keys.get(party) != ours:
            yield f"party {party} has another key in the contract than in our trust store"
