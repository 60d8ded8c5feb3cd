"""The exclusive right to work on a state folder or a database, held by one coordinator at a time.

A second one would take the first one's running sessions for interrupted ones. Files are locked with flock, PostgreSQL
with an advisory lock on a dedicated connection: both are released when their process ends, however it ends.
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

_COORDINATOR = 0x6D617371  # any number, the same for all coordinators
_TAKE = text("SELECT pg_try_advisory_lock(:ours, hashtext(current_schema()))")
_LET_GO = text("SELECT pg_advisory_unlock_all()")
_SELF = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
_END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid AND backend_start = :start"
)
_NOTICE = ("tcp_keepalives_idle = 10", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3")
_GHOST_ENDS_WITHIN = 5.0  # seconds


class Lock(Protocol):
    """A lock that one process at a time can hold."""

    name: str  # of what is locked, for a person

    def hold(self) -> bool:
        """Take the lock, or check that it is still ours; return False when another process has it."""

    def release(self) -> None:
        """Release the lock."""


class AdvisoryLock:
    """A lock on one schema of a PostgreSQL database, held as long as its connection lasts."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self.name = engine, name
        self._connection: Connection | None = None
        self._own: dict[str, Any] | None = None  # our connection as the server knows it

    def hold(self) -> bool:
        """Take the lock, again if its connection was lost; raise the driver's error if the database is away."""
        if self._connection is not None:
            try:
                self._connection.execute(text("SELECT 1"))
                return True
            except DBAPIError:
                self.release()
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()  # taken from the pool: only we close it
        try:
            if not connection.scalar(_TAKE, {"ours": _COORDINATOR}) and not self._outlived(connection):
                connection.close()
                return False
            for setting in _NOTICE:  # a vanished coordinator is noticed within seconds, not hours
                connection.execute(text(f"SET {setting}"))
            self._own = dict(connection.execute(_SELF).mappings().one())
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return True

    def _outlived(self, connection: Connection) -> bool:
        """Take the lock over from our own lost connection, if the server still keeps it; return success."""
        if self._own is None:
            return False
        gone = {"pid": self._own["pid"], "start": self._own["backend_start"]}
        if not connection.execute(_END, gone).all():
            return False
        deadline = time.monotonic() + _GHOST_ENDS_WITHIN
        while not connection.scalar(_TAKE, {"ours": _COORDINATOR}):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def release(self) -> None:
        """Release the lock."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(DBAPIError), closing(connection):
                # Free it at once for the next process. The server frees that of a lost connection by itself.
                if not connection.invalidated:
                    connection.execute(_LET_GO)
