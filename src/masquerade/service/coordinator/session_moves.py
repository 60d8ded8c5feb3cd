"""Move sessions in the store from the event loop, count every move, and tell whoever watches a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import structlog

from masquerade.errors import Bug, PeerError, PeerRefused
from masquerade.forms import convert
from masquerade.service.agree.signing import SignedContract
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord, Store

log = structlog.get_logger("masquerade.coordinator")

_LONGEST_CAUSE = 3900


async def move(change: Callable[..., SessionRecord], *given: Any) -> SessionRecord:
    """Make a move of the store (`sessions.advance`, `sessions.retry` …) in a thread; the session as it is then."""
    return metrics.moved(await asyncio.to_thread(change, *given))


async def end(
    store: Store, session: SessionRecord, status: Status, reasons: Sequence[str], **details: str
) -> SessionRecord:
    """End a session for these reasons."""
    told = {"reasons": list(reasons), **details}
    return await move(store.sessions.advance, session, status, cause_of(reasons), told)


async def tell(store: Store, session: SessionRecord, kind: str, data: Mapping[str, Any]) -> None:
    """Append an event to a session."""
    await asyncio.to_thread(store.events.append, session.id, kind, data)


async def tell_problem(store: Store, session: SessionRecord, error: PeerError) -> None:
    """Append the event that a party failed."""
    await tell(store, session, "problem", {"party": error.peer, "text": "; ".join(error.reasons)})


async def tell_declined(store: Store, links: PartyLinks, parties: Collection[str]) -> None:
    """Tell these parties which releases were declined since they last heard; one that is away hears of it later."""
    for party, contract in await asyncio.to_thread(store.sessions.declines, parties):
        try:
            await links.decline(party, contract)
        except PeerRefused as error:  # it heard us, and will not have it: there it stays released
            log.warning("declined, not noted", party=party, contract=contract, problem=str(error))
        except PeerError as error:
            log.debug("declined, not told", party=party, contract=contract, problem=str(error))
            continue
        await asyncio.to_thread(store.sessions.decline_known, party, contract)


def contract_of(session: SessionRecord) -> SignedContract:
    """The contract of a session that has one."""
    if session.contract is None:
        raise Bug(f"session {session.id} has no contract")
    return convert(session.contract, SignedContract)


def cause_of(reasons: Sequence[str]) -> str:
    """All reasons in one line, cut to what the store takes."""
    cause = "; ".join(reasons)
    return cause if len(cause) <= _LONGEST_CAUSE else cause[: _LONGEST_CAUSE - 1] + "…"
