"""From a request to a deal that every party signs, or to every reason why there is none.

Offers, counter-offers and refusals are stored and reported as they come:

    requested ─► negotiating ─► agreed ─► queued        `negotiation.py` decides each round, `sign.py` has it signed
                     │            └─────► published     when the cache has a release for these terms
                     ├─► refused
                     ├─► failed                         when a party does not answer, nor comes back in time
                     └─► awaiting_client                when the request was relaxed, and nothing better is to be had

Where the parties refuse because of an earlier release of the same tables that can be rolled up to what is asked for,
they are asked for that roll-up. A session that was being negotiated when the coordinator stopped is negotiated anew;
its rounds count on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from masquerade.errors import ParameterError, PeerError, PeerUnreachable, Problem
from masquerade.service.agree.arrangements import THE_REQUEST, against, resting
from masquerade.service.agree.negotiation import CounterOffer, Refused, negotiate, said_by
from masquerade.service.agree.request import Request, read_request
from masquerade.service.agree.terms import Deal, Offer, Refusal, cost
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.context import WorkingContext
from masquerade.service.coordinator.earlier_releases import EarlierReleases
from masquerade.service.coordinator.parties import Comeback, differing_clocks
from masquerade.service.coordinator.session_moves import cause_of, end, move, tell, tell_declined, tell_problem
from masquerade.service.coordinator.sign import Signer, requirements_of
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord
from masquerade.service.wire.control import AskOffer

log = structlog.get_logger("masquerade.coordinator")

_LONGEST_REASON = 4000
_HIGHEST_PRICE = 10**12  # cents that the store takes


@dataclass(frozen=True)
class Negotiator:
    """Negotiates sessions; several at once."""

    context: WorkingContext
    signer: Signer

    async def carry(self, session: SessionRecord) -> None:
        """Bring a session to the queue, to its release from the cache, or to its refusal."""
        if session.status is Status.REQUESTED:
            session = await move(self.context.store.sessions.advance, session, Status.NEGOTIATING)
        if session.status is Status.NEGOTIATING:
            try:
                agreed = await self._negotiated(session)
            except PeerError as error:
                await tell_problem(self.context.store, session, error)
                await self._end(session, Status.FAILED, error.lines, failed_by=error.peer)
                return
            if agreed is None:
                return
            session = agreed
        # Only now: who may be given a cached release follows from the contract that this session's parties have signed.
        if not await asyncio.to_thread(self.context.publisher.serve_from_cache, session):
            await move(self.context.store.sessions.advance, session, Status.QUEUED)
        self.context.wakeup.ring()

    async def _negotiated(self, session: SessionRecord) -> SessionRecord | None:
        """The session with its signed contract; None when it has ended without one."""
        request = read_request(dict(session.request)).asked_by(session.client)
        found = await asyncio.to_thread(self.context.directory.find, request)
        if found.problems or set(found.parties) != set(session.providers):
            problems = found.problems or (Problem("what the parties publish has changed; ask again"),)
            reasons = [str(each.within(THE_REQUEST)) for each in problems]
            await self._end(session, Status.REFUSED, reasons)
            return None
        # Their ledgers must be up to date, or they answer by releases that nobody was given.
        await tell_declined(self.context.store, self.context.links, session.providers)
        outcome = await self._agreement(session, request, found.datasets)
        if isinstance(outcome, Refused) and outcome.earlier is not None:
            outcome = await self._rolled_up(session, request, found.datasets, outcome, outcome.earlier)
        if isinstance(outcome, Refused):
            clocks = await differing_clocks(self.context, {*outcome.reasons} & {*session.providers})
            lines = [*outcome.lines, *said_by({each.party: (each.reason,) for each in clocks})]
            await self._end(session, Status.REFUSED, lines)
            return None
        agreed = "; ".join(requirements_of(outcome))
        same = f"the parties insist on {agreed}: the table would be the one that is held"
        if session.terms_hash == outcome.terms.hash.hex() and await self._held_on(session, [same]):
            return None
        signed = await self.signer.agree(session, outcome)
        if isinstance(signed, SessionRecord):
            return signed
        clocks = await differing_clocks(self.context, [each.party for each in signed])
        lines = [
            *said_by({each.party: each.reasons for each in signed}),
            *said_by({each.party: (each.reason,) for each in clocks}),
        ]
        await self._end(session, Status.REFUSED, lines)
        return None

    # --- offers ---

    async def _rolled_up(
        self, session: SessionRecord, request: Request, datasets: Mapping[str, str], refused: Refused, source: str
    ) -> Deal | Refused:
        """Ask for a roll-up of the earlier release, which is all that the parties may still publish of their tables."""
        lacking = await asyncio.to_thread(EarlierReleases(self.context).lacking, source)
        if lacking is not None:
            return Refused({**refused.reasons, THE_REQUEST: (lacking,)})
        await tell(self.context.store, session, "roll_up", {"terms_hash": source})
        return await self._agreement(session, request, datasets, source)

    async def _agreement(
        self, session: SessionRecord, request: Request, datasets: Mapping[str, str], source: str | None = None
    ) -> Deal | Refused:
        """Carry offers and counter-offers, round by round, until all insist on the same or somebody refuses."""
        before = await asyncio.to_thread(self.context.store.offers.of, session.id)
        number = max((offer.round for offer in before), default=0)
        earlier: list[CounterOffer] = []
        while True:
            number += 1
            asked = earlier[-1].request if earlier else request
            answers = await self._round(session, number, asked, datasets, source)
            outcome = negotiate(request, answers, earlier, source)
            if not isinstance(outcome, CounterOffer):
                return outcome
            earlier.append(outcome)
            wanted = outcome.request
            texts = [*map(str, wanted.privacy), *against(wanted.colluding), *resting(wanted.min_records)]
            told = {"round": number, "requirements": texts, "price": outcome.price}
            await tell(self.context.store, session, "counter", told)

    async def _round(
        self, session: SessionRecord, number: int, asked: Request, datasets: Mapping[str, str], source: str | None
    ) -> list[Offer | Refusal]:
        """Everybody's answer. Who is away has time to come back; where somebody refuses, it counts as refusing, too."""
        asked_of = {
            party: AskOffer(session.id, datasets[party], asked.content(), source) for party in session.providers
        }
        found = await self._answers(asked_of)
        comeback = Comeback(self.context)
        for error in _absent(found):
            await tell_problem(self.context.store, session, error)
        while absent := _absent(found):
            if any(isinstance(each, Refusal) for each in found.values()):
                break
            if not await comeback.pause():
                raise absent[0]
            found |= await self._answers({each.peer: asked_of[each.peer] for each in absent})
        answers = [each for each in found.values() if not isinstance(each, PeerUnreachable)]
        known = (each.records for each in answers if isinstance(each, Offer) and each.records)
        records = min(known, default=None)
        for each in answers:
            await self._note(session, number, each, records)
        return answers + [Refusal(error.peer, error.reasons) for error in absent]

    async def _answers(self, asked_of: Mapping[str, AskOffer]) -> dict[str, Offer | Refusal | PeerUnreachable]:
        """Ask these parties at once; what each says, or that it does not answer."""

        async def answer(party: str) -> Offer | Refusal | PeerUnreachable:
            try:
                return await self.context.links.offer(party, asked_of[party])
            except PeerUnreachable as error:
                return error

        found = await asyncio.gather(*map(answer, asked_of))
        return dict(zip(asked_of, found, strict=True))

    async def _note(self, session: SessionRecord, number: int, said: Offer | Refusal, records: int | None) -> None:
        terms: dict[str, Any] = {}
        price, texts, reasons = 0, list[str](), list[str]()
        if isinstance(said, Refusal):
            reasons = [reason[:_LONGEST_REASON] for reason in said.reasons]
        else:
            terms, price, texts = msgspec.to_builtins(said), cost([said.price], records), _texts(said)
        await asyncio.to_thread(
            self.context.store.offers.add, session.id, said.party, number, terms, min(price, _HIGHEST_PRICE), reasons
        )
        told = {"party": said.party, "round": number, "price": price}
        await tell(self.context.store, session, "offer", told | {"requirements": texts, "reasons": reasons})

    # --- endings ---

    async def _end(self, session: SessionRecord, status: Status, reasons: Sequence[str], **details: str) -> None:
        if await self._held_on(session, reasons):
            return
        await end(self.context.store, session, status, reasons, **details)
        log.info(status.value, session=session.id, reasons=len(reasons))

    async def _held_on(self, session: SessionRecord, reasons: Sequence[str]) -> bool:
        """Let a session that was relaxed wait for its client again; whether there is a held table to wait with."""
        if session.terms_hash is None:  # the first negotiation
            return False
        hold_on = self.context.store.releases.hold_on
        held = await asyncio.to_thread(hold_on, session, cause_of(reasons), list(reasons))
        if held is None:
            return False
        metrics.moved(held)
        log.info("not relaxed", session=session.id, reasons=len(reasons))
        return True


def _absent(found: Mapping[str, Offer | Refusal | PeerUnreachable]) -> list[PeerUnreachable]:
    return [each for each in found.values() if isinstance(each, PeerUnreachable)]


def _texts(offer: Offer) -> list[str]:
    k = offer.joint_k
    jointly = (f"k-anonymity (k = {k}) over all attributes of all parties together",) if k else ()
    try:
        return [*map(str, offer.parts), *jointly, *against(offer.m), *resting(offer.min_records)]
    except ParameterError:  # what cannot be read is told by the negotiation
        return []
