"""External tables: choosing the reader for a file or database."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from masquerade.data.database_url import DATABASE_URLS, database_scheme
from masquerade.data.encode import MISSING_VALUES
from masquerade.data.file_kinds import CSV_SUFFIXES, EXCEL_SUFFIXES, PARQUET_SUFFIXES, is_parted
from masquerade.data.reading import EXCEL, Source
from masquerade.errors import DataError


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

    A folder or glob of Parquet files is one table.

    Only `columns` are read, if given. Text columns in `coded` are dictionary-encoded. Without a separator, the header
    of a CSV file shows it.
    """
    read = _reader(source, base, query, separator, encoding)
    found = read(columns=columns, coded=coded)
    return replace(found, origin=replace(found.origin, missing_values=tuple(missing_values)))


def _reader(
    source: str, base: Path, query: str | None, separator: str | None, encoding: str
) -> Callable[..., Source]:
    """Return the reader of a source, which still takes the columns. Only that reader is loaded."""
    if database_scheme(source) is not None:
        from masquerade.data.read_sql import hide_password, read_sql

        if query is None:
            raise DataError.about(hide_password(source), 'a database needs a query; set query = "SELECT …"')
        return partial(read_sql, source, query, base)
    if query is not None:
        raise DataError.about(
            source, f"a query needs a database URL as its source; allowed are {DATABASE_URLS}"
        )
    path = base / source
    suffix = path.suffix.lower()
    if is_parted(source, base):
        from masquerade.data.parquet_parts import read_parted

        return partial(read_parted, source, base)
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
        f"allowed are {', '.join((*CSV_SUFFIXES, *PARQUET_SUFFIXES))}, and the database URLs {DATABASE_URLS}{advice}",
    )
