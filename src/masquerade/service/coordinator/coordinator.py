"""The coordinator as its HTTP API and its console see it. Both use nothing else.

Every method here is synchronous and may be called from any thread; what takes long happens in the background, in
`run()`. Whoever may not see a thing is told that there is none. Admins see every session's course, and nobody's release
but their own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import structlog

from masquerade.errors import Conflict, NotAllowed, NotFound, ParameterError
from masquerade.service.accounts import Accounts, require
from masquerade.service.coordinator import metrics
from masquerade.service.coordinator.audit_tail import audit_tail
from masquerade.service.coordinator.directory import Directory
from masquerade.service.coordinator.directory import Provided as Provided  # what `providers` answers
from masquerade.service.coordinator.discovery import find
from masquerade.service.coordinator.files import Files
from masquerade.service.coordinator.found import Found
from masquerade.service.coordinator.prices import prices
from masquerade.service.coordinator.settings import Settings, open_store
from masquerade.service.coordinator.sole import Sole
from masquerade.service.coordinator.standing import Standing, reasons_of, standings
from masquerade.service.coordinator.wake import Wake
from masquerade.service.horizontal import against
from masquerade.service.negotiation import THE_REQUEST
from masquerade.service.request import Request, read_request
from masquerade.service.store import (
    Clock,
    Event,
    LedgerEntry,
    Offer,
    Release,
    Role,
    Session,
    Status,
    User,
    system_clock,
)
from masquerade.service.terms import strictest

log = structlog.get_logger("masquerade.coordinator")

_TRIES = 5  # a move is made on a session as it was read; somebody may be faster a few times, not for ever


@dataclass(frozen=True)
class Preview:
    """What a request would come to: who holds which column, what is wished, and what stands against it."""

    contributors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by column
    parties: tuple[str, ...] = ()  # who would take part
    requirement: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class Coordinator:
    """One coordinator: its store, its accounts, and all that users can do."""

    def __init__(self, settings: Settings, *, clock: Clock = system_clock) -> None:
        self.settings = settings
        self.clock = clock
        settings.make_state()
        self.store = open_store(settings, clock)
        self.accounts = Accounts(self.store)
        self.directory = Directory(settings, self.store)
        self.files = Files(settings.releases)
        self.wake = Wake()
        self.sole = Sole(settings, self.store)
        self.party_address: str | None = None  # where nodes push, once it is served
        self.in_trouble = False  # whether the background work waits for the database

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- in the background ---

    async def run(self) -> None:
        """Serve the parties, negotiate, run sessions, keep house; until cancelled.

        ParameterError when another coordinator works on the same state folder or database.
        """
        from masquerade.service.coordinator.background import Background

        await Background(self).run()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """The same, as long as the block runs; the party server listens when it begins."""
        from masquerade.service.coordinator.background import Background

        async with Background(self).running():
            yield self

    # --- what there is to ask for ---

    def providers(self, user: User) -> list[Provided]:
        """The parties that a user may ask, with the datasets that are open to this user."""
        return self.directory.provided(user.name)

    def provider(self, user: User, party: str) -> Provided:
        """One of them; NotFound for all others."""
        for each in self.providers(user):
            if each.party == party:
                return each
        raise NotFound(f'there is no provider "{party}"')

    def preview(self, user: User, content: Any) -> Preview:
        """What a request would come to. Nothing is stored, and nobody is asked."""
        try:
            request = read_request(content).asked_by(user.name)
        except ParameterError as error:
            return Preview(problems=error.problems)
        found = self._find(request)
        wish = (*map(str, strictest(request.privacy)), *against(request.colluding))
        return Preview(found.contributors, found.parties, wish, (*found.problems, *self._too_late(request)))

    def ask(self, user: User, content: Any) -> Session:
        """A new session for a request; ParameterError with every problem when the request cannot be met as it is."""
        request = read_request(content).asked_by(user.name)
        found = self._find(request)
        self._refuse(found, *self._too_late(request))
        self.directory.admit(user.name, found.datasets)
        session = self.store.sessions.create(
            user.name,
            found.parties,
            request.purpose or "",
            request.content(),
            recipients=request.receivers,
            attempt_limit=request.attempts,
            expires=self._expiry(request),
        )
        metrics.requests.inc()
        metrics.moved(session)
        log.info("requested", session=session.id, user=user.name, parties=list(found.parties))
        self.wake.ring()
        return session

    # --- a session's course ---

    def session(self, user: User, session_id: str) -> Session:
        """A session, for its client, its recipients and admins."""
        if user.role is Role.ADMIN:
            return self.store.sessions.get(session_id)
        return self.store.sessions.seen_by(session_id, user.name)

    def sessions(
        self,
        user: User,
        *,
        status: Status | str | None = None,
        limit: int = 50,
        after: str | None = None,
        everyone: bool = False,
    ) -> list[Session]:
        """The newest sessions of a user; with `everyone`, all of them, for admins."""
        if everyone:
            require(user, Role.ADMIN)
        return self.store.sessions.recent(
            None if everyone else user.name, status=_status(status), limit=limit, after=after
        )

    def reasons(self, session: Session) -> tuple[str, ...]:
        """Why a session was refused or failed, one line a reason; nothing for others."""
        if session.cause is None:
            return ()
        return reasons_of(session, self.store.events.last(session.id, "status"))

    def standings(self, user: User, sessions: Iterable[Session]) -> dict[str, Standing]:
        """What there is to tell of sessions that a user may see, by their identifiers; cheap for many."""
        return standings(self.store, user.name, sessions)

    def offers(self, user: User, session_id: str) -> list[Offer]:
        """The parties' answers, round by round."""
        return self.store.offers.of(self.session(user, session_id).id)

    def contract(self, user: User, session_id: str) -> Mapping[str, Any] | None:
        """What all parties signed, once they have."""
        return self.session(user, session_id).contract

    def events(self, user: User, session_id: str, after: int = 0, limit: int = 500) -> list[Event]:
        """What happened in a session since the event of this number."""
        return self.store.events.after(self.session(user, session_id).id, after, limit)

    # --- the client's decisions ---

    def cancel(self, user: User, session_id: str) -> Session:
        """End a session, whatever it is doing."""
        session = self._own(user, session_id, admins=True)
        for _ in range(_TRIES):
            if session.status.final:
                raise Conflict(f"session {session.id} is {session.status} already")
            try:
                session = self.store.sessions.advance(session, Status.CANCELLED, f"cancelled by {user.name}")
                break
            except Conflict:
                session = self.store.sessions.get(session.id)
        else:
            raise Conflict(f"session {session.id} moves too fast; try again")
        return self._decided(session)

    def accept(self, user: User, session_id: str) -> Session:
        """Publish the table that was held although its quality missed the wish."""
        session = self._awaiting(user, session_id)
        held = self.store.releases.held(session.id)
        if held is None:
            raise Conflict(f"session {session.id}: the table that was held is no longer kept")
        charges = prices(session, held.rows)
        session = self.store.releases.accept(session, charges)
        metrics.released_rows.inc(held.rows)
        for party, cents in charges.items():
            metrics.charged.labels(party).inc(cents)
        return self._decided(session)

    def withdraw(self, user: User, session_id: str) -> Session:
        """Do without the table that was held; nothing is published and nothing charged."""
        session = self._awaiting(user, session_id)
        cause = f"withdrawn by {user.name}: the wished quality was missed"
        return self._decided(self.store.sessions.advance(session, Status.CANCELLED, cause))

    def relax(self, user: User, session_id: str, content: Any) -> Session:
        """Ask the same parties again with some keys of the request changed; the table that was held is discarded."""
        session = self._awaiting(user, session_id)
        if not isinstance(content, Mapping):
            raise ParameterError("request: must be a table of keys and values")
        request = read_request({**session.request, **content}).asked_by(session.client)
        problems = self._too_late(request)
        if (request.purpose or "") != session.purpose:
            problems.append(f'purpose: stays "{session.purpose}"; for another make a new request')
        if {*request.receivers, session.client} != {*session.recipients, session.client}:
            problems.append("recipients: stay as they were; for others make a new request")
        found = self._find(request)
        if not found.problems and set(found.parties) != set(session.providers):
            parties = ", ".join(session.providers)
            problems.append(
                f"attributes: stay those of {parties}, each with one at least; for others make a new request"
            )
        self._refuse(found, *problems)
        session = self.store.sessions.relax(
            session, request.content(), attempt_limit=request.attempts, expires=self._expiry(request)
        )
        return self._decided(session)

    # --- what came of it: for client and recipients alone ---

    def release(self, user: User, session_id: str) -> Release:
        """What a session published."""
        return self.store.releases.of(session_id, user.name)

    def table(self, user: User, session_id: str, format: str = "csv") -> Path:
        """The file of the table, as "csv" or "parquet"."""
        return self.files.table(self.release(user, session_id).table_path, format)

    def report(self, user: User, session_id: str) -> Path:
        """The file of the report."""
        return self.files.whole(self.release(user, session_id).report_path)

    def summary(self, user: User, session_id: str) -> dict[str, Any]:
        """All that is told of a release: rows, groups, requirements, metrics, quality, what it took and cost."""
        release = self.release(user, session_id)
        lines = self.store.ledger.entries(session=release.session, limit=1000)
        charged = {line.party: line.cents for line in lines if line.kind == "charge"}
        return {
            **self.files.summary(release.table_path),
            "session": release.session,
            "cost": {"total": sum(charged.values()), "parties": charged},
        }

    # --- money, inquiry, health ---

    def ledger(
        self,
        user: User,
        *,
        of_user: str | None = None,
        party: str | None = None,
        session: str | None = None,
        limit: int = 100,
        after: int = 0,
    ) -> list[LedgerEntry]:
        """The lines of the price ledger: a user's own; for admins all, or those of one user."""
        whose = of_user if user.role is Role.ADMIN else user.name
        return self.store.ledger.entries(user=whose, party=party, session=session, limit=limit, after=after)

    def owed(self, user: User, *, of_user: str | None = None, party: str | None = None) -> int:
        """What a user owes, in cents; for admins what all owe, or one user."""
        return self.store.ledger.owed(user=of_user if user.role is Role.ADMIN else user.name, party=party)

    def audit_tail(self, user: User, limit: int = 100) -> list[dict[str, Any]]:
        """The last records of the coordinator's audit log, for admins; the newest last."""
        require(user, Role.ADMIN)
        return audit_tail(self.settings.audit, limit)

    def health(self) -> dict[str, Any]:
        """Whether the database answers, when the parties were last seen, and how much waits."""
        try:
            self.store.ping()
            queue = self.store.sessions.count(Status.QUEUED)
            computing = self.store.sessions.count(Status.RUNNING, Status.ASSEMBLING)
            sights = self.directory.sights()
        except Exception as error:  # whatever a driver raises: the database is the matter
            log.error("no database", problem=self.store.reason(error))
            known = self.directory.answering()
            return {
                "ready": False,
                "database": "does not answer",
                "parties": {party: {"last_seen": None, "reachable": there} for party, there in known.items()},
                "queue": None,
                "running": None,
            }
        return {
            "ready": not self.in_trouble,
            "database": "cannot be written" if self.in_trouble else "ok",
            "parties": {
                party: {"last_seen": _iso(seen), "reachable": reachable}
                for party, (seen, reachable) in sights.items()
            },
            "queue": queue,
            "running": computing,
        }

    # --- helpers ---

    def _find(self, request: Request) -> Found:
        return find(request, self.directory.offered(request.user))

    def _refuse(self, found: Found, *more: str) -> None:
        problems = [*found.problems, *more]
        if problems:
            raise ParameterError(*(f"{THE_REQUEST}: {problem}" for problem in problems))

    def _too_late(self, request: Request) -> list[str]:
        """Nobody can meet a deadline that has passed."""
        now = self.clock()
        if request.deadline is None or request.deadline > now.timestamp():
            return []
        over = _iso(datetime.fromtimestamp(request.deadline, UTC))
        return [
            f"deadline: {over} has passed, it is {_iso(now.replace(microsecond=0))} now; give a later one"
        ]

    def _expiry(self, request: Request) -> datetime:
        """When a session that still waits ends: at its deadline, and after some days at the latest."""
        latest = self.clock() + self.settings.most_wait
        if request.deadline is None:
            return latest
        try:
            return min(latest, datetime.fromtimestamp(request.deadline, UTC))
        except (OverflowError, ValueError, OSError):  # later than any calendar
            return latest

    def _own(self, user: User, session_id: str, *, admins: bool = False) -> Session:
        session = self.session(user, session_id)
        if session.client != user.name and not (admins and user.role is Role.ADMIN):
            raise NotAllowed(f"session {session.id}: only its client decides")
        return session

    def _awaiting(self, user: User, session_id: str) -> Session:
        session = self._own(user, session_id)
        if session.status is not Status.AWAITING_CLIENT:
            raise Conflict(f"session {session.id} is {session.status}: nothing waits for a word on it")
        return session

    def _decided(self, session: Session) -> Session:
        metrics.moved(session)
        log.info("decided", session=session.id, status=session.status.value, cause=session.cause)
        self.wake.ring()
        return session


def _status(status: Status | str | None) -> Status | None:
    if status is None:
        return None
    try:
        return Status(status)
    except ValueError:
        raise ParameterError(f"status: must be one of {', '.join(Status)}; got {status!r}") from None


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
