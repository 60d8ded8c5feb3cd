"""From a request to a contract that every party has signed, or to every reason why there is none.

Offers, counter-offers and refusals are stored and told as they come. A session that was being negotiated when the
coordinator stopped is negotiated anew; its rounds count on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import structlog

from masquerade.audit.log import AuditLog
from masquerade.errors import ParameterError, PeerError, PeerUnreachable
from masquerade.service.answering import Offer, Refusal
from masquerade.service.control import AskOffer
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.cache import serve_from_cache
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.discovery import find
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.coordinator.signatures import Unsigned, signed_by_all
from masquerade.service.horizontal import against
from masquerade.service.negotiation import THE_REQUEST, CounterOffer, Refused, negotiate
from masquerade.service.request import Request, read_request
from masquerade.service.signing import SignedContract, draw_up
from masquerade.service.store import Session, Status
from masquerade.service.terms import Deal, cost

log = structlog.get_logger("masquerade.coordinator")

_TRIES = 3  # so often a party that does not answer is asked
_LONGEST_CAUSE = 3900
_SLOWEST_POLL = 30.0


class Bargaining:
    """Negotiates one session at a time; several may run at once."""

    def __init__(self, coordinator: Coordinator, links: PartyLinks, audit: AuditLog) -> None:
        self._coordinator, self._links, self._audit = coordinator, links, audit
        self._settings, self._store = coordinator.settings, coordinator.store

    async def carry(self, session: Session) -> None:
        """Bring a session to the queue, to its release from the cache, or to its refusal."""
        if session.status is Status.REQUESTED:
            session = await self._move(session, Status.NEGOTIATING)
        if session.status is Status.NEGOTIATING:
            try:
                agreed = await self._negotiated(session)
            except PeerError as error:
                await self._tell(session, "problem", {"party": error.peer, "text": "; ".join(error.reasons)})
                await self._end(session, Status.FAILED, error.lines, failed_by=error.peer)
                return
            if agreed is None:
                return
            session = agreed
        await self._onwards(session)

    # --- offers ---

    async def _negotiated(self, session: Session) -> Session | None:
        request = read_request(dict(session.request)).asked_by(session.client)
        offered = await asyncio.to_thread(self._coordinator.directory.offered, session.client)
        found = find(request, offered)
        if found.problems or set(found.parties) != set(session.providers):
            problems = found.problems or ("what the parties publish has changed; ask again",)
            await self._refuse(session, [f"{THE_REQUEST}: {problem}" for problem in problems])
            return None
        before = await asyncio.to_thread(self._store.offers.of, session.id)
        number = max((offer.round for offer in before), default=0)
        earlier: list[CounterOffer] = []
        while True:
            number += 1
            asked = earlier[-1].request if earlier else request
            answers, absent = await self._round(session, number, asked, found.datasets)
            if absent and not any(isinstance(each, Refusal) for each in answers):
                raise absent[0]
            if absent:  # somebody refuses as well: every reason counts
                answers += [Refusal(error.peer, error.reasons) for error in absent]
            outcome = negotiate(request, answers, earlier)
            if isinstance(outcome, Refused):
                await self._refuse(session, outcome.lines)
                return None
            if isinstance(outcome, CounterOffer):
                earlier.append(outcome)
                wanted = outcome.request
                texts = [*map(str, wanted.privacy), *against(wanted.colluding)]
                told = {"round": number, "requirements": texts, "price": outcome.price}
                await self._tell(session, "counter", told)
                continue
            deal = outcome.deal
            if session.terms_hash == deal.terms.hash.hex() and await self._held_on(
                session, [_the_same(deal)]
            ):
                return None
            return await self._signed(session, deal)

    async def _round(
        self, session: Session, number: int, asked: Request, datasets: Any
    ) -> tuple[list[Offer | Refusal], list[PeerUnreachable]]:
        parties = session.providers
        asking = (
            self._answer(party, AskOffer(session.id, datasets[party], asked.content())) for party in parties
        )
        found = await asyncio.gather(*asking)
        answers = [each for each in found if not isinstance(each, PeerUnreachable)]
        absent = [each for each in found if isinstance(each, PeerUnreachable)]
        records = min(
            (each.records for each in answers if isinstance(each, Offer) and each.records), default=None
        )
        for each in answers:
            await self._note(session, number, each, records)
        for error in absent:
            await self._tell(session, "problem", {"party": error.peer, "text": "; ".join(error.reasons)})
        return answers, absent

    async def _answer(self, party: str, asked: AskOffer) -> Offer | Refusal | PeerUnreachable:
        """A party's answer; one that does not answer is asked again."""
        for tried in range(1, _TRIES + 1):
            try:
                return await self._links.offer(party, asked)
            except PeerUnreachable as error:
                if tried == _TRIES:
                    return error
            await asyncio.sleep(self._settings.retry_after * tried)
        raise AssertionError

    async def _note(self, session: Session, number: int, said: Offer | Refusal, records: int | None) -> None:
        if isinstance(said, Refusal):
            terms: dict[str, Any] = {}
            price, texts, reasons = 0, [], [reason[:4000] for reason in said.reasons]
        else:
            terms, price = msgspec.to_builtins(said), cost([said.price], records)
            texts, reasons = _texts(said), []
        await asyncio.to_thread(
            self._store.offers.add, session.id, said.party, number, terms, min(price, 10**12), reasons
        )
        told = {
            "party": said.party,
            "round": number,
            "price": price,
            "requirements": texts,
            "reasons": reasons,
        }
        await self._tell(session, "offer", told)

    # --- signatures ---

    async def _signed(self, session: Session, deal: Deal) -> Session | None:
        """The session with a contract that all have signed. A party may have a person look at it first."""
        contract = drawn_up(self._coordinator, deal)
        pause = self._settings.retry_after
        told: set[str] = set()
        tries = 0
        while True:
            now = self._coordinator.clock()
            if contract.expiry - now.timestamp() < self._settings.contract_lifetime.total_seconds() / 2:
                contract = drawn_up(self._coordinator, deal)  # whoever signs late has as much time to run it
            try:
                found = await signed_by_all(self._links, self._settings.trust, session.id, contract, now)
                tries = 0
            except PeerUnreachable as error:
                tries += 1
                if tries >= _TRIES and not told:
                    raise
                await self._tell(session, "problem", {"party": error.peer, "text": "; ".join(error.reasons)})
                found = None
            if isinstance(found, SignedContract):
                return await self._agreed(session, found)
            if isinstance(found, Unsigned):
                if found.refusals:
                    lines = [f"{each.party}: {reason}" for each in found.refusals for reason in each.reasons]
                    await self._refuse(session, lines)
                    return None
                for party in sorted(set(found.waiting) - told):
                    await self._tell(session, "approval", {"party": party, "reason": found.waiting[party]})
                    told.add(party)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _SLOWEST_POLL) if told else pause

    async def _agreed(self, session: Session, contract: SignedContract) -> Session:
        await asyncio.to_thread(self._audit.contract, contract.canonical(), contract.hash.hex())
        terms, named = contract.deal.terms.hash.hex(), contract.hash.hex()
        session = metrics.moved(
            await asyncio.to_thread(
                self._store.sessions.agree, session, terms, named, msgspec.to_builtins(contract)
            )
        )
        told = {"terms_hash": terms, "contract_hash": named, "attempt": contract.attempt}
        await self._tell(session, "contract", told | {"requirements": _agreed(contract.deal)})
        log.info("agreed", session=session.id, contract=named)
        return session

    # --- and then ---

    async def _onwards(self, session: Session) -> None:
        """From the cache, if a release for the same terms may be served to this user; otherwise to the queue."""
        if not await asyncio.to_thread(serve_from_cache, self._coordinator, session):
            await self._move(session, Status.QUEUED)
        self._coordinator.wakeup.ring()

    async def _refuse(self, session: Session, lines: Iterable[str]) -> None:
        reasons = list(lines)
        await self._end(session, Status.REFUSED, reasons)

    async def _end(self, session: Session, status: Status, reasons: Sequence[str], **more: str) -> None:
        if await self._held_on(session, reasons):
            return
        await self._move(session, status, cause_of(reasons), {"reasons": list(reasons), **more})
        log.info(status.value, session=session.id, reasons=len(reasons))

    async def _held_on(self, session: Session, reasons: Sequence[str]) -> bool:
        """Whether a session that was relaxed waits for its client again, because what it has now is not to be had."""
        if session.terms_hash is None:  # the first negotiation
            return False
        held = await asyncio.to_thread(
            self._store.releases.hold_on, session, cause_of(reasons), list(reasons)
        )
        if held is None:
            return False
        metrics.moved(held)
        log.info("not relaxed", session=session.id, reasons=len(reasons))
        return True

    async def _move(
        self, session: Session, to: Status, cause: str | None = None, details: dict[str, Any] | None = None
    ) -> Session:
        return metrics.moved(
            await asyncio.to_thread(self._store.sessions.advance, session, to, cause, details)
        )

    async def _tell(self, session: Session, kind: str, data: dict[str, Any]) -> None:
        await asyncio.to_thread(self._store.events.append, session.id, kind, data)


def drawn_up(coordinator: Coordinator, deal: Deal, attempt: int = 1) -> SignedContract:
    """A new contract for a deal, with the fingerprints that we know, which nobody has signed yet."""
    trust = coordinator.settings.trust
    keys = {party: trust.fingerprint(party) for party in deal.terms.parties}
    expiry = coordinator.clock() + coordinator.settings.contract_lifetime
    return draw_up(deal, keys, int(expiry.timestamp()), attempt)


def cause_of(reasons: Sequence[str]) -> str:
    """All reasons in one line, as long as the store takes."""
    cause = "; ".join(reasons)
    return cause if len(cause) <= _LONGEST_CAUSE else cause[: _LONGEST_CAUSE - 1] + "…"


def _agreed(deal: Deal) -> list[str]:
    """The requirement that holds."""
    return [*map(str, deal.terms.parts), *against(deal.terms.m)]


def _the_same(deal: Deal) -> str:
    return f"the parties insist on {'; '.join(_agreed(deal))}: the table would be the one that is held"


def _texts(offer: Offer) -> list[str]:
    try:
        return [*map(str, offer.parts), *against(offer.m)]
    except ParameterError:  # what cannot be read is told by the negotiation
        return []
