"""A request for a table: previewed, or turned into a session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import structlog

from masquerade.errors import ParameterError, PeerUnreachable, Problem
from masquerade.service.clock import iso
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.directory import Directory
from masquerade.service.coordinator.foresight import foresee
from masquerade.service.coordinator.settings import Settings
from masquerade.service.coordinator.wakeup import Wakeup
from masquerade.service.expectation import expected
from masquerade.service.kinds.horizontal import against
from masquerade.service.kinds.kind import THE_REQUEST, Match
from masquerade.service.request import Request, read_request
from masquerade.service.requester import departures
from masquerade.service.resources import RequestPreview, User
from masquerade.service.store import SessionRecord, Store
from masquerade.service.terms import strictest

log = structlog.get_logger("masquerade.coordinator")


class Intake:
    """Takes in requests, and compares them with what the parties have published."""

    def __init__(self, settings: Settings, store: Store, directory: Directory, wakeup: Wakeup) -> None:
        self._settings, self._store, self._directory, self._wakeup = settings, store, directory, wakeup

    def preview(self, user: User, content: Any) -> RequestPreview:
        """Say what a request would come to. Nothing is stored, and no party is asked."""
        try:
            request = read_request(content).asked_by(user.name)
        except ParameterError as error:
            return RequestPreview(errors=error.problems)
        found = self._directory.find(request)
        wish = (*map(str, strictest(request.privacy, request.kind)), *against(request.colluding))
        awaited = (
            Problem(f"{party or 'one party'} has not published yet") for party in self._awaited(user, found)
        )
        problems = (*found.problems, *awaited, *self.too_late(request), *wrongly_signed(request))
        cards = self._directory.cards(user.name, found.datasets)
        asked = self._directory.asked(request, found)
        foreseen = foresee(request, asked)
        snapshots = {party: each.card.snapshot for party, each in asked.items() if each.card.snapshot}
        reachable = {party: seen for party, (_, seen) in self._directory.sights().items()}
        return RequestPreview(
            contributors=dict(found.contributors),
            parties=found.parties,
            requirement=wish,
            expected=expected(request, cards) if not problems else None,
            price=foreseen.price,
            budget=request.budget,
            purposes=foreseen.purposes,
            refused_by=foreseen.refused_by,
            unreachable=tuple(party for party in found.parties if not reachable.get(party, False)),
            released_before=self._store.releases.has_any(user.name, snapshots),
            errors=problems,
        )

    def ask(self, user: User, content: Any) -> SessionRecord:
        """Make a session for a request; ParameterError with every problem when the request cannot be met."""
        request = read_request(content).asked_by(user.name)
        found = self._directory.find(request)
        self.refuse(user, found, *self.too_late(request), *wrongly_signed(request))
        self._directory.admit(user.name, found.datasets)
        session = self._store.sessions.create(
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
        self._wakeup.ring()
        return session

    # --- used as well when a request is relaxed ---

    def refuse(self, user: User, found: Match, *more: Problem) -> None:
        """Raise when anything stands against a request: problems of the search, or more."""
        problems = [*found.problems, *more]
        for party in self._awaited(user, found):
            why = "; ".join(map(str, problems))
            raise PeerUnreachable(party, f"has not published yet, so ask again in a moment: {why}")
        if problems:
            raise ParameterError(*problems).within(THE_REQUEST)

    def too_late(self, request: Request) -> list[Problem]:
        """The problem with a deadline that has passed, if it has."""
        now = self._store.clock()
        if request.deadline is None or request.deadline > now.timestamp():
            return []
        over = iso(datetime.fromtimestamp(request.deadline, UTC))
        text = f"{over} has passed, it is {iso(now.replace(microsecond=0))} now; give a later one"
        return [Problem(text, key=("deadline",))]

    def expiry(self, request: Request) -> datetime:
        """When a session that still waits ends: at its deadline, and after some days at the latest."""
        latest = self._store.clock() + self._settings.most_wait
        if request.deadline is None:
            return latest
        try:
            return min(latest, datetime.fromtimestamp(request.deadline, UTC))
        except (OverflowError, ValueError, OSError):  # later than any calendar
            return latest

    def _awaited(self, user: User, found: Match) -> list[str]:
        """The parties that may have a column which nobody offers: those that have not published yet."""
        missing = any(not held for held in found.contributors.values())
        return self._directory.silent(user.name) if missing else []


def wrongly_signed(request: Request) -> list[Problem]:
    """Where a request is not what its client signed; the signature itself is for the parties to verify."""
    if request.signed is None:
        return []
    return [Problem(text, key=("signed",)) for text in departures(request, request.signed)]
