"""A request for a table: previewed, or turned into a session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

import structlog

from masquerade.errors import ParameterError, PeerUnreachable, Problem
from masquerade.forms.problems import Problems
from masquerade.protocol.method import RoleName
from masquerade.service.clock import iso
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.context import Context
from masquerade.service.coordinator.foresight import foresee
from masquerade.service.coordinator.rehearsal import Foretold, Rehearsal, changes
from masquerade.service.expectation import expected
from masquerade.service.kinds.horizontal import against
from masquerade.service.kinds.kind import THE_REQUEST, Match
from masquerade.service.request import Request, fill_request
from masquerade.service.requester import departures
from masquerade.service.resources import RequestPreview, User
from masquerade.service.store import SessionRecord
from masquerade.service.terms import strictest

log = structlog.get_logger("masquerade.coordinator")

_DECIDE_WHO = (
    "kind",
    "attributes",
    *get_args(RoleName),
    "providers",
    "parties",
)  # the keys by which parties are found


@dataclass(frozen=True)
class Reading:
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

    def read(self, user: str, content: Any) -> Reading:
        """Read a request and find its parties, so that every problem is known at once.

        Of what could not be read, nothing is said beyond that.
        """
        problems = Problems(THE_REQUEST)
        request = fill_request(content, problems).asked_by(user)
        found = self._context.directory.find(request)
        unmet = list(self._too_late(request))
        if not any(problems.about((key,)) for key in _DECIDE_WHO):
            unmet += found.problems
        if problems.found:  # a method judges whole requests alone, and so does a signature
            unmet = [each for each in unmet if each.key[:1] != ("algorithm",)]
        else:
            unmet += _wrongly_signed(request)
        return Reading(request, found, tuple(problems.found), tuple(unmet))

    def refuse(self, user: User, reading: Reading, *more: Problem) -> None:
        """Raise when anything stands against a request: what reading it showed, or more."""
        problems = [*reading.unmet, *more]
        awaited = self._awaited(user, reading.found)
        if awaited and not reading.unreadable:
            why = "; ".join(map(str, problems))
            raise PeerUnreachable(awaited[0], f"has not published yet, so ask again in a moment: {why}")
        if reading.unreadable or problems:
            raise ParameterError(*reading.unreadable, *problems, *map(_unpublished, awaited)).within(
                THE_REQUEST
            )

    def _too_late(self, request: Request) -> list[Problem]:
        """The problem with a deadline that has passed, if it has."""
        now = self._context.store.clock()
        if request.deadline is None or request.deadline > now.timestamp():
            return []
        over = iso(datetime.fromtimestamp(request.deadline, UTC))
        text = f"{over} has passed, it is {iso(now.replace(microsecond=0))} now; give a later one"
        return [Problem(text, key=("deadline",))]

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


def _wrongly_signed(request: Request) -> list[Problem]:
    """Where a request is not what its client signed; the signature itself is for the parties to verify."""
    if request.signed is None:
        return []
    return [Problem(text, key=("signed",)) for text in departures(request, request.signed)]
