"""The coordinator's persistent state: everything that must survive a restart, and nothing that parties keep private."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

from sqlalchemy import select, text

from masquerade.service.clock import SYSTEM_CLOCK, Now
from masquerade.service.store import events, releases, sessions, users
from masquerade.service.store.database import Database, open_database
from masquerade.service.store.events import Events
from masquerade.service.store.records import Expired, PriceLedger, ProviderRegistry
from masquerade.service.store.releases import Releases
from masquerade.service.store.sessions import Offers, Queue, Sessions
from masquerade.service.store.tables import UserRow
from masquerade.service.store.users import Users

KEEP_EVENTS = timedelta(days=90)  # after a session's end
KEEP_GUESSES = timedelta(days=1)
KEEP_TOKENS = timedelta(days=7)  # after they expired or were revoked, so that their owner can see it


class Store:
    """Access to each kind of record. Every method is one transaction, and may be called from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.clock = database.clock  # of all times in the store
        self.lock = database.lock  # the right to work on it, for a coordinator; accounts need no lock
        self.close = database.close
        self.reason = database.reason  # of an outage, for the log: one line, without a password
        self.users = Users(database)
        self.providers = ProviderRegistry(database)
        self.sessions = Sessions(database)
        self.queue = Queue(database)
        self.offers = Offers(database)
        self.releases = Releases(database)
        self.ledger = PriceLedger(database)
        self.events = Events(database)

    @classmethod
    def open(cls, url: str, *, base: Path | None = None, clock: Now = SYSTEM_CLOCK.now) -> Self:
        """Open the store at `sqlite:///file.db` (relative to `base`) or `postgresql://…`, and migrate it.

        Raise ParameterError when it cannot be opened, or when a newer version of Masquerade made it.
        """
        return cls(open_database(url, base or Path(), clock))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ping(self) -> None:
        """Query the database for a health check; raise the driver's error when it does not answer."""
        with self._database.reading() as transaction:
            transaction.execute(text("SELECT 1"))

    def probe(self) -> None:
        """Check without writing that the database can be written; raise the driver's error when it cannot."""
        with self._database.writing() as transaction:  # on SQLite this takes the write lock
            transaction.scalars(select(UserRow.name).limit(1).with_for_update(skip_locked=True)).all()

    def expire(self, now: datetime | None = None, *, keep_events: timedelta = KEEP_EVENTS) -> Expired:
        """Apply retention: end sessions that waited too long, and name the files to delete.

        The files are named until `releases.forget` confirms that they are gone, so that none is left after a crash.
        """
        moment = now or self._database.clock()
        with self._database.writing() as transaction:
            ended = sessions.end_waiting(transaction, moment)
            transaction.flush()
            ids, files = releases.expired(transaction, moment)
            releases.purge_stale(transaction, moment, moment - keep_events)
            events.purge(transaction, moment - keep_events)
            users.purge(transaction, moment, KEEP_GUESSES, KEEP_TOKENS)
        return Expired(ids, files, tuple(ended))
