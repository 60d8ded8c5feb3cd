"""One coordinator at a time works on a state folder and a database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from masquerade.errors import ParameterError
from masquerade.files import FileLock
from masquerade.service.coordinator.settings import Settings
from masquerade.service.store import Lock, Store, is_outage


class Replaced(ParameterError):
    """Another coordinator works on our database now: this one has to end."""


class SingleInstance:
    """Held while a coordinator works. Commands that look at the store or keep accounts do not need it."""

    def __init__(self, settings: Settings, store: Store) -> None:
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
            raise ParameterError(
                f"{self._path}: state: another coordinator uses {self._folder.name}; stop it first"
            )
        lock = self._store.lock
        try:
            ours = lock.hold()
        except Exception as error:
            if not is_outage(error):
                raise
            raise ParameterError(f"{self._path}: database: {self._store.reason(error)}") from None
        if not ours:
            raise ParameterError(
                f"{self._path}: database: another coordinator uses {lock.name}; stop it first"
            )
