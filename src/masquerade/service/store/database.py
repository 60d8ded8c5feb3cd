"""The database behind the store: opened, migrated, and used in short transactions.

SQLite: write-ahead log, foreign keys on, and write transactions that take the lock when they begin, because a reader
that turns writer in the middle can be refused without waiting. PostgreSQL: read committed; rows that will change are
locked when they are read.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psycopg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, Select, create_engine, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    TimeoutError as NoConnection,
)
from sqlalchemy.orm import Session as Transaction, sessionmaker

from masquerade.data import PostgresUrl, database_path
from masquerade.errors import ParameterError, one_line, shown
from masquerade.files import FileLock
from masquerade.service.clock import Now
from masquerade.service.resources import Resource
from masquerade.service.store.tables import Base

# --- checks -------------------------------------------------------------------------------------------------
# Checks on values before they are stored; each refusal is one clear line, the same for every database.

MOST_CENTS = 10**12
_USER = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,127}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


def user_name(name: str) -> str:
    """Return a valid user name in its one spelling: nobody can pass for another by a capital or an accent."""
    if not _USER.fullmatch(name):
        raise ParameterError(
            f"{shown(name)} cannot name a user: small letters a-z, digits and . _ @ + - are allowed,"
            " first a letter or a digit, at most 128 characters"
        )
    return name


def findable(name: str) -> str:
    """Normalise a name for look-up; names that no database can store match nobody."""
    return "" if _unstorable(name) else name


def checked_text(value: str, what: str, longest: int = 4_000) -> str:
    """Check that every database can hold this text; return it."""
    if _unstorable(value):
        raise ParameterError(f"{what}: {shown(value)} holds characters that are no text")
    if len(value) > longest:
        raise ParameterError(f"{what}: at most {longest} characters are allowed; got {len(value)}")
    return value


def document(value: Mapping[str, Any], what: str, longest: int = 4_000_000) -> dict[str, Any]:
    """Return a checked copy of a JSON object, which later changes cannot affect."""
    try:
        written = json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"{what}: not a JSON object: {error}") from None
    if len(written) > longest:
        raise ParameterError(f"{what}: at most {longest} bytes of JSON are allowed; got {len(written)}")
    copied: dict[str, Any] = json.loads(written)
    return copied


def sha256(value: str, what: str) -> str:
    """Check a SHA-256 digest of 64 hexadecimal digits."""
    if not _HASH.fullmatch(value):
        raise ParameterError(f"{what}: must be 64 hexadecimal digits (small letters); got {shown(value)}")
    return value


def cents(value: int, what: str) -> int:
    """Check an amount of money: whole cents, never a float."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_CENTS:
        raise ParameterError(f"{what}: must be whole cents from 0 to {MOST_CENTS}; got {value!r}")
    return value


def page(limit: int) -> int:
    """Check the number of items in one page."""
    if not 1 <= limit <= 1000:
        raise ParameterError(f"limit: must be from 1 to 1000; got {limit}")
    return limit


def _unstorable(value: str) -> bool:
    return "\0" in value or value.encode("utf-8", "ignore").decode() != value


# --- lock ---------------------------------------------------------------------------------------------------
# The exclusive right to work on a state folder or a database, held by one coordinator at a time.
#
# A second one would take the first one's running sessions for interrupted ones. Files are locked with
# flock, PostgreSQL with an advisory lock on a dedicated connection: both are released when their process
# ends, however it ends.

_COORDINATOR = 0x6D617371  # any number, the same for all coordinators
_TAKE = text("SELECT pg_try_advisory_lock(:ours, hashtext(current_schema()))")
_LET_GO = text("SELECT pg_advisory_unlock_all()")
_SELF = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
_END = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid AND backend_start = :start")
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


# --- database -----------------------------------------------------------------------------------------------

Record = TypeVar("Record", bound=Resource)

VERSION_TABLE = "masquerade_version"
_MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATION_LOCK = 0x6D617371  # any number, the same for all coordinators
_BUSY_SECONDS = 30
_POSTGRESQL = ("postgresql://", "postgres://")
# A vanished server is noticed within half a minute, not hours; the URL may override this.
_NOTICED = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000}
_one_migration = threading.Lock()  # Alembic keeps its state in module globals


class Database:
    """Short transactions on one database."""

    def __init__(self, engine: Engine, clock: Now, lock: Lock, scrub: Callable[[str], str] = str) -> None:
        self.engine = engine
        self.clock = clock
        self.lock = lock  # for exclusive use by one coordinator
        self._scrub = scrub
        # Makes one atomic change: everything in it is stored, or nothing
        self.writing = sessionmaker(engine, expire_on_commit=False).begin
        # Opens a read transaction, which blocks nobody
        self.reading = sessionmaker(engine.execution_options(masquerade_reads=True), expire_on_commit=False).begin

    def close(self) -> None:
        """Close every connection: the idle ones now, those in use when they are returned."""
        event.listen(self.engine, "checkin", lambda _connection, entry: entry.close())
        self.engine.dispose()

    def read(self, kind: type[Record], query: Select[Any]) -> list[Record]:
        """Return the rows of a query as frozen values, each field from the row's attribute of the same name."""
        with self.reading() as transaction:
            return [kind.model_validate(row) for row in transaction.scalars(query)]

    def read_first(self, kind: type[Record], query: Select[Any]) -> Record | None:
        """Return the first row of a query as a frozen value, or None."""
        with self.reading() as transaction:
            row = transaction.scalars(query).first()
            return None if row is None else kind.model_validate(row)

    def reason(self, error: BaseException) -> str:
        """Return the driver's description of an outage, in one line and without a password."""
        told = error.orig if isinstance(error, DBAPIError) else error
        return one_line(self._scrub(str(told).strip().partition("\n")[0]))


