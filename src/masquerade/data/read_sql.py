"""Read the result of a query from SQLite or PostgreSQL, through ADBC (the extra `sql`), or from DuckDB.

A query can only read: SQLite and DuckDB files are opened read-only, and PostgreSQL runs it in a read-only transaction.
No error shows a password.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

from masquerade.data.encoding import is_text
from masquerade.data.file_kinds import FILE_SCHEMES, database_path, database_scheme
from masquerade.data.reading import RawTable, check_names, chosen, plain_table, why_unreadable
from masquerade.data.table import Origin
from masquerade.errors import DataError, Problem

# --- postgres url -------------------------------------------------------------------------------------------
# PostgreSQL's URLs taken apart: for the driver, and for people without their password.
#
# A password may be written as `${NAME}`: whoever connects looks the environment variable up, so a URL that
# travels to the workers of a cluster carries no secret.

# As libpq reads it: the user's part ends at the first "@" before a "/"; a password keeps "?" and "#".
_POSTGRESQL = re.compile(
    r"(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<hosts>[^/?@]*)(?:/(?P<database>[^/?@]*))?(?:\?(?P<parameters>.*))?",
    re.DOTALL,
)
_HOST = r"(?:\[[^\]]*\]|[^:,\[\]]*)(?::[0-9]*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")  # braces cannot be in a URL as they are
_SECRET_PARAMETER = re.compile(r"(?P<key>(?:ssl)?password)=(?P<value>[^&]*)", re.IGNORECASE)


@dataclass(frozen=True, repr=False)
class PostgresUrl:
    """`postgresql://user:password@host:port/database?parameters`, taken apart."""

    user: str | None
    password: str | None
    hosts: str
    database: str | None
    parameters: str | None

    @classmethod
    def parse(cls, url: str) -> PostgresUrl:
        """Parse a URL. Reject what the driver would misread: its error message would show the password."""
        match = _POSTGRESQL.fullmatch(url.partition("://")[2])
        if match is None or _HOSTS.fullmatch(match["hosts"]) is None:
            raise DataError.about(
                f"{url.partition('://')[0]}://…",
                "not of the form postgresql://user:password@host:port/database; "
                'in a user name or password write "@" as %40, "/" as %2F, ":" as %3A and "%" as %25',
            )
        return cls(**match.groupdict())

    def shown(self) -> str:
        """Return the URL for display, with `***` for every password."""
        return self._written("***", _SECRET_PARAMETER.sub(r"\g<key>=***", self.parameters or ""))

    def for_driver(self) -> str:
        """Return the URL for libpq with a connection timeout; without one it waits minutes for a silent host."""
        parameters = _SECRET_PARAMETER.sub(
            lambda match: f"{match['key']}={self._looked_up(match['value'])}", self.parameters or ""
        )
        if "connect_timeout=" not in parameters:
            parameters += "&connect_timeout=10" if parameters else "connect_timeout=10"
        return self._written(self._looked_up(self.password), parameters)

    def _looked_up(self, secret: str | None) -> str | None:
        """Return a password as a URL has it, also where it is in an environment variable."""
        if secret is None or (match := _VARIABLE.fullmatch(secret)) is None:
            return secret
        if (found := os.environ.get(match[1])) is None:
            raise DataError.about(
                self.shown(), f"the environment variable {match[1]} is not set where the database is read"
            )
        return quote(found, safe="")

    def _written(self, password: str | None, parameters: str) -> str:
        login = ""
        if self.user is not None:
            login = f"{self.user}@" if self.password is None else f"{self.user}:{password}@"
        path = f"/{self.database}" if self.database is not None else ""
        return f"postgresql://{login}{self.hosts}{path}{'?' if parameters else ''}{parameters}"

    def scrub(self, message: str) -> str:
        """Remove this URL's passwords from the message, percent-encoded or not."""
        found: set[str] = set()
        for secret in (
            self.password or "",
            *(each["value"] for each in _SECRET_PARAMETER.finditer(self.parameters or "")),
        ):
            if (match := _VARIABLE.fullmatch(secret)) is not None:
                secret = quote(os.environ.get(match[1], ""), safe="")
            found |= {secret, unquote(secret)} - {""}
        for secret in sorted(found, key=len, reverse=True):
            message = message.replace(secret, "***")
        return message


# --- read sql -----------------------------------------------------------------------------------------------

