"""Read the result of a query from SQLite or PostgreSQL, through ADBC (the extra `sql`), or from DuckDB.

A query can only read: SQLite and DuckDB files are opened read-only, and PostgreSQL runs it in a read-only transaction.
No error shows a password.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from masquerade.data.cell_types import plain_table
from masquerade.data.database_url import FILE_SCHEMES, database_path, database_scheme
from masquerade.data.postgres_url import PostgresUrl
from masquerade.data.reading import Source, check_names, chosen, why_unreadable
from masquerade.data.table import Origin
from masquerade.errors import DataError

_COMMENTS_AND_SPACE = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_READS = re.compile(r"\(|(?:select|with|values|table)\b", re.IGNORECASE)
_BATCH_ROWS = "adbc.sqlite.query.batch_rows"
_SQLITE_OPTIONS = {_BATCH_ROWS: str(1 << 17)}
_CAST = "; cast it in the query, as in CAST(x AS text)"
_READ_ONLY = "SET TRANSACTION READ ONLY"


def read_sql(
    url: str,
    query: str,
    base: Path,
    *,
    columns: Sequence[str] | None = None,
    coded: Container[str] = (),
) -> Source:
    """Run `query` on the database at `url` (the path of a file is relative to `base`)."""
    scheme = database_scheme(url)
    name = hide_password(url)
    check_query(name, query)
    if scheme in FILE_SCHEMES:
        path = _readable(url, base)
        table = _from_sqlite(url, query, path) if scheme == "sqlite" else _from_duckdb(url, query, path)
    else:
        table = _from_postgresql(url, query)
    check_names(f"{name}: the query's result", table.column_names)
    wanted = chosen(f"{name}: the query's result", table.column_names, columns)
    if table.num_rows == 0:
        raise DataError.about(name, "the query's result has no rows")
    plain = plain_table(table.select(wanted), name, coded, advice=_CAST)
    return Source(plain, tuple(table.column_names), Origin(name))


@contextmanager
def sql_batches(
    url: str, query: str, base: Path, columns: Sequence[str] | None = None
) -> Iterator[Iterator[pa.Table]]:
    """Run `query`, and yield its rows a batch at a time; they must be read inside the context."""
    scheme, name = database_scheme(url), hide_password(url)
    check_query(name, query)
    if scheme == "duckdb":
        with _duckdb(url, _readable(url, base)) as connection:
            yield _plain_batches(name, connection.sql(query).to_arrow_reader(), columns)
        return
    parts = None if scheme in FILE_SCHEMES else PostgresUrl.parse(url)
    driver = _driver("sqlite" if parts is None else "postgresql")
    try:
        with (
            _cursor(driver, _sqlite_uri(_readable(url, base)), query, _SQLITE_OPTIONS)
            if parts is None
            else _cursor(driver, parts.for_driver(), query, {}, _READ_ONLY)
        ) as cursor:
            yield _plain_batches(name, cursor.fetch_record_batch(), columns)
    except (OSError, pa.ArrowException, driver.Error, UnicodeError) as error:
        line = _first_line(error)
        raise DataError.about(name, line if parts is None else parts.scrub(line)) from None


def _plain_batches(
    name: str, reader: pa.RecordBatchReader, columns: Sequence[str] | None
) -> Iterator[pa.Table]:
    result, rows = f"{name}: the query's result", 0
    check_names(result, reader.schema.names)
    wanted = chosen(result, reader.schema.names, columns)
    for batch in reader:
        rows += batch.num_rows
        yield plain_table(pa.Table.from_batches([batch]).select(wanted), name, advice=_CAST)
    if not rows:
        raise DataError.about(name, "the query's result has no rows")


def hide_password(url: str) -> str:
    """Return the URL for display, with `***` for every password."""
    return url if database_scheme(url) in FILE_SCHEMES else PostgresUrl.parse(url).shown()


def check_query(name: str, query: str) -> None:
    """Raise unless a query reads, by its first word."""
    start = _COMMENTS_AND_SPACE.match(query)
    rest = query[start.end() :] if start is not None else query
    if not rest or "\0" in query:
        raise DataError.about(name, "the query holds a NUL character" if rest else "the query is empty")
    if _READS.match(rest) is None:  # such as ATTACH, which creates a file even in a read-only database
        word = rest.split(maxsplit=1)[0]
        raise DataError.about(
            name, f'the query begins with "{word}"; allowed are SELECT, WITH, VALUES and TABLE'
        )


def _readable(url: str, base: Path) -> Path:
    """Return a database's file, which exists and can be read: SQLite would make a missing one, and explains little."""
    path = database_path(url, base)
    try:
        with path.open("rb"):
            return path
    except (OSError, ValueError) as error:
        raise why_unreadable(path, error) from None


