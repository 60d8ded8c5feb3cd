"""One attempt to run a session: everybody prepares, starts, and hands in; the coordinator assembles.

It comes back with the verified release, or with why there is none: `Busy` when a party has no place now, a PeerError
when a party failed (worth another attempt), any other error when trying again would not help. Whatever happens, the
parties are told that it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import structlog

from masquerade.anonymize.release import Release
from masquerade.audit.log import AuditLog
from masquerade.errors import MasqueradeError, NotAllowed, PeerError, Problem
from masquerade.net.channel import Agreement, Node
from masquerade.net.connect import Listener, listen
from masquerade.net.first_cause import first_cause
from masquerade.net.script import Move, Receive
from masquerade.net.session import run_script
from masquerade.protocol.assemble import assemble
from masquerade.protocol.collaborate.messages import Records, Rows
from masquerade.protocol.collaborate.third_party import third_party
from masquerade.protocol.columns import Columns
from masquerade.service.answering import Refusal
from masquerade.service.control import Prepare, Progress, Ready, Start
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.bargaining import drawn_up
from masquerade.service.coordinator.column_order import as_asked
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.coordinator.prices import contract_of
from masquerade.service.coordinator.progress_watch import ProgressWatch, endings
from masquerade.service.coordinator.signatures import Unsigned, signed_by_all
from masquerade.service.session_tokens import TokenIssuer
from masquerade.service.signing import SignedContract
from masquerade.service.store import Session, Status

log = structlog.get_logger("masquerade.coordinator")

_GRACE = 5.0  # seconds that the parties get to say what went wrong
_HANDED_IN = (Columns, Records, Rows)  # the kinds of messages with which a party's part is over
_SOON = 120  # seconds: a contract that expires sooner is drawn up anew


class Busy(Exception):
    """A party has no place for the session now; its name, and what it waits for."""

    def __init__(self, party: str, reason: str) -> None:
        super().__init__(f"party {party}: {reason}")
        self.party = party


@dataclass(frozen=True)
class Assembled:
    """What an attempt came to: the release, and what each party told at the end."""

    session: Session  # assembling
    contract: SignedContract
    release: Release
    progress: Mapping[str, Progress]


class Attempt:
    """One attempt of one session, which is running."""

    def __init__(
        self, coordinator: Coordinator, links: PartyLinks, audit: AuditLog, session: Session
    ) -> None:
        self._coordinator, self._links, self._audit = coordinator, links, audit
        self._settings, self._store = coordinator.settings, coordinator.store
        self.session = session
        self.contract = contract_of(session)
        self._shown = False  # whether a party was told to prepare

    async def run(self) -> Assembled:
        """The verified release."""
        try:
            await self._renew()
            async with listen(
                self._settings.identity, self._settings.trust, self._settings.session_address
            ) as listener:
                return await self._assembled(listener)
        except BaseException:
            await self._call_off()
            raise

    # --- signatures ---

    async def _renew(self) -> None:
        """A contract that was used, is about to expire, or is not signed yet, is drawn up and signed anew."""
        contract, now = self.contract, self._coordinator.clock()
        fresh = contract.attempt == self.session.attempts and contract.expiry > now.timestamp() + _SOON
        fresh &= contract.hash.hex() == self.session.contract_hash  # not so when another version wrote it
        if fresh and set(contract.signatures) == set(contract.parties):
            return
        drawn = drawn_up(self._coordinator, contract.deal, self.session.attempts)
        found = await signed_by_all(self._links, self._settings.trust, self.session.id, drawn, now)
        if isinstance(found, Unsigned):
            if found.refusals:
                raise _refused(found.refusals)
            party, reason = next(iter(found.waiting.items()))
            raise Busy(party, reason)
        await asyncio.to_thread(self._audit.contract, found.canonical(), found.hash.hex())
        self.session = await asyncio.to_thread(
            self._store.sessions.renew, self.session, found.hash.hex(), msgspec.to_builtins(found)
        )
        self.contract = found
        told = {
            "terms_hash": found.deal.terms.hash.hex(),
            "contract_hash": found.hash.hex(),
            "attempt": found.attempt,
        }
        await asyncio.to_thread(self._store.events.append, self.session.id, "contract", told)

    # --- the run ---

    async def _assembled(self, listener: Listener) -> Assembled:
        name, parties, show = self.contract.hash.hex(), self.contract.parties, self.contract.deal.show_steps
        addresses = await self._ready(name)
        port = listener.address.rpartition(":")[2]
        addresses[self._settings.name] = f"{self._settings.session_host}:{port}"
        await asyncio.gather(*(self._links.start(party, name, Start(addresses)) for party in parties))
        watch = ProgressWatch(self._links, self._store, self.session.id, name, parties)
        looking = asyncio.create_task(watch.until_one_fails(show))
        working = asyncio.create_task(self._release(listener, addresses))
        release: Release | None = None
        ours: MasqueradeError | None = None
        try:
            await asyncio.wait({looking, working}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({working}, timeout=_GRACE)  # it may say more about it than the parties do
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
            if not working.cancelled():
                release = working.result()
            elif looking.done():
                looking.result()  # a failure of our own is no party's
        except MasqueradeError as error:
            ours = error
        finally:
            for task in (looking, working):
                task.cancel()
            await asyncio.gather(looking, working, return_exceptions=True)
        await watch.until_settled(show, _GRACE)
        if release is None:
            raise first_cause(endings(watch.told), ours)
        return Assembled(self.session, self.contract, release, watch.known)

    async def _ready(self, name: str) -> dict[str, str]:
        issuer = TokenIssuer(self._settings.identity, clock=self._coordinator.clock)
        parties = self.contract.parties
        self._shown = True
        asked = [Prepare(self.session.id, self.contract, issuer.issue(party, name)) for party in parties]
        calls = [self._links.prepare(party, said) for party, said in zip(parties, asked, strict=True)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for failed in answers:  # all have answered by now, so that nobody prepares for what was called off
            if isinstance(failed, BaseException):
                raise failed
        refusals = [answer for answer in answers if isinstance(answer, Refusal)]
        if any(not refusal.busy for refusal in refusals):
            raise _refused(refusals)
        for refusal in refusals:
            raise Busy(refusal.party, "; ".join(refusal.reasons))
        return {
            party: answer.address
            for party, answer in zip(parties, answers, strict=True)
            if isinstance(answer, Ready)
        }

    async def _release(self, listener: Listener, addresses: Mapping[str, str]) -> Release:
        contract, parties = self.contract, self.contract.parties
        nodes = [Node(party, addresses[party]) for party in parties]
        agreement = Agreement(contract.hash, contract.deal.terms.version)
        awaited = set(parties)
        moving: list[asyncio.Task[None]] = []

        def on_move(move: Move) -> None:
            if isinstance(move, Receive) and move.kind in _HANDED_IN:
                awaited.discard(move.peer)
                if not awaited and not moving:
                    moving.append(asyncio.create_task(self._assembling()))

        try:
            with self._audit.session(contract.hash.hex(), parties) as transcript:
                async with listener.connect(nodes, agreement, self._settings.timings) as channels:
                    agreed = contract.contract
                    script = assemble(agreed) if agreed.collaboration is None else third_party(agreed)
                    release = await run_script(script, channels, transcript=transcript, on_move=on_move)
                    await asyncio.shield(moving[0])  # a move that has begun is made, whoever cancels us
        finally:  # whoever comes next must know where the session stands
            await asyncio.gather(*moving, return_exceptions=True)
        release = replace(release, table=as_asked(release.table, self.session.request))
        return release if contract.deal.show_steps else replace(release, steps=())

    async def _assembling(self) -> None:
        moved = await asyncio.to_thread(self._store.sessions.advance, self.session, Status.ASSEMBLING)
        self.session = metrics.moved(moved)

    # --- and its end ---

    async def _call_off(self) -> None:
        """Tell all parties that it is over, also when we are being stopped ourselves."""
        if not self._shown:
            return
        name = self.contract.hash.hex()
        stops = [asyncio.create_task(self._links.stop(party, name)) for party in self.contract.parties]
        await asyncio.wait(stops, timeout=_GRACE)
        for stop in stops:
            stop.cancel()
        for ended in await asyncio.gather(*stops, return_exceptions=True):
            if isinstance(ended, BaseException) and not isinstance(ended, PeerError | asyncio.CancelledError):
                log.warning("not called off", session=self.session.id, problem=type(ended).__name__)


def _refused(refusals: Sequence[Refusal]) -> NotAllowed:
    return NotAllowed(*(Problem(reason, party=each.party) for each in refusals for reason in each.reasons))
