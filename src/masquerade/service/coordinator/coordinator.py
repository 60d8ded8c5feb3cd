"""The coordinator as its HTTP API and its console see it. Both use nothing else.

Every method here is synchronous and may be called from any thread; long work happens in the background, in `run()`.
What a user may not see does not exist for that user (NotFound). Admins see how every session goes, and nobody's release
but their own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import structlog

from masquerade.audit import AuditLog, last_records
from masquerade.errors import NotFound, ParameterError
from masquerade.files import FileError, check_space
from masquerade.methods import plain_method
from masquerade.service import resources
from masquerade.service.accounts import AccountLog, Accounts, require
from masquerade.service.agree.arrangements import against
from masquerade.service.agree.quality import limits_of
from masquerade.service.agree.request import DEFAULT_ARRANGEMENT
from masquerade.service.agree.terms import read_parts
from masquerade.service.clock import SYSTEM_CLOCK, Clock, iso
from masquerade.service.coordinator.background import Background
from masquerade.service.coordinator.context import Context
from masquerade.service.coordinator.directory import Directory
from masquerade.service.coordinator.intake import Decisions, Intake
from masquerade.service.coordinator.publish import ReleasePublisher
from masquerade.service.coordinator.rehearsal import Rehearsal
from masquerade.service.coordinator.release_files import ReleaseFiles
from masquerade.service.coordinator.settings import CoordinatorSettings, open_store
from masquerade.service.coordinator.single_instance import Outage, SingleInstance
from masquerade.service.coordinator.wakeup import Wakeup
from masquerade.service.resources import (
    Event,
    LedgerEntry,
    MissedQuality,
    PartyOffer,
    Provider,
    RequestPreview,
    Role,
    User,
)
from masquerade.service.session_states import Status
from masquerade.service.store import SessionRecord, Store, StoredRelease
from masquerade.service.wire.peers import TLS, Network

# --- session summary ----------------------------------------------------------------------------------------
# Sessions as the API shows them: beyond their rows, why they ended, what they wait for, what they published.
#
# Told for any number of sessions in three looks at the store, so that a list costs no more than one of its lines.

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
    return [_summary(each, moves.get(each.id), asked.get(each.id, ()), rows.get(each.id)) for each in sessions]


def _summary(session: SessionRecord, move: Event | None, asked: Iterable[Event], rows: int | None) -> resources.Session:
    """One session, given the event of its last move, those of approvals since then, and how many rows it published."""
    told: Mapping[str, Any] = move.data if move is not None else {}
    failed_by = told.get("failed_by") if session.status is Status.FAILED else None
    missed = told.get("missed") if session.status is Status.AWAITING_CLIENT else None
    deal: Mapping[str, Any] = (session.contract or {}).get("deal") or {}
    terms: Mapping[str, Any] = deal.get("terms") or {}
    # Contracts have no fractions, and write these numbers as text.
    numbers: dict[str, Any] = dict(limits_of(session.request))
    if isinstance(session.request.get("algorithm"), Mapping):
        numbers["algorithm"] = plain_method(session.request["algorithm"])
    # None without a method yet, and for a roll-up, for which the parties run none.
    runs = "method" in terms and terms.get("source") is None
    return resources.Session(
        **{**dict(session), "request": {**session.request, **numbers}},
        reasons=reasons_of(session, move),
        failed_by=failed_by if isinstance(failed_by, str) else None,
        approvals=tuple(dict.fromkeys(str(event.data.get("party")) for event in asked)),
        missed=MissedQuality.model_validate(missed) if isinstance(missed, Mapping) else None,
        rows=rows,
        agreed=_agreed(terms),
        algorithm=plain_method(terms["method"]) if runs else None,
        choice=deal.get("choice"),
        cached=session.status is Status.PUBLISHED and bool(told.get("cached")),
        rolled_up_from=terms.get("source"),
    )


def reasons_of(session: SessionRecord, move: Event | None) -> tuple[str, ...]:
    """Why a session stands where it does, one line a reason; its cause alone once its events are forgotten."""
    if session.cause is None:
        return ()
    told = move.data.get("reasons") if move is not None else None
    return tuple(told) if told else (session.cause,)


def _agreed(terms: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        parts = read_parts(terms.get("requirements") or (), "contract", terms.get("kind", DEFAULT_ARRANGEMENT))
    except ParameterError:  # another version wrote it
        return ()
    return (*map(str, parts), *against(terms.get("m", 0)))


# --- coordinator --------------------------------------------------------------------------------------------

log = structlog.get_logger("masquerade.coordinator")


class Coordinator:
    """One coordinator: its store, its accounts, and everything that users can do."""

    def __init__(self, settings: CoordinatorSettings, *, clock: Clock = SYSTEM_CLOCK, network: Network = TLS) -> None:
        self.settings = settings
        self.clock = clock
        settings.make_state()
        self.store = open_store(settings, clock.now)
        self._audit: AuditLog | None = None
        self._entering = threading.Lock()
        self.accounts = Accounts(self.store, log=AccountLog(log, self._enter))
        self.directory = Directory(settings, self.store)
        self.files = ReleaseFiles(settings.releases)
        self.wakeup = Wakeup(clock)
        self.single_instance = SingleInstance(settings, self.store)
        self._publisher = ReleasePublisher(settings, self.store, self.files, clock)
        self.context = Context(
            settings, self.store, self.directory, self.files, self._publisher, self.wakeup, clock, network
        )
        rehearsal = Rehearsal(self.context)
        self._intake = Intake(self.context, rehearsal)
        self._decisions = Decisions(self.context, self._intake)
        self._outage = Outage(self.store, self.single_instance)
        self.background = Background(self.context, self.single_instance, self._outage, rehearsal)

    def close(self) -> None:
        """Let go of the store."""
        self._publisher.close()
        if self._audit is not None:
            self._audit.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- in the background ---

    async def run(self) -> None:
        """Serve the parties, negotiate, run sessions, keep house, until cancelled.

        ParameterError when another coordinator works on the same state folder or database.
        """
        async with self.running():
            await asyncio.Event().wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Do the same as long as the block runs; the party server listens when it begins."""
        async with self.background.running():
            yield self

    # --- providers and requests ---

    def providers(self, user: User) -> list[Provider]:
        """The parties that a user may ask, with the datasets that are open to this user."""
        return self.directory.provided(user.name)

    def provider(self, user: User, party: str) -> Provider:
        """A party that a user may ask; NotFound for all others."""
        for each in self.providers(user):
            if each.party == party:
                return each
        raise NotFound(f'there is no provider "{party}"')

    def preview(self, user: User, content: Any) -> RequestPreview:
        """Say what a request would come to, and what the parties would answer to it now. Nothing is stored."""
        return self._intake.preview(user, content)

    def ask(self, user: User, content: Any) -> SessionRecord:
        """Make a session for a request; ParameterError with every problem when the request cannot be met."""
        return self._intake.ask(user, content)

    # --- a session's course ---

    def session(self, user: User, session_id: str) -> SessionRecord:
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
    ) -> list[SessionRecord]:
        """The newest sessions of a user; with `everyone`, all of them, for admins."""
        if everyone:
            require(user, Role.ADMIN)
        return self.store.sessions.recent(
            None if everyone else user.name, status=_status(status), limit=limit, after=after
        )

    def reasons(self, session: SessionRecord) -> tuple[str, ...]:
        """Why a session was refused or failed, one line a reason; nothing for others."""
        if session.cause is None:
            return ()
        return reasons_of(session, self.store.events.last(session.id, "status"))

    def summaries(self, user: User, sessions: Iterable[SessionRecord]) -> list[resources.Session]:
        """Sessions that a user may see, as the API shows them, in the given order; cheap for many."""
        return summaries(self.store, user.name, sessions)

    def offers(self, user: User, session_id: str) -> list[PartyOffer]:
        """The parties' answers, round by round."""
        return self.store.offers.of(self.session(user, session_id).id)

    def contract(self, user: User, session_id: str) -> Mapping[str, Any] | None:
        """What all parties signed, once they have."""
        return self.session(user, session_id).contract

    def events(self, user: User, session_id: str, after: int = 0, limit: int = 500) -> list[Event]:
        """The events of a session after the one with the number `after`."""
        return self.store.events.after(self.session(user, session_id).id, after, limit)

    # --- the client's decisions ---

    def cancel(self, user: User, session_id: str) -> SessionRecord:
        """End a session, whatever it is doing."""
        return self._decisions.cancel(user, self.session(user, session_id))

    def accept(self, user: User, session_id: str) -> SessionRecord:
        """Publish the table that was held, as it is."""
        return self._decisions.accept(user, self.session(user, session_id))

    def withdraw(self, user: User, session_id: str) -> SessionRecord:
        """Decline the table that was held: it is deleted, and nothing is published or charged."""
        return self._decisions.withdraw(user, self.session(user, session_id))

    def relax(self, user: User, session_id: str, content: Any) -> SessionRecord:
        """Ask the same parties again with some keys of the request changed; what they refuse leaves the held table.

        Where nothing but the wished quality changes, nobody is asked: the table that is held is judged again.
        """
        return self._decisions.relax(user, self.session(user, session_id), content)

    # --- releases: for client and recipients alone ---

    def release(self, user: User, session_id: str) -> StoredRelease:
        """What a session published."""
        return self.store.releases.of(session_id, user.name)

    def table(self, user: User, session_id: str, format: str = "csv") -> Path:
        """The file of the table, as "csv" or "parquet"."""
        return self.files.table(self.release(user, session_id).table_path, format)

    def report(self, user: User, session_id: str) -> Path:
        """The file of the report."""
        return self.files.whole(self.release(user, session_id).report_path)

    def summary(self, user: User, session_id: str) -> dict[str, Any]:
        """The figures of a release: rows, groups, requirements, metrics, quality, effort and cost."""
        release = self.release(user, session_id)
        lines = self.store.ledger.entries(session=release.session, limit=1000)
        charged = {line.party: line.cents for line in lines}
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
        return last_records(self.settings.audit, limit)

    @property
    def party_address(self) -> str | None:
        """Where nodes push what they publish, once it is served."""
        return self.background.party_address

    def health(self) -> dict[str, Any]:
        """Whether the database answers and files can be written, when the parties were last seen, how much waits."""
        store, directory, in_trouble = self.store, self.directory, self._outage.lasts
        files = self._files()
        try:
            store.ping()
            queue = store.sessions.count(Status.QUEUED)
            computing = store.sessions.count(Status.RUNNING, Status.ASSEMBLING)
            sights = directory.sights()
        except Exception as error:  # whatever a driver raises: the database is the matter
            log.error("no database", problem=store.reason(error))
            known = directory.answering()
            return {
                "ready": False,
                "database": "does not answer",
                "files": files,
                "parties": {party: {"last_seen": None, "reachable": there} for party, there in known.items()},
                "queue": None,
                "running": None,
            }
        return {
            "ready": not in_trouble and files == "ok",
            "database": "cannot be written" if in_trouble else "ok",
            "files": files,
            "parties": {
                party: {"last_seen": None if seen is None else iso(seen), "reachable": reachable}
                for party, (seen, reachable) in sights.items()
            },
            "queue": queue,
            "running": computing,
        }

    def _files(self) -> str:
        try:
            check_space(self.settings.state)
        except FileError as error:
            log.error("no files", problem=str(error))
            return "cannot be written"
        return "ok"

    def _enter(self, event: str, fields: Mapping[str, Any]) -> None:
        """Append an event to the audit log, which is opened by the first one."""
        with self._entering:
            if self._audit is None:
                self._audit = AuditLog(self.settings.audit, self.settings.identity)
        self._audit.append(event, fields)


def _status(status: Status | str | None) -> Status | None:
    if status is None:
        return None
    try:
        return Status(status)
    except ValueError:
        raise ParameterError(f"status: must be one of {', '.join(Status)}; got {status!r}") from None
