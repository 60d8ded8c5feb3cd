"""A client's decisions: to cancel a session, and what becomes of a table that waits for its word.

    any state but a final one ─► cancelled
    awaiting_client ─► published (accept)  ─► cancelled (withdraw)  ─► negotiating (relax)

A decision is about the session as it was read. When it has moved since, it can still be cancelled; any other decision
is a Conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import structlog

from masquerade.errors import Conflict, NotAllowed, ParameterError, Problem
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.context import Context
from masquerade.service.coordinator.intake import Intake, Reading
from masquerade.service.kinds.kind import THE_REQUEST
from masquerade.service.quality import QUALITY_TERMS, limits_of, missed_terms
from masquerade.service.request import Request
from masquerade.service.resources import Role, User
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord

log = structlog.get_logger("masquerade.coordinator")

_ONLY_JUDGED = (
    *(term.key for term in QUALITY_TERMS),
    "estimate",
    "signed",
)  # what may change without a party being asked
_TRIES = 5  # a move is made on a session as it was read; somebody may be faster a few times, not for ever


class Decisions:
    """The decisions of clients; an admin may cancel as well."""

    def __init__(self, context: Context, intake: Intake) -> None:
        self._context, self._intake = context, intake

    def cancel(self, user: User, session: SessionRecord) -> SessionRecord:
        """End a session, whatever it is doing."""
        _require_client(user, session, admins=True)
        for _ in range(_TRIES):
            if session.status.final:
                raise Conflict(f"session {session.id} is {session.status} already")
            try:
                session = self._context.store.sessions.advance(
                    session, Status.CANCELLED, f"cancelled by {user.name}"
                )
                break
            except Conflict:
                session = self._context.store.sessions.get(session.id)
        else:
            raise Conflict(f"session {session.id} moves too fast; try again")
        return self._decided(metrics.moved(session))

    # --- on a table that is held ---

    def accept(self, user: User, session: SessionRecord) -> SessionRecord:
        """Publish the table that was held, as it is."""
        _require_held(user, session)
        return self._decided(self._context.publisher.accept(session))

    def withdraw(self, user: User, session: SessionRecord) -> SessionRecord:
        """Decline the table that was held: it is deleted, and nothing is published or charged.

        The parties enter it in their ledgers as shown to peers and not released (session_moves.tell_declined).
        """
        _require_held(user, session)
        cause = f"declined by {user.name}"
        return self._decided(
            metrics.moved(self._context.store.sessions.advance(session, Status.CANCELLED, cause))
        )

    def relax(self, user: User, session: SessionRecord, content: Any) -> SessionRecord:
        """Ask the same parties again with some keys of the request changed; what they refuse leaves the held table.

        Where nothing but the wished quality changes, nobody is asked: the table that is held is judged again.
        """
        _require_held(user, session)
        if not isinstance(content, Mapping):
            raise ParameterError("request: must be a table of keys and values")
        unsigned = {
            key: each for key, each in session.request.items() if key != "signed"
        }  # it is another one now
        reading = self._intake.read(session.client, {**unsigned, **content})
        request = reading.request
        changed = _changed(session, reading) if not reading.unreadable else ()
        self._intake.refuse(user, reading, *changed)
        wanted = request.content()
        if all(each == session.request.get(key) for key, each in wanted.items() if key not in _ONLY_JUDGED):
            self._require_quality(session, request)
            return self._decided(self._context.publisher.accept(session, wanted))
        session = self._context.store.sessions.relax(
            session, wanted, attempt_limit=request.attempts, expires=self._intake.expiry(request)
        )
        return self._decided(metrics.moved(session))

    def _require_quality(self, session: SessionRecord, request: Request) -> None:
        """ParameterError when the table that is held misses this quality, too."""
        move = self._context.store.events.last_moves([session.id]).get(session.id)
        held = (move.data.get("missed") if move is not None else None) or {}
        judged = {term.figure: held.get(term.figure) for term in QUALITY_TERMS} | limits_of(request)
        problems = []
        for term in missed_terms(judged):
            figure, wished = judged[term.figure], judged[term.key]
            measured = "could not be measured" if figure is None else f"is {figure:.6g}"
            text = (
                f"the {term.name} of the table that is held {measured}, so {wished:g} is missed too; accept the table,"
                " allow a larger one, or relax something else as well"
            )
            problems.append(Problem(text, source=THE_REQUEST, key=(term.key,)))
        if problems:
            raise ParameterError(*problems)

    def _decided(self, session: SessionRecord) -> SessionRecord:
        log.info("decided", session=session.id, status=session.status.value, cause=session.cause)
        if session.status is Status.CANCELLED:
            self._context.publisher.clear()
        self._context.wakeup.ring()
        return session


def _changed(session: SessionRecord, reading: Reading) -> Iterator[Problem]:
    """What a session keeps, and its relaxed request would change."""
    request, found = reading.request, reading.found
    if request.purpose != session.purpose:
        yield Problem(f'stays "{session.purpose}"; for another make a new request', key=("purpose",))
    if {*request.receivers, session.client} != {*session.recipients, session.client}:
        yield Problem("stay as they were; for others make a new request", key=("recipients",))
    if not found.problems and set(found.parties) != set(session.providers):
        parties = ", ".join(session.providers)
        text = f"stay those of {parties}, each with one at least; for others make a new request"
        yield Problem(text, key=("attributes",))


def _require_client(user: User, session: SessionRecord, *, admins: bool = False) -> None:
    if session.client != user.name and not (admins and user.role is Role.ADMIN):
        raise NotAllowed(f"session {session.id}: only its client decides")


def _require_held(user: User, session: SessionRecord) -> None:
    _require_client(user, session)
    if session.status is not Status.AWAITING_CLIENT:
        raise Conflict(f"session {session.id} is {session.status}: nothing waits for a word on it")
