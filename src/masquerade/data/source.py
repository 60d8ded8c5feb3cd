"""External tables: choosing the reader for a file or database, and what every reader returns."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from masquerade.data.database_url import FILE_SCHEMES
from masquerade.data.encode import MISSING_VALUES
from masquerade.data.table import Origin
from masquerade.errors import DataError, hint

CSV_SUFFIXES = (".csv", ".tsv", ".txt", ".data")
PARQUET_SUFFIXES = (".parquet", ".pq")
EXCEL_SUFFIXES = (".xlsx", ".xls", ".xlsm", ".ods")
EXCEL = "a spreadsheet, which is not read; save its sheet as CSV (UTF-8), and name that file"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, eq=False)
class Source:
    """A reader's result: the requested columns, the names of all columns, and how to refer to a row."""

    table: pa.Table
    all_columns: tuple[str, ...]
    origin: Origin


def read_source(
    source: str,
    base: Path,
    *,
    query: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    missing_values: Sequence[str] = MISSING_VALUES,
    columns: Sequence[str] | None = None,
    coded: Container[str] = (),
) -> Source:
    """Read a CSV or Parquet file (relative to the folder `base`), or a query's result from a database URL.

    Only `columns` are read, if given. Text columns in `coded` are dictionary-encoded. Without a separator, the header
    of a CSV file shows it.
    """
    read = _reader(source, base, query, separator, encoding)
    found = read(columns=columns, coded=coded)
    return replace(found, origin=replace(found.origin, missing_values=tuple(missing_values)))


def _reader(
    source: str, base: Path, query: str | None, separator: str | None, encoding: str
) -> Callable[..., Source]:
    """Return the reader of a source, which still takes the columns."""
    if database_scheme(source) is not None:
        from masquerade.data.read_sql import hide_password, read_sql

        if query is None:
            raise DataError.about(hide_password(source), 'a database needs a query; set query = "SELECT …"')
        return partial(read_sql, source, query, base)
    if query is not None:
        raise DataError.about(source, f"a query needs a database URL as its source; allowed are {_URLS}")
    path = base / source
    suffix = path.suffix.lower()
    if suffix in CSV_SUFFIXES:
        from masquerade.data.read_csv import read_csv

        return partial(read_csv, path, separator=separator, encoding=encoding)
    if suffix in PARQUET_SUFFIXES:
        from masquerade.data.read_parquet import read_parquet

        return partial(read_parquet, path)
    if suffix in EXCEL_SUFFIXES:
        raise DataError.about(source, EXCEL)
    advice = f'; for SQLite write "sqlite:///{source}"' if suffix in (".db", ".sqlite", ".sqlite3") else ""
    advice = f'; for DuckDB write "duckdb:///{source}"' if suffix in (".duckdb", ".ddb") else advice
    ending = f'the ending "{path.suffix}"' if suffix else "a name without an ending"
    raise DataError.about(
        source,
        f"{ending} is of no known kind; "
        f"allowed are {', '.join((*CSV_SUFFIXES, *PARQUET_SUFFIXES))}, and the database URLs {_URLS}{advice}",
    )


_URLS = "sqlite:///file.db, duckdb:///file.duckdb and postgresql://user:password@host/database"


def database_scheme(source: str) -> str | None:
    """Return a database URL's scheme in lower case, or None for a path; an unknown scheme is an error."""
    match = _URL.match(source)
    if match is None:
        return None
    scheme = match[1].lower()
    if scheme not in (*FILE_SCHEMES, "postgresql", "postgres"):
        # The rest of the URL may hold a password, so it is not repeated.
        raise DataError(f'a source cannot be a URL that begins with "{match[0]}"; allowed are {_URLS}')
    return scheme


def why_unreadable(path: Path, error: OSError | ValueError) -> DataError:
    """Explain in one line why a file cannot be opened."""
    if isinstance(error, FileNotFoundError):
        try:
            neighbours = [entry.name for entry in path.parent.iterdir()]
        except OSError:
            return DataError.about(path, f"there is no such file, and no such folder {path.parent}")
        return DataError.about(path, f"there is no such file{hint(path.name, neighbours)}")
    if isinstance(error, IsADirectoryError):
        return DataError.about(path, "a folder, where a file is expected")
    if isinstance(error, PermissionError):
        return DataError.about(path, "the file may not be read (permission denied)")
    reason = error.strerror if isinstance(error, OSError) else error
    return DataError.about(path, f"the file cannot be read ({reason})")


def check_names(name: str, names: Sequence[str]) -> None:
    """Check that every column has a name, and that no name occurs twice."""
    for position, column in enumerate(names, start=1):
        if not column:
            raise DataError.about(name, f"column {position} has no name")
    doubled = sorted({column for column in names if names.count(column) > 1}, key=names.index)
    if doubled:
        raise DataError.about(name, *(f"column {column} occurs more than once" for column in doubled))


def chosen(name: str, names: Sequence[str], asked: Sequence[str] | None) -> list[str]:
    """Return the requested columns, each once, or all; report all those that do not exist together."""
    if asked is None:
        return list(names)
    known = set(names)
    columns = list(dict.fromkeys(asked))
    absent = [column for column in columns if column not in known]
    if absent:
        there = f"; the columns are: {', '.join(names)}"
        raise DataError.about(name, *(f'no column "{word}"{hint(word, names)}{there}' for word in absent))
    return columns
