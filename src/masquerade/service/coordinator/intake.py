"""A request for a table: previewed, or turned into a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

import structlog

from masquerade.errors import Conflict, NotAllowed, ParameterError, PeerUnreachable, Problem
from masquerade.forms import Problems
from masquerade.protocol import RoleName
from masquerade.service.agree.arrangements import THE_REQUEST, Match, against
from masquerade.service.agree.objections import departures
from masquerade.service.agree.quality import QUALITY_TERMS, expected, foresee, limits_of, missed_terms
from masquerade.service.agree.request import Request, fill_request
from masquerade.service.agree.terms import strictest
from masquerade.service.clock import iso
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.context import Context
from masquerade.service.coordinator.housekeeping import retire
from masquerade.service.coordinator.rehearsal import Foretold, Rehearsal, changes
from masquerade.service.resources import RequestPreview, Role, User
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord

# --- intake -------------------------------------------------------------------------------------------------

_DECIDE_WHO = ("kind", "attributes", *get_args(RoleName), "providers", "parties")  # the keys by which parties are found


@dataclass(frozen=True)
class RequestReading:
    """A request as far as it could be read, and all that stands against it."""

    request: Request
    found: Match
    unreadable: tuple[Problem, ...]  # what is wrong with the request itself
    unmet: tuple[Problem, ...]  # why nobody can meet it


class Intake:
    """Takes in requests, and compares them with what the parties have published."""

    def __init__(self, context: Context, rehearsal: Rehearsal) -> None:
        self._context, self._rehearsal = context, rehearsal

    def preview(self, user: User, content: Any) -> RequestPreview:
        """Say what a request would come to. Nothing is stored.

        The parties are asked what they would answer, once nothing else stands against it.
        """
        try:
            reading = self.read(user.name, content)
        except ParameterError as error:
            return RequestPreview(errors=error.problems)
        request, found = reading.request, reading.found
        # What a party that has just started will publish in a moment is missing to everything else that is checked.
        problems = tuple(map(_unpublished, self._awaited(user, found))) or reading.unmet
        if reading.unreadable:
            unmet = (each.within(THE_REQUEST) for each in problems)
            return RequestPreview(errors=(*reading.unreadable, *unmet))
        wish = (*map(str, strictest(request.privacy, request.arrangement)), *against(request.colluding))
        cards = self._context.directory.cards(user.name, found.datasets)
        asked = self._context.directory.asked(request, found)
        foreseen = foresee(request, asked)
        snapshots = {party: each.card.snapshot for party, each in asked.items() if each.card.snapshot}
        reachable = {party: seen for party, (_, seen) in self._context.directory.sights().items()}
        away = [party for party in found.parties if not reachable.get(party, False)]
        foretold = None
        if not problems and not away:
            foretold = self._rehearsal.of(request, found.datasets, snapshots)
        told = foretold or Foretold()
        return RequestPreview(
            contributors=dict(found.contributors),
            parties=found.parties,
            requirement=wish,
            expected=expected(request, cards) if not problems else None,
            price=foreseen.price,
            budget=request.budget,
            purposes=foreseen.purposes,
            refused_by=foreseen.refused_by,
            unreachable=(*away, *told.unreachable),
            asked=foretold is not None,
            refusals=told.refusals,
            possible=None if told.possible is None else told.possible.content(),
            changes=() if told.possible is None else changes(request, told.possible),
            released_before=self._context.store.releases.has_any(user.name, snapshots),
            errors=problems,
        )

    def ask(self, user: User, content: Any) -> SessionRecord:
        """Make a session for a request; ParameterError with every problem when the request cannot be met."""
        reading = self.read(user.name, content)
        self.refuse(user, reading)
        request, found = reading.request, reading.found
        self._context.directory.admit(user.name, found.datasets)
        session = self._context.store.sessions.create(
            user.name,
            found.parties,
            request.purpose or "",
            request.content(),
            recipients=request.receivers,
            attempt_limit=request.attempts,
            expires=self.expiry(request),
        )
        metrics.requests.inc()
        metrics.moved(session)
        log.info("requested", session=session.id, user=user.name, parties=list(found.parties))
        self._context.wakeup.ring()
        return session

    # --- used as well when a request is relaxed ---

    def read(self, user: str, content: Any) -> RequestReading:
        """Read a request and find its parties, so that every problem is known at once.

        Of what could not be read, nothing is said beyond that.
        """
        problems = Problems(THE_REQUEST)
        request = fill_request(content, problems).asked_by(user)
        found = self._context.directory.find(request)
        unmet: list[Problem] = []
        now = self._context.store.clock()
        if request.deadline is not None and request.deadline <= now.timestamp():
            over = iso(datetime.fromtimestamp(request.deadline, UTC))
            text = f"{over} has passed, it is {iso(now.replace(microsecond=0))} now; give a later one"
            unmet.append(Problem(text, key=("deadline",)))
        if not any(problems.about((key,)) for key in _DECIDE_WHO):
            unmet += found.problems
        if problems.found:  # a method judges whole requests alone, and so does a signature
            unmet = [each for each in unmet if each.key[:1] != ("algorithm",)]
        elif request.signed is not None:  # whether it is what its client signed; parties verify the signature itself
            unmet += [Problem(text, key=("signed",)) for text in departures(request, request.signed)]
        return RequestReading(request, found, tuple(problems.found), tuple(unmet))

    def refuse(self, user: User, reading: RequestReading, *more: Problem) -> None:
        """Raise when anything stands against a request: what reading it showed, or more."""
        problems = [*reading.unmet, *more]
        awaited = self._awaited(user, reading.found)
        if awaited and not reading.unreadable:
            why = "; ".join(map(str, problems))
            raise PeerUnreachable(awaited[0], f"has not published yet, so ask again in a moment: {why}")
        if reading.unreadable or problems:
            raise ParameterError(*reading.unreadable, *problems, *map(_unpublished, awaited)).within(THE_REQUEST)

    def expiry(self, request: Request) -> datetime:
        """When a session that still waits ends: at its deadline, and after some days at the latest."""
        latest = self._context.store.clock() + self._context.settings.most_wait
        if request.deadline is None:
            return latest
        try:
            return min(latest, datetime.fromtimestamp(request.deadline, UTC))
        except (OverflowError, ValueError, OSError):  # later than any calendar
            return latest

    def _awaited(self, user: User, found: Match) -> list[str]:
        """The parties that may have a column which nobody offers: those that have not published yet."""
        missing = any(not held for held in found.contributors.values())
        return self._context.directory.silent(user.name) if missing else []


def _unpublished(party: str) -> Problem:
    return Problem(f"{party or 'one party'} has not published its datasets yet; ask again in a moment")


# --- decisions ----------------------------------------------------------------------------------------------
# A client's decisions: to cancel a session, and what becomes of a table that waits for its word.
#
#     any state but a final one ─► cancelled
#     awaiting_client ─► published (accept)  ─► cancelled (withdraw)  ─► negotiating (relax)
#
# A decision is about the session as it was read. When it has moved since, it can still be cancelled; any
# other decision is a Conflict.

log = structlog.get_logger("masquerade.coordinator")

_ONLY_JUDGED = (*(term.key for term in QUALITY_TERMS), "estimate", "signed")  # may change without a party being asked
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
                session = self._context.store.sessions.advance(session, Status.CANCELLED, f"cancelled by {user.name}")
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
        return self._decided(metrics.moved(self._context.store.sessions.advance(session, Status.CANCELLED, cause)))

    def relax(self, user: User, session: SessionRecord, content: Any) -> SessionRecord:
        """Ask the same parties again with some keys of the request changed; what they refuse leaves the held table.

        Where nothing but the wished quality changes, nobody is asked: the table that is held is judged again.
        """
        _require_held(user, session)
        if not isinstance(content, Mapping):
            raise ParameterError("request: must be a table of keys and values")
        unsigned = {key: each for key, each in session.request.items() if key != "signed"}  # it is another one now
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
            retire(self._context.store, self._context.files)  # what was declined
        self._context.wakeup.ring()
        return session


def _changed(session: SessionRecord, reading: RequestReading) -> Iterator[Problem]:
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
