"""The events of a session, numbered without gaps, so that a listener can resume where it stopped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ScalarSelect, delete, select, update
from sqlalchemy.orm import Session as Transaction, aliased

from masquerade.errors import NotFound, shown
from masquerade.service.resources import Event
from masquerade.service.store import database as checks
from masquerade.service.store.database import StoreSection
from masquerade.service.store.tables import EventRow, SessionRow

_MOVE = "status"  # the kind of event that records a move


class Events(StoreSection):
    """The events of all sessions."""

    def append(self, session_id: str, kind: str, data: Mapping[str, Any]) -> Event:
        """Add an event to a session, visible to everyone who may see it."""
        with self._database.writing() as transaction:
            return append(transaction, session_id, kind, data, self._database.clock())

    def extend(self, session_id: str, several: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Add several events in one transaction, in their order."""
        with self._database.writing() as transaction:
            now = self._database.clock()
            for kind, data in several:
                append(transaction, session_id, kind, data, now)

    def after(self, session_id: str, number: int = 0, limit: int = 500) -> list[Event]:
        """Return the events of a session that follow the one with this number, in order."""
        query = (
            select(EventRow)
            .where(EventRow.session == checks.findable(session_id), EventRow.number > number)
            .order_by(EventRow.number)
            .limit(checks.page(limit))
        )
        return self._database.read(Event, query)

    def last_moves(self, session_ids: Iterable[str]) -> dict[str, Event]:
        """Return the event of each session's last move, by session, in one query."""
        query = select(EventRow).where(EventRow.session.in_(session_ids), EventRow.number == _last_move())
        return {event.session: event for event in self._database.read(Event, query)}

    def since_last_move(self, session_ids: Iterable[str], kind: str) -> dict[str, list[Event]]:
        """Return the events of a kind that followed each session's last move, by session and in order, in one query."""
        query = (
            select(EventRow)
            .where(EventRow.session.in_(session_ids), EventRow.kind == kind, EventRow.number > _last_move())
            .order_by(EventRow.session, EventRow.number)
        )
        found: dict[str, list[Event]] = {}
        for event in self._database.read(Event, query):
            found.setdefault(event.session, []).append(event)
        return found

    def last(self, session_id: str, kind: str) -> Event | None:
        """Return the newest event of a kind, or None."""
        query = (
            select(EventRow)
            .where(EventRow.session == checks.findable(session_id), EventRow.kind == kind)
            .order_by(EventRow.number.desc())
            .limit(1)
        )
        return self._database.read_first(Event, query)


def last_move(transaction: Transaction, session_id: str) -> Event | None:
    """Return the event of a session's last move, within a transaction."""
    query = select(EventRow).where(EventRow.session == session_id, EventRow.number == _last_move())
    row = transaction.scalars(query).one_or_none()
    return None if row is None else Event.model_validate(row)


def _last_move() -> ScalarSelect[int]:
    """Select the number of the last move of the query's session, searching from the end of its events."""
    move = aliased(EventRow)
    return (
        select(move.number)
        .where(move.session == EventRow.session, move.kind == _MOVE)
        .order_by(move.number.desc())
        .limit(1)
        .scalar_subquery()
    )


def append(transaction: Transaction, session_id: str, kind: str, data: Mapping[str, Any], now: datetime) -> Event:
    """Add an event. Counting locks the session's row, so events are numbered in the order of commits."""
    counted = (
        update(SessionRow)
        .where(SessionRow.id == checks.findable(session_id))
        .values(last_event=SessionRow.last_event + 1)
        .returning(SessionRow.last_event)
        .execution_options(synchronize_session=False)
    )
    number = transaction.execute(counted).scalar_one_or_none()
    if number is None:
        raise NotFound(f"there is no session {shown(session_id)}")
    row = EventRow(
        session=session_id,
        number=number,
        time=now,
        kind=checks.checked_text(kind, "the event's kind", longest=64),
        data=checks.document(data, "the event's data"),
    )
    transaction.add(row)
    return Event.model_validate(row)


def purge(transaction: Transaction, before: datetime) -> None:
    """Delete the events of sessions that ended before a time."""
    ended = select(SessionRow.id).where(SessionRow.finished <= before)
    transaction.execute(delete(EventRow).where(EventRow.session.in_(ended)))