_COMMENTS_AND_SPACE = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_READS = re.compile(r"\(|(?:select|with|values|table)\b", re.IGNORECASE)
_BATCH_ROWS = "adbc.sqlite.query.batch_rows"
_SQLITE_OPTIONS = {_BATCH_ROWS: str(1 << 17)}
_CAST = "; cast it in the query, as in CAST(x AS text)"
_READ_ONLY = "SET TRANSACTION READ ONLY"


def read_sql(
    url: str, query: str, base: Path, *, columns: Sequence[str] | None = None, coded: Container[str] = ()
) -> RawTable:
    """Run `query` on the database at `url` (the path of a file is relative to `base`)."""
    scheme = database_scheme(url)
    name = hide_password(url)
    check_query(name, query)
    if scheme in FILE_SCHEMES:
        path = _readable(url, base)
        if scheme == "sqlite":
            table = _from_sqlite(url, query, path)
        else:
            with _duckdb(url, path) as connection:
                table = connection.sql(query).to_arrow_table()
    else:
        table = _from_postgresql(url, query)
    check_names(f"{name}: the query's result", table.column_names)
    wanted = chosen(f"{name}: the query's result", table.column_names, columns)
    if table.num_rows == 0:
        raise DataError.about(name, "the query's result has no rows")
    plain = plain_table(table.select(wanted), name, coded, advice=_CAST)
    return RawTable(plain, tuple(table.column_names), Origin(name))


@contextmanager
def sql_batches(url: str, query: str, base: Path, columns: Sequence[str] | None = None) -> Iterator[Iterator[pa.Table]]:
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


def _plain_batches(name: str, reader: pa.RecordBatchReader, columns: Sequence[str] | None) -> Iterator[pa.Table]:
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
        raise DataError.about(name, f'the query begins with "{word}"; allowed are SELECT, WITH, VALUES and TABLE')


def _readable(url: str, base: Path) -> Path:
    """Return a database's file, which exists and can be read: SQLite would make a missing one, and explains little."""
    path = database_path(url, base)
    try:
        with path.open("rb"):
            return path
    except (OSError, ValueError) as error:
        raise why_unreadable(path, error) from None


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
        raise DataError(f'reading from {system} needs the extra "sql": pip install "masquerade[sql]"') from None


def _run(driver: Any, uri: str, query: str, options: Mapping[str, str], before: str | None = None) -> pa.Table:
    with _cursor(driver, uri, query, options, before) as cursor:
        table = cursor.fetch_arrow_table()
    try:
        _ = table.column_names  # decoded here for the first time
    except UnicodeDecodeError:
        raise pa.ArrowInvalid("the name of a column is not UTF-8") from None
    return table


@contextmanager
def _cursor(driver: Any, uri: str, query: str, options: Mapping[str, str], before: str | None = None) -> Iterator[Any]:
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


# --- query parts --------------------------------------------------------------------------------------------
# A query's result in parts, each read by whoever counts it: ranges of a key column.
#
# The database numbers nothing for us, so rows need a key: a column whose values are all different. Ranges
# of it with about equally many rows are found once (`ntile`); a part is the query with a condition on its
# range, in the order of the key. So a part that is read again, by another worker or for its other columns,
# has the same rows in the same order. Rows that come or go meanwhile are an error. Cells that change
# meanwhile are not noticed.

_LOOK = 1000  # rows by which the types of the columns are known
_PARTITION = ("data", "partition")


