"""The party node's answers to the coordinator.

    offer ─► signature ─► prepare ─► start ─► (session.py: the protocol runs) ─► release ─► (decline)
             │ pending: a person has to approve first

Whatever the coordinator brings is checked against this party's own policy, ledger, trust store and table
(admission.py), at every step anew. Refusals and signed contracts go into the audit log, as every message does. Reading,
hashing and writing happen in threads.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from masquerade.arrangement import TABLE
from masquerade.audit import AuditLog
from masquerade.errors import (
    BadInput,
    Conflict,
    MasqueradeError,
    NotAllowed,
    NotFound,
    ParameterError,
    PeerRefused,
    one_line,
)
from masquerade.methods import method_of
from masquerade.protocol import Settled, refuse_unknown_to, why_whole
from masquerade.service.agree.objections import against_identifiers, verified_signer
from masquerade.service.agree.policy import WEEK
from masquerade.service.agree.request import read_request
from masquerade.service.agree.signing import Nonces, OutOfTime, SignedContract, TokenVerifier, sign, verify_signatures
from masquerade.service.agree.terms import Offer, Refusal
from masquerade.service.clock import SYSTEM_CLOCK, Clock, seconds_since_1970
from masquerade.service.ledger import (
    Aligned,
    Ledger,
    SettledRecord,
    Submitted,
    aligned,
    append,
    decline,
    record_of,
    settle,
)
from masquerade.service.logs import log
from masquerade.service.node.admission import Admission, Admitted, Approvals, deal_id, unknown_past, unreadable
from masquerade.service.node.datasets import Dataset, KeptReadings, TableReading
from masquerade.service.node.session import Ending, OpenSessions, PartyInput, PartySession, ReadRows
from masquerade.service.node.settings import NodeSettings
from masquerade.service.node.state import StateFolder
from masquerade.service.wire.control import (
    AskOffer,
    AskSignature,
    ControlNotes,
    Noted,
    Pending,
    Prepare,
    Progress,
    Published,
    ReadyAt,
    Signature,
    Start,
)
from masquerade.service.wire.peers import TLS, Network

# --- notify -------------------------------------------------------------------------------------------------
# Tell a person that a contract waits: a command of the steward's own is run, such as one that sends an e-mail.
#
# Others wrote parts of the text (user, purpose, columns). It reaches the command on its standard input
# alone, never as an argument, and no shell is involved.

_LONGEST = 60.0  # seconds


def waits(party: str, deal: str, contract: SignedContract, conf: Path) -> str:
    """Say in a few lines what waits, and how to decide."""
    agreed = contract.deal
    columns = ", ".join(column.name for column in contract.contract.columns_of(party))
    lines = (
        f"A contract waits for approval at {party}: deal {deal[:12]}",
        f"{agreed.user}, for {agreed.purpose}: {columns or 'no column'} (parties {', '.join(contract.parties)})",
        "",
        f"Look at it:  masquerade party preview {conf} {deal[:12]}",
        f"Decide:      masquerade party approve {conf} {deal[:12]}",
        f"             masquerade party refuse {conf} {deal[:12]} --reason …",
        f"In a browser: masquerade party review {conf}",
    )
    return "".join(f"{one_line(line)}\n" for line in lines)


def notify(command: Sequence[str], text: str, deal: str, folder: Path) -> threading.Thread | None:
    """Run the command in the background, with the text as its input; its failure is logged and holds up nothing."""
    if not command:
        return None
    thread = threading.Thread(target=_run, args=(command, text, deal, folder), daemon=True, name="notify")
    thread.start()
    return thread


def _run(command: Sequence[str], text: str, deal: str, folder: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603 # the steward's own command
            list(command),
            input=text.encode(),
            cwd=folder,
            env={**os.environ, "MASQUERADE_DEAL": deal},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_LONGEST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log().error("nobody was told that a contract waits", command=command[0], error=type(error).__name__)
        return
    if done.returncode:
        log().error("nobody was told that a contract waits", command=command[0], exit_code=done.returncode)


# --- node ---------------------------------------------------------------------------------------------------

_MOST_SIGNED = 1000
_OTHERWISE: Mapping[Settled, str] = {
    "people": "other people are in common than in an earlier session on the same terms",
    "cells": "the cells to hand in are others than in an earlier session on the same terms",
}
_KEEP_RUN = 86_400  # seconds beyond a contract's expiry, in case a clock is set back


class PartyNode:
    """Answers the coordinator. `datasets` may be replaced while it runs, when the configuration has changed."""

    def __init__(
        self,
        settings: NodeSettings,
        state: StateFolder,
        audit: AuditLog,
        datasets: Mapping[str, Dataset],
        clock: Clock = SYSTEM_CLOCK,
        network: Network = TLS,
    ) -> None:
        self.settings, self.state, self.audit, self.clock, self.network = (settings, state, audit, clock, network)
        self.notes = ControlNotes(audit)
        self.datasets = dict(datasets)
        self.sessions = OpenSessions(state, clock)
        self.approvals = Approvals(state)
        self.readings = KeptReadings()
        self.changed = asyncio.Event()  # something to publish
        self._admission = Admission(
            settings, state, self.approvals, self.readings, lambda: self.datasets, self._tell_changed, clock
        )
        self._loop = asyncio.get_running_loop()
        self._signed: dict[str, str] = {}
        self._releasing = threading.Lock()
        self._signing = threading.Lock()
        self._noting = threading.Lock()
        pinned = partial(settings.trust.pin, settings.coordinator.name)
        self._tokens = TokenVerifier(pinned, Nonces(clock.now), clock.now)

    # --- what is published ---

    def published(self, *, asked: bool = True) -> Published:
        """Everything that others may know of the datasets."""
        with self._noting:  # also while they are read: who read a table before it changed would note it last
            held = self.datasets
            datasets = tuple(dataset.published(asked=asked) for dataset in held.values())
            cards = [each.card for each in datasets]
            current = {card.dataset: card.snapshot for card in cards if card.snapshot is not None}
            before = self.state.snapshots
            after = before.with_current(current, held)
            if after != before:
                self.state.note_snapshots(after)
        return Published(self.settings.name, datasets, after.replaced)

    # --- offers and contracts ---

    def offer(self, ask: AskOffer) -> Offer | Refusal:
        """Answer a request by the policy."""
        request = read_request(ask.request)
        given = self._admission.request(request, ask.dataset, ask.source, keep=not ask.preview)
        if isinstance(given, Offer):
            return given
        refusal = self._refuse(request.user, given.reasons, ask.session)
        return msgspec.structs.replace(refusal, earlier=given.earlier, instead=given.instead)

    def signature(self, ask: AskSignature) -> Signature | Pending | Refusal:
        """Sign a contract that the policy accepts and, where it asks for that, a person has approved."""
        contract = ask.contract
        name, deal = contract.hash.hex(), deal_id(contract.deal)
        reasons, admitted = self._admission.contract(contract)
        if admitted is None:
            return self._refuse(contract.deal.user, reasons, ask.session)
        if admitted.dataset.policy.needs_approval and not self.approvals.may_run(contract.deal):
            said = self.approvals.refused(deal)
            if said is not None:
                reason = f"a person has refused it{f': {said}' if said else ''}"
                return self._refuse(contract.deal.user, [reason], ask.session)
            self._keep(admitted, contract)
            if self.approvals.ask(contract):  # it is asked for again and again
                log().info("a contract waits for approval", deal=deal, session=ask.session)
                own = self.settings
                text = waits(own.name, deal, contract, own.path)
                notify(own.notify.approval, text, deal, own.path.parent)
            return Pending(f"deal {deal[:12]} waits for a person's approval")
        try:  # not before a person has approved: the answer tells whether the table has these values
            refuse_unknown_to(self.settings.name, contract.contract, admitted.reading.table.coded)
        except ParameterError as error:
            return self._refuse(contract.deal.user, error.lines, ask.session)
        self._keep(admitted, contract)
        with self._signing:
            if name not in self._signed:
                if contract.deal.terms.source is not None:  # it is released without a word to us
                    with self._releasing:
                        append(self.state.ledger, record_of(contract.deal, self.settings.name, self._now()))
                signer = verified_signer(contract.deal, self.settings.clients, self._now())
                self.audit.contract(contract.canonical(), name, signer)
                self._signed[name] = sign(self.settings.identity, contract.hash).hex()
                log().info("contract signed", contract=name, deal=deal, session=ask.session)
            while len(self._signed) > _MOST_SIGNED:
                self._signed.pop(next(iter(self._signed)))
            return Signature(self._signed[name])

    # --- sessions ---

    async def prepare(self, ask: Prepare) -> ReadyAt | Refusal:
        """Check a contract that all have signed once more, read the table, and listen."""
        contract = ask.contract
        name = contract.hash.hex()
        provision = contract.deal.terms.provision(self.settings.name)
        dataset = self.datasets.get(provision.dataset) if provision is not None else None
        user = contract.deal.user
        try:
            verify_signatures(contract, self.settings.trust, own=self.settings.identity, now=self._now())
        except PeerRefused as error:
            return await asyncio.to_thread(self._refuse, user, error.lines, ask.session)
        if dataset is None:
            wanted = provision.dataset if provision is not None else ""
            return await asyncio.to_thread(self._refuse, user, [self._admission.no_dataset(wanted)], ask.session)
        try:
            taken = await self.sessions.expect(contract, dataset.name, dataset.policy)
            if taken is not None:
                return await self._busy(user, taken, ask.session)
        except Ending as error:
            return await self._busy(user, str(error), ask.session)
        except Conflict as error:
            return await asyncio.to_thread(self._refuse, user, error.lines, ask.session)
        try:
            self._tokens.verify(ask.token, audience=self.settings.name, contract_hash=name)
            part = await asyncio.to_thread(self._part, contract, ask.session)
            self.sessions.insist_on(name)
        except (Ending, OutOfTime) as error:  # another time it may go well
            return await self._busy(user, str(error), ask.session)
        except (NotAllowed, Conflict) as error:
            return await asyncio.to_thread(self._refuse, user, error.lines, ask.session)
        except BadInput as error:
            kind = type(error).__name__
            log().warning("a session cannot be prepared", session=name, dataset=dataset.name, kind=kind)
            reasons = [unreadable(dataset.name)]
            return await asyncio.to_thread(self._refuse, user, reasons, ask.session)
        else:
            session = PartySession(self.settings, self.audit, part, self.clock, self.network)
            self.sessions.add(session)
        finally:
            self.sessions.forget(name)
        try:
            address = await session.address()
        except MasqueradeError:
            return await self._busy(user, "no port is free for one more session", ask.session)
        log().info("session prepared", session=name, dataset=dataset.name, address=address)
        return ReadyAt(address)

    async def _busy(self, user: str, reason: str, session: str) -> Refusal:
        refusal = await asyncio.to_thread(self._refuse, user, [reason], session)
        return Refusal(refusal.party, refusal.reasons, busy=True)

    def start(self, contract: str, said: Start) -> Progress:
        """Begin the protocol."""
        progress = self.sessions.start(contract, said.addresses, self._now(), self._run_begins)
        log().info("session started", session=contract)
        return progress

    def _run_begins(self, session: PartySession) -> None:
        dataset = self.datasets.get(session.dataset)
        if dataset is not None and dataset.policy.needs_approval:
            self.approvals.run_begins(session.contract.deal)

    def tidy(self) -> None:
        """Forget old sessions, readings, contracts and approvals."""
        self.sessions.tidy()
        self.readings.tidy(self._now())
        self.state.tidy(self._now(), _KEEP_RUN)
        self.approvals.tidy(self._now())

    # --- in threads ---

    def refuse_caller(self, caller: str, what: str) -> NotAllowed:
        """Refuse somebody who asks for what only the coordinator may; the error to raise."""
        reason = f"{what}: only {self.settings.coordinator.name} may ask for this"
        self._refuse(caller, [reason], None)
        return NotAllowed(reason)

    def decline(self, contract: str) -> Noted:
        """Enter in the ledger that the client declined what a contract's session made, on the coordinator's word.

        How many of them do not count as released is up to the policy. Said again, it changes nothing.
        """
        with self._releasing:
            if not decline(self.state.ledger, contract, self._now()):
                raise NotFound("no release was shown by this contract")
            self.audit.append("declined", {"session": contract})
        log().info("declined", session=contract)
        return Noted()

    def _part(self, contract: SignedContract, session: str) -> PartyInput:
        """What this party brings to a session; NotAllowed with every reason against it."""
        reasons, admitted = self._admission.contract(contract, for_session=True)
        if admitted is None:
            raise NotAllowed(*reasons)
        dataset = admitted.dataset
        read = self._reader(dataset, admitted.reading, contract)
        if read is None:
            table, ids = dataset.table_for(admitted.reading, contract.contract)
        else:
            table, ids = dataset.without_rows(admitted.reading, contract.contract), []

        def before_showing() -> None:
            self._note(contract, session, dataset.name, admitted.reading)

        def settled(what: Settled, digest: bytes) -> None:
            self._settle(contract, session, dataset, what, digest)

        def on_done() -> None:
            self.readings.done(deal_id(contract.deal), self._now())

        def before_list(name: str, identifiers: int) -> None:
            if name == self.settings.name:
                self._note_alignment(contract, session, dataset.name, admitted.reading, identifiers)
            else:
                self._note_list(contract, dataset.name, name, identifiers)

        keep = self.state.keep_for_model
        return PartyInput(contract, dataset.name, table, ids, before_showing, before_list, on_done, settled, keep, read)

    def _reader(self, dataset: Dataset, reading: TableReading, contract: SignedContract) -> ReadRows | None:
        """Return what reads our rows into the engine's chunks; None where a session needs them in one memory."""
        terms = contract.contract
        method = method_of(terms)
        if self.settings.engine is None or method.makes is not TABLE or method.off_engine(terms.parts):
            return None
        if reason := why_whole(terms, dataset.settings.keys.missing):
            log().warning("a table is taken into memory", session=contract.hash.hex(), reason=reason)
            return None
        return partial(dataset.records_for, reading, terms)

    def _keep(self, admitted: Admitted, contract: SignedContract) -> None:
        """Keep the reading that a session will run on, whatever becomes of the table until then."""
        deal = deal_id(contract.deal)
        self.readings.agreed(admitted.dataset, admitted.reading, deal, contract.expiry, self._now())

    def _note(self, contract: SignedContract, session: str, dataset: str, reading: TableReading) -> None:
        """Check once more, with the ledger of this moment, and enter the release in the ledger: then it may leave.

        Peers see something of it before it is handed in, so what is broken off after this counts as released. Another
        attempt at the same terms, for the same people, is the same release; but every run that answers is counted.
        """
        with self._releasing:
            reasons = self._admission.release(contract, dataset, reading)
            if reasons:
                self._refuse(contract.deal.user, reasons, contract.hash.hex())
                raise NotAllowed(*reasons)
            own, now = self.settings.name, self._now()
            shown = record_of(contract.deal, own, now, session, contract.hash.hex())
            append(self.state.ledger, shown)

    def _settle(self, contract: SignedContract, session: str, dataset: Dataset, what: Settled, digest: bytes) -> None:
        """Refuse what an earlier session on the same terms came to otherwise; its digest is in the ledger from now on.

        A peer's snapshot is a name that it chose: behind the same name may be a table that lacks one person.
        """
        if dataset.policy.allow_rerelease:
            return
        terms, name = contract.deal.terms.hash.hex(), contract.hash.hex()
        told = SettledRecord(terms, what, dataset.keyed(what, digest), self._now(), session, name)
        with self._releasing:
            try:
                if settle(self.state.ledger, told):
                    return
                reason = _OTHERWISE[what]
            except BadInput:
                reason = unknown_past(dataset.name)
            self._refuse(contract.deal.user, [reason], name)
        raise NotAllowed(reason)

    def _note_alignment(
        self, contract: SignedContract, session: str, dataset: str, reading: TableReading, identifiers: int
    ) -> None:
        """Check once more, and enter the alignment in the ledger: then its first message may leave."""
        name, own = contract.hash.hex(), self.settings.name
        with self._releasing:
            if reasons := self._admission.release(contract, dataset, reading):
                self._refuse(contract.deal.user, reasons, name)
                raise NotAllowed(*reasons)
            peers = tuple(each for each in contract.parties if each != own)
            of = dataset, reading.card.snapshot or ""
            aligned(self.state.ledger, Aligned(*of, peers, identifiers, self._now(), session, name))

    def _note_list(self, contract: SignedContract, dataset: str, peer: str, identifiers: int) -> None:
        """Enter how many identifiers a peer submits, unless they are more than it may: then nothing is answered."""
        name, now = contract.hash.hex(), self._now()
        with self._releasing:
            policy, ledger = self.datasets[dataset].policy, Ledger.load(self.state.ledger)
            _, before = ledger.without(name).aligned_with(peer, dataset, now - WEEK)
            if before + identifiers > policy.alignments.identifiers_per_week:
                reason = against_identifiers(policy, peer)
                self._refuse(contract.deal.user, [reason], name)
                raise NotAllowed(reason)
            aligned(self.state.ledger, Submitted(name, peer, identifiers, now))

    def _now(self) -> int:
        return seconds_since_1970(self.clock)

    def _tell_changed(self) -> None:
        """Wake the publisher, from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.changed.set)

    def _refuse(self, asker: str, reasons: tuple[str, ...] | list[str], session: str | None) -> Refusal:
        told = tuple(map(one_line, reasons))
        self.audit.refusal(asker, told, session)
        log().info("refused", asker=asker, reasons=list(told), session=session)
        return Refusal(self.settings.name, told)
