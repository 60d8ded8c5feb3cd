"""Sessions as the API shows them: beyond their rows, why they ended, what they wait for, what they published.

Told for any number of sessions in three looks at the store, so that a list costs no more than one of its lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from masquerade.errors import ParameterError
from masquerade.methods import plain_method
from masquerade.service import resources
from masquerade.service.kinds.horizontal import against
from masquerade.service.quality import limits_of
from masquerade.service.request import DEFAULT_ARRANGEMENT
from masquerade.service.resources import Event, MissedQuality
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord, Store
from masquerade.service.terms import read_parts

_TOLD_BY_THEIR_MOVE = (Status.AWAITING_CLIENT, Status.PUBLISHED)


def summaries(store: Store, user: str, sessions: Iterable[SessionRecord]) -> list[resources.Session]:
    """The sessions in their order, as the API tells them; `rows` only of what this user may have."""
    sessions = list(sessions)
    telling = [each.id for each in sessions if each.cause is not None or each.status in _TOLD_BY_THEIR_MOVE]
    negotiating = [each.id for each in sessions if each.status is Status.NEGOTIATING]
    published = [each.id for each in sessions if each.status is Status.PUBLISHED]
    moves = store.events.last_moves(telling) if telling else {}
    asked = store.events.since_last_move(negotiating, "approval") if negotiating else {}
    rows = store.releases.rows(published, user) if published else {}
    return [
        resources.Session(
            **{**dict(each), "request": _with_numbers(each.request)},
            reasons=reasons_of(each, moves.get(each.id)),
            failed_by=_failed_by(each, moves.get(each.id)),
            approvals=tuple(dict.fromkeys(str(event.data.get("party")) for event in asked.get(each.id, ()))),
            missed=_missed(each, moves.get(each.id)),
            rows=rows.get(each.id),
            agreed=_agreed(each),
            algorithm=_algorithm(each),
            choice=_deal(each).get("choice"),
            cached=_cached(each, moves.get(each.id)),
            rolled_up_from=_terms(each).get("source"),
        )
        for each in sessions
    ]


def reasons_of(session: SessionRecord, move: Event | None) -> tuple[str, ...]:
    """Why a session stands where it does, one line a reason; its cause alone once its events are forgotten."""
    if session.cause is None:
        return ()
    told = move.data.get("reasons") if move is not None else None
    return tuple(told) if told else (session.cause,)


def _with_numbers(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request as it is asked: contracts have no fractions and write these as text."""
    numbers: dict[str, Any] = dict(limits_of(request))
    if isinstance(request.get("algorithm"), Mapping):
        numbers["algorithm"] = plain_method(request["algorithm"])
    return {**request, **numbers}


def _failed_by(session: SessionRecord, move: Event | None) -> str | None:
    told = move.data.get("failed_by") if move is not None and session.status is Status.FAILED else None
    return told if isinstance(told, str) else None


def _missed(session: SessionRecord, move: Event | None) -> MissedQuality | None:
    waits = move is not None and session.status is Status.AWAITING_CLIENT
    told = move.data.get("missed") if move is not None and waits else None
    return MissedQuality.model_validate(told) if isinstance(told, Mapping) else None


def _agreed(session: SessionRecord) -> tuple[str, ...]:
    terms = _terms(session)
    try:
        parts = read_parts(
            terms.get("requirements") or (), "contract", terms.get("kind", DEFAULT_ARRANGEMENT)
        )
    except ParameterError:  # another version wrote it
        return ()
    return (*map(str, parts), *against(terms.get("m", 0)))


def _algorithm(session: SessionRecord) -> dict[str, Any] | None:
    """The method that the parties run; None without one yet, and for a roll-up, for which they run none."""
    terms = _terms(session)
    return plain_method(terms["method"]) if "method" in terms and terms.get("source") is None else None


def _terms(session: SessionRecord) -> Mapping[str, Any]:
    return _deal(session).get("terms") or {}


def _deal(session: SessionRecord) -> Mapping[str, Any]:
    return (session.contract or {}).get("deal") or {}


def _cached(session: SessionRecord, move: Event | None) -> bool:
    return session.status is Status.PUBLISHED and move is not None and bool(move.data.get("cached"))
