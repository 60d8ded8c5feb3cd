"""One coordinator at a time works on a state folder and a database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from masquerade.errors import ParameterError
from masquerade.files import FileLock
from masquerade.service.coordinator.settings import CoordinatorSettings
from masquerade.service.store import Lock, Store, is_outage


class Replaced(ParameterError):
    """Another coordinator works on our database now: this one has to end."""


class SingleInstance:
    """Held while a coordinator works. Commands that look at the store or keep accounts do not need it."""

    def __init__(self, settings: CoordinatorSettings, store: Store) -> None:
        self._path, self._store = settings.path, store
        self._folder: Lock = FileLock(settings.state / "lock", str(settings.state))
        self._mutex = threading.Lock()
        self._held = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Work alone while the block runs; ParameterError when another coordinator does. May be nested."""
        if self._held:
            yield
            return
        try:
            self._take()
            self._held = True
            yield
        finally:
            with self._mutex:
                self._held = False
                self._store.lock.release()
                self._folder.release()

    def check(self) -> None:
        """Make sure that we still work alone; a lock whose connection was lost is taken again, or Replaced."""
        with self._mutex:
            if self._held and not self._store.lock.hold():
                raise Replaced(
                    f"{self._store.lock.name}: another coordinator took this database while our connection to it was"
                    " lost; stopped, so that no session is run by both"
                )

    def _take(self) -> None:
        if not self._folder.hold():
            raise ParameterError(f"{self._path}: state: another coordinator uses {self._folder.name}; stop it first")
        lock = self._store.lock
        try:
            ours = lock.hold()
        except Exception as error:
            if not is_outage(error):
                raise
            raise ParameterError(f"{self._path}: database: {self._store.reason(error)}") from None
        if not ours:
            raise ParameterError(f"{self._path}: database: another coordinator uses {lock.name}; stop it first")


# --- outage -------------------------------------------------------------------------------------------------
# Whether the coordinator's database can be used, and whether we are still the only coordinator that uses it.

log = structlog.get_logger("masquerade.coordinator")


class Outage:
    """An outage of the database, logged when it begins and when it is over."""

    def __init__(self, store: Store, single_instance: SingleInstance) -> None:
        self._store, self._single_instance = store, single_instance
        self.lasts = False

    def noticed(self, error: Exception) -> None:
        """Take note of an error that the database's absence caused."""
        if not self.lasts:
            log.error("no database", problem=self._store.reason(error))
        self.lasts = True

    async def insist_on_database(self) -> None:
        """Raise unless we work alone, and what we find out can be stored."""
        await asyncio.to_thread(self._single_instance.check)
        if self.lasts:
            await asyncio.to_thread(self._store.probe)
            self.lasts = False
            log.info("the database is back")