class StoreSection:
    """One kind of record in the store: its queries and changes, each one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database


def check_url(url: str) -> None:
    """Refuse a URL that names no database the service can use."""
    if url.startswith(_POSTGRESQL):
        PostgresUrl.parse(url)
    elif url.startswith("sqlite:"):
        database_path(url, Path())
    else:
        scheme, found, _ = url.partition("://")  # the rest may hold a password: it is not repeated
        told = f"{scheme}://…: not a database for the service" if found else "not the URL of a database"
        raise ParameterError(f"{told}; allowed are sqlite:///file.db and postgresql://user:password@host/database")


def open_database(url: str, base: Path, clock: Now) -> Database:
    """Open the database at a URL and migrate it; raise ParameterError when that is impossible."""
    address: PostgresUrl | None = None
    check_url(url)
    if url.startswith(_POSTGRESQL):
        address = PostgresUrl.parse(url)
        engine, name = _postgres(address), address.shown()
        lock: Lock = AdvisoryLock(engine, name)
    else:
        path = database_path(url, base)
        engine, name = _sqlite(path), str(path)
        lock = FileLock(path.with_name(f"{path.name}.lock"), name)
    database = Database(engine, clock, lock, str if address is None else address.scrub)
    try:
        if address is None:
            _use_write_ahead_log(engine)
        migrate(engine, name)
    except DBAPIError as error:
        engine.dispose()
        raise ParameterError(f"{name}: cannot be opened as a database: {database.reason(error)}") from None
    except ParameterError:
        engine.dispose()
        raise
    return database


def insert_if_new(transaction: Transaction, table: Any, values: dict[str, Any]) -> None:
    """Add a row unless its key exists. Wait for a concurrent insert of the same key."""
    insert = postgresql.insert if transaction.get_bind().dialect.name == "postgresql" else sqlite.insert
    statement: Any = insert(table).values(**values)
    transaction.execute(statement.on_conflict_do_nothing())


def migrate(engine: Engine, name: str) -> None:
    """Migrate the tables in one transaction; coordinators that start together take turns."""
    with _one_migration, engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        config = alembic_config(connection)
        found = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_heads()
        _refuse_unknown(connection, found, ScriptDirectory.from_config(config), name)
        command.upgrade(config, "head")


def alembic_config(connection: Connection) -> Config:
    """Return the Alembic configuration for this connection."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _refuse_unknown(connection: Connection, found: tuple[str, ...], scripts: ScriptDirectory, name: str) -> None:
    if newer := sorted(set(found) - {script.revision for script in scripts.walk_revisions()}):
        raise ParameterError(
            f"{name}: the database is of a newer version (revision {', '.join(newer)}; this version knows "
            f"revisions up to {scripts.get_current_head()}); update Masquerade, or use another database"
        )
    ours = [] if found else sorted({*inspect(connection).get_table_names()} & {*Base.metadata.tables})
    if ours:
        raise ParameterError(
            f"{name}: the database holds a table {ours[0]} that Masquerade did not make; use a database of its own"
        )


def _postgres(address: PostgresUrl) -> Engine:
    given = address.parameters or ""
    noticed: dict[str, Any] = {name: each for name, each in _NOTICED.items() if f"{name}=" not in given}
    return create_engine(
        "postgresql+psycopg://",
        # libpq reads the URL, as for a party's data
        creator=lambda: psycopg.connect(address.for_driver(), **noticed),
        json_serializer=partial(json.dumps, allow_nan=False),
        pool_pre_ping=True,  # the server may have been restarted
    )


def _sqlite(path: Path) -> Engine:
    try:  # password hashes are in it: owner-only, and the files beside it inherit its mode
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise ParameterError(f"{path}: cannot be opened as a database: {error.strerror}") from None
    engine = create_engine(
        URL.create("sqlite", database=str(path.absolute())),
        json_serializer=partial(json.dumps, allow_nan=False),
        connect_args={"timeout": _BUSY_SECONDS},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin where `begin` says, not where the driver guesses
        for setting in ("synchronous=FULL", "foreign_keys=ON", "trusted_schema=OFF"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get("masquerade_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _use_write_ahead_log(engine: Engine) -> None:
    """Enable it once; the file remembers. SQLite does not wait for other processes here, so we do."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            with closing(engine.raw_connection()) as connection:
                connection.cursor().execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise DBAPIError(None, None, error) from error
            time.sleep(0.02)
        except sqlite3.Error as error:
            raise DBAPIError(None, None, error) from error


# --- outage -------------------------------------------------------------------------------------------------
# Distinguish a database outage from a mistake of ours.
#
# After an outage it is uncertain whether a change was stored. Nothing is decided then; it is checked again
# when the database is back, where the row's version says whether the move was made after all.

_OURS = (DataError, IntegrityError, NotSupportedError, ProgrammingError)  # a statement that is wrong stays wrong


def is_outage(error: BaseException) -> bool:
    """Return whether the database is at fault: it does not answer, or cannot be read or written now."""
    return isinstance(error, DBAPIError | NoConnection) and not isinstance(error, _OURS)
