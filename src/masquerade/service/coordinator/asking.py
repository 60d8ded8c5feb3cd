"""A request for a table: what it would come to, and the session that it becomes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import structlog

from masquerade.errors import ParameterError, PeerUnreachable
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.directory import Directory
from masquerade.service.coordinator.discovery import find
from masquerade.service.coordinator.found import Found
from masquerade.service.coordinator.moments import iso
from masquerade.service.coordinator.settings import Settings
from masquerade.service.coordinator.wakeup import Wakeup
from masquerade.service.horizontal import against
from masquerade.service.negotiation import THE_REQUEST
from masquerade.service.request import Request, read_request
from masquerade.service.resources import RequestPreview
from masquerade.service.store import Session, Store, User
from masquerade.service.terms import strictest

log = structlog.get_logger("masquerade.coordinator")


class Asking:
    """Requests, held against what the parties have published."""

    def __init__(self, settings: Settings, store: Store, directory: Directory, wakeup: Wakeup) -> None:
        self._settings, self._store, self._directory, self._wakeup = settings, store, directory, wakeup

    def preview(self, user: User, content: Any) -> RequestPreview:
        """What a request would come to. Nothing is stored, and nobody is asked."""
        try:
            request = read_request(content).asked_by(user.name)
        except ParameterError as error:
            return RequestPreview(problems=error.lines)
        found = self.find(request)
        wish = (*map(str, strictest(request.privacy, request.kind)), *against(request.colluding))
        awaited = [f"{party or 'one party'} has not published yet" for party in self._awaited(user, found)]
        problems = (*found.problems, *awaited, *self.too_late(request))
        return RequestPreview(
            contributors=dict(found.contributors), parties=found.parties, requirement=wish, problems=problems
        )

    def ask(self, user: User, content: Any) -> Session:
        """A new session for a request; ParameterError with every problem when the request cannot be met as it is."""
        request = read_request(content).asked_by(user.name)
        found = self.find(request)
        self.refuse(user, found, *self.too_late(request))
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

    # --- what is looked at, also when a request changes ---

    def find(self, request: Request) -> Found:
        """The parties that can meet a request, and what stands against it."""
        return find(request, self._directory.offered(request.user))

    def refuse(self, user: User, found: Found, *more: str) -> None:
        """Raise when anything stands against a request: what was found, or more."""
        problems = [*found.problems, *more]
        for party in self._awaited(user, found):
            why = "; ".join(problems)
            raise PeerUnreachable(party, f"has not published yet, so ask again in a moment: {why}")
        if problems:
            raise ParameterError(*(f"{THE_REQUEST}: {problem}" for problem in problems))

    def too_late(self, request: Request) -> list[str]:
        """Nobody can meet a deadline that has passed."""
        now = self._store.clock()
        if request.deadline is None or request.deadline > now.timestamp():
            return []
        over = iso(datetime.fromtimestamp(request.deadline, UTC))
        return [f"deadline: {over} has passed, it is {iso(now.replace(microsecond=0))} now; give a later one"]

    def expiry(self, request: Request) -> datetime:
        """When a session that still waits ends: at its deadline, and after some days at the latest."""
        latest = self._store.clock() + self._settings.most_wait
        if request.deadline is None:
            return latest
        try:
            return min(latest, datetime.fromtimestamp(request.deadline, UTC))
        except (OverflowError, ValueError, OSError):  # later than any calendar
            return latest

    def _awaited(self, user: User, found: Found) -> list[str]:
        """Who may have a column that nobody offers: those that have not told yet what they have."""
        missing = any(not held for held in found.contributors.values())
        return self._directory.silent(user.name) if missing else []