@dataclass(frozen=True, repr=False)
class QueryPart:
    """The rows of a query's result with keys from `lo` to `hi`. Its text shows no password."""

    whole: PartitionedQuery
    lo: Any
    hi: Any
    first_row: int
    rows: int

    def __repr__(self) -> str:
        return f"QueryPart({self.rows} rows)"

    def read(self, columns: Sequence[str], coded: Container[str] = ()) -> pa.Table:
        """Read these columns; text columns in `coded` are dictionary-encoded."""
        whole, key = self.whole, _quoted(self.whole.key)
        selected = ", ".join(_quoted(name) for name in columns) or key
        condition = f"{key} >= {_literal(self.lo)} AND {key} <= {_literal(self.hi)}"
        text = f"SELECT {selected} FROM {_result(whole.query)} WHERE {condition} ORDER BY {key}"  # noqa: S608 # see _result
        table = read_sql(whole.url, text, Path(whole.base), columns=columns, coded=coded).table
        if table.num_rows != self.rows:
            raise DataError.about(
                whole.name, "rows came or went while the query's result was in use; run the job again"
            )
        return pa.table({name: self._typed(name, table.column(name)) for name in columns})

    def _typed(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a column in the type that it has in all parts: SQLite types cells, not columns."""
        wanted = dict(self.whole.types).get(name)
        found = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if wanted is None or found == wanted or (is_text(found) and is_text(wanted)):
            return column
        try:
            plain = column.cast(found) if found != column.type else column
            return plain.cast(wanted)
        except pa.ArrowException:
            text = f"holds cells of type {wanted} and of type {found}; cast it in the query, as in CAST(x AS text)"
            raise DataError(Problem(text, source=self.whole.name, column=name)) from None

    def origin(self, missing_values: Sequence[str]) -> Origin:
        """Return how errors name its rows: by their place in the result, in the order of the key."""
        return Origin(self.whole.name, missing_values=tuple(missing_values), first_row=self.first_row)


@dataclass(frozen=True, repr=False)
class PartitionedQuery:
    """A query's result, to be read in parts: what `PartitionedFiles` is for files."""

    url: str
    query: str
    base: str
    key: str
    columns: tuple[str, ...]
    types: tuple[tuple[str, pa.DataType], ...]  # of the columns, where they are known
    rows: int

    @property
    def name(self) -> str:
        """The database, without its password."""
        return hide_password(self.url)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The file that whoever reads must see; none where the database is a server."""
        if database_scheme(self.url) not in FILE_SCHEMES:
            return ()
        return (database_path(self.url, Path(self.base)).absolute(),)

    @property
    def largest_group(self) -> tuple[int, str]:
        """No rows have to be read at once."""
        return 0, ""

    def parts(self, most_rows: int) -> list[QueryPart]:
        """Cut the result into parts of at most `most_rows` rows; raise unless the key is unique."""
        n_parts = -(-self.rows // max(most_rows, 1))
        key = _quoted(self.key)
        number = f"ntile({n_parts}) OVER (ORDER BY {key})"
        numbered = f"(SELECT {key} AS k, {number} AS part FROM {_result(self.query)}) AS numbered"  # noqa: S608 # see _result
        figures = "min(k) AS lo, max(k) AS hi, count(*) AS n, count(DISTINCT k) AS different"
        text = f"SELECT part, {figures} FROM {numbered} GROUP BY part ORDER BY part"  # noqa: S608 # see _result
        found = read_sql(self.url, text, Path(self.base)).table.to_pylist()
        shared = any(before["hi"] == after["lo"] for before, after in pairwise(found))
        if shared or any(each["n"] != each["different"] for each in found):
            raise DataError(
                Problem(f"column {self.key} must have another value in every row, and no missing one", key=_PARTITION)
            )
        ends = np.cumsum([each["n"] for each in found]).tolist()
        return [
            QueryPart(self, each["lo"], each["hi"], end - each["n"], each["n"])
            for each, end in zip(found, ends, strict=True)
        ]


def partitioned_query(url: str, query: str, base: Path, key: str, columns: Sequence[str] = ()) -> PartitionedQuery:
    """Look at a query's result; raise unless it has these columns, and a key by whose ranges it can be read."""
    query = query.strip().rstrip(";")
    check_query(hide_password(url), query)
    look = read_sql(url, f"SELECT * FROM {_result(query)} LIMIT {_LOOK}", base)  # noqa: S608 # see _result
    chosen(f"{look.origin.name}: the query's result", look.all_columns, [*columns, key])
    kind = look.table.schema.field(key).type
    if not (pa.types.is_integer(kind) or is_text(kind)):
        text = f"column {key} is of type {kind}; it must hold whole numbers or texts, as in CAST(x AS text)"
        raise DataError(Problem(text, key=_PARTITION))
    counted = read_sql(url, f"SELECT count(*) AS n FROM {_result(query)}", base).table  # noqa: S608 # see _result
    schema = look.table.schema
    types = tuple((each.name, each.type) for each in schema if not pa.types.is_null(each.type))
    return PartitionedQuery(
        url, query, str(base.absolute()), key, look.all_columns, types, counted.column("n")[0].as_py()
    )


def _result(query: str) -> str:
    """Return a query as a table of another: it is the job's own text, and the database only lets us read."""
    return f"(\n{query}\n) AS whole_result"  # a comment at its end ends with its line


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