def _from_duckdb(url: str, query: str, path: Path) -> pa.Table:
    with _duckdb(url, path) as connection:
        return connection.sql(query).to_arrow_table()


@contextmanager
def _duckdb(url: str, path: Path) -> Iterator[Any]:
    """Connect to a DuckDB file; what it refuses is a DataError."""
    try:
        import duckdb
    except ImportError:
        raise DataError('reading from duckdb needs the library: pip install "masquerade[duckdb]"') from None
    # Without access to other files and extensions: a query reads this database and nothing else of the machine.
    config: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": "false",
        "autoload_known_extensions": "false",
    }
    try:
        with duckdb.connect(str(path), read_only=True, config=config) as connection:
            yield connection
    except duckdb.Error as error:
        raise DataError.about(url, _first_line(error)) from None


def _from_sqlite(url: str, query: str, path: Path) -> pa.Table:
    driver, uri = _driver("sqlite"), _sqlite_uri(path)
    try:
        try:
            return _run(driver, uri, query, _SQLITE_OPTIONS)
        except (OSError, driver.Error) as error:
            if "Type mismatch" not in str(error):
                raise
            # SQLite types cells, not columns, and the driver goes by its first batch: read all rows as one batch.
            return _run(driver, uri, query, {_BATCH_ROWS: str(1 << 30)})
    except (OSError, pa.ArrowException, driver.Error, UnicodeError) as error:
        raise DataError.about(url, _first_line(error)) from None


def _from_postgresql(url: str, query: str) -> pa.Table:
    parts = PostgresUrl.parse(url)
    driver = _driver("postgresql")
    try:
        return _run(driver, parts.for_driver(), query, {}, before=_READ_ONLY)
    except (OSError, pa.ArrowException, driver.Error, UnicodeError) as error:
        raise DataError.about(parts.shown(), parts.scrub(_first_line(error))) from None


def _driver(system: str) -> Any:
    try:
        return importlib.import_module(f"adbc_driver_{system}.dbapi")
    except ImportError:
        raise DataError(
            f'reading from {system} needs the extra "sql": pip install "masquerade[sql]"'
        ) from None


def _run(
    driver: Any, uri: str, query: str, options: Mapping[str, str], before: str | None = None
) -> pa.Table:
    with _cursor(driver, uri, query, options, before) as cursor:
        table = cursor.fetch_arrow_table()
    try:
        _ = table.column_names  # decoded here for the first time
    except UnicodeDecodeError:
        raise pa.ArrowInvalid("the name of a column is not UTF-8") from None
    return table


@contextmanager
def _cursor(
    driver: Any, uri: str, query: str, options: Mapping[str, str], before: str | None = None
) -> Iterator[Any]:
    with driver.connect(uri) as connection, connection.cursor(adbc_stmt_kwargs=dict(options)) as cursor:
        if before is not None:
            cursor.execute(before)
        cursor.execute(query)
        yield cursor


def _sqlite_uri(path: Path) -> str:
    return f"file:{quote(str(path.absolute()))}?mode=ro"


def _first_line(error: Exception) -> str:
    """Return the database's own message, without the driver's wrapping and the repeated query."""
    line = str(error).strip().partition("\n")[0]
    said = re.split(r"(?:ERROR|FATAL): +|Failed to (?:prepare query|step query|connect): ", line)[-1]
    return re.sub(r"^(?:[A-Z_]+: )?(?:\[\w+\] )?", "", said).strip()
