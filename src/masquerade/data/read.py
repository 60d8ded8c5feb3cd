"""Where a table is and how it is written, and reading it: all of it at once, or a batch of rows at a time.

A table is a CSV or Parquet file, a folder or glob of Parquet files, or the result of a database query. Only the reader
that a table needs is loaded.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import pyarrow as pa

from masquerade.data.encoding import MISSING_VALUES
from masquerade.data.file_kinds import (
    CSV_SUFFIXES,
    DATABASE_URLS,
    EXCEL_SUFFIXES,
    PARQUET_SUFFIXES,
    database_scheme,
    is_partitioned,
)
from masquerade.data.read_csv import check_separator, likely_encoding, likely_separator, read_csv, rows
from masquerade.data.reading import EXCEL, RawTable, check_names, chosen, plain_table, why_unreadable
from masquerade.data.table import Origin
from masquerade.errors import DataError

SMALL_FILE = 1 << 26  # bytes; smaller files are read at once, which says more exactly what is wrong with them
FEW_ROWS = 1 << 20
BLOCK = 1 << 22
_BATCH_ROWS = 1 << 18  # fewer cost more calls, more are slower to decode


@dataclass(frozen=True)
class TableFile:
    """A table that somebody names: what `[data]` of a job says, with what can be found out left open."""

    source: str  # a file, a folder or glob of Parquet files, or a database URL
    query: str | None = None
    separator: str | None = None  # None to go by the header
    encoding: str | None = None  # None to go by the file's first bytes
    base: Path = Path()  # the folder that a relative source is in
    missing_values: tuple[str, ...] = MISSING_VALUES

    @property
    def path(self) -> Path | None:
        """The file, unless it is a database."""
        return None if database_scheme(self.source) is not None else self.base / self.source

    @property
    def is_parquet(self) -> bool:
        """Whether it is a file, a folder or a glob of Parquet, which can be read part by part where it lies."""
        if self.path is None:
            return False
        return self.path.suffix.lower() in PARQUET_SUFFIXES or is_partitioned(self.source, self.base)

    @cached_property
    def found_encoding(self) -> str:
        """The encoding given, or the one that the file's first bytes show."""
        if self.encoding is not None:
            return self.encoding
        is_csv = self.path is not None and self.path.suffix.lower() in CSV_SUFFIXES
        return likely_encoding(self.path) if is_csv and self.path is not None else "utf-8"

    def read(self, columns: Sequence[str] | None = None, coded: Container[str] = ()) -> RawTable:
        """Read these columns, or all; text columns in `coded` are dictionary-encoded."""
        found = self._reader()(columns=columns, coded=coded)
        return replace(found, origin=replace(found.origin, missing_values=self.missing_values))

    @contextmanager
    def in_batches(self, columns: Sequence[str] | None = None) -> Iterator[Batches]:
        """Open it for one pass over its rows, so that memory does not grow with them."""
        if self.path is None and self.query is not None:
            from masquerade.data.read_sql import hide_password, sql_batches

            with sql_batches(self.source, self.query, self.base, columns) as batches:
                yield Batches(batches, Origin(hide_password(self.source)))
            return
        path = self.base / self.source
        suffix = path.suffix.lower()
        if is_partitioned(self.source, self.base):
            yield Batches(_partitioned(self.source, self.base, columns), Origin(str(path)))
            return
        is_parquet = suffix in PARQUET_SUFFIXES
        n_rows = _parquet_rows(path) if is_parquet else None
        is_known = (is_parquet or suffix in CSV_SUFFIXES) and path.is_file()
        # A Parquet file may hold many times its bytes, so rows count, too.
        if not is_known or (path.stat().st_size <= SMALL_FILE and (n_rows or 0) <= FEW_ROWS):
            found = self.read(columns)
            yield Batches(iter([found.table]), found.origin)
            return
        stream = _parquet(path, columns) if is_parquet else _csv(path, self.separator, self.found_encoding, columns)
        yield Batches(stream, Origin(str(path)), n_rows)

    def _reader(self) -> Callable[..., RawTable]:
        """Return the reader of the source, which still takes the columns."""
        source, base, query = self.source, self.base, self.query
        if self.path is None:
            from masquerade.data.read_sql import hide_password, read_sql

            if query is None:
                raise DataError.about(hide_password(source), 'a database needs a query; set query = "SELECT …"')
            return partial(read_sql, source, query, base)
        if query is not None:
            raise DataError.about(source, f"a query needs a database URL as its source; allowed are {DATABASE_URLS}")
        path = base / source
        suffix = path.suffix.lower()
        if is_partitioned(source, base):
            from masquerade.data.read_parquet import read_partitioned

            return partial(read_partitioned, source, base)
        if suffix in CSV_SUFFIXES:
            return partial(read_csv, path, separator=self.separator, encoding=self.found_encoding)
        if suffix in PARQUET_SUFFIXES:
            from masquerade.data.read_parquet import read_parquet

            return partial(read_parquet, path)
        if suffix in EXCEL_SUFFIXES:
            raise DataError.about(source, EXCEL)
        advice = f'; for SQLite write "sqlite:///{source}"' if suffix in (".db", ".sqlite", ".sqlite3") else ""
        advice = f'; for DuckDB write "duckdb:///{source}"' if suffix in (".duckdb", ".ddb") else advice
        ending = f'the ending "{path.suffix}"' if suffix else "a name without an ending"
        endings = ", ".join((*CSV_SUFFIXES, *PARQUET_SUFFIXES))
        allowed = f"allowed are {endings}, and the database URLs {DATABASE_URLS}{advice}"
        raise DataError.about(source, f"{ending} is of no known kind; {allowed}")


@dataclass(frozen=True, eq=False)
class Batches:
    """Rows to come, a batch at a time; each batch has the requested columns."""

    batches: Iterator[pa.Table]
    origin: Origin
    rows: int | None = None  # how many will come, if it is known beforehand


def _parquet_rows(path: Path) -> int | None:
    """Return the rows of a Parquet file; None where it cannot be read, which its reader explains."""
    import pyarrow.parquet

    try:
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):
        return None


def _csv(path: Path, separator: str | None, encoding: str, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    """Yield the rows of a large CSV file. What is wrong with a row is Arrow's word, which names the row."""
    import pyarrow.csv

    names, sign = _header(path, separator, encoding)
    wanted = chosen(str(path), names, columns)
    try:
        reader = pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(
                column_names=list(names), skip_rows=1, block_size=BLOCK, encoding=encoding
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=sign),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string())
            ),
        )
        for batch in reader:
            yield pa.Table.from_batches([batch])
    except (pa.ArrowException, UnicodeError) as error:
        # Arrow's text ends with the row itself, which no error may show.
        where = re.search(r"(Row #\d+: )?Expected \d+ columns, got \d+", str(error))
        said = where[0] if where is not None else f"Arrow cannot parse it as {encoding}"
        raise DataError.about(path, f"not a sound CSV file ({said})") from None


def _header(path: Path, separator: str | None, encoding: str) -> tuple[list[str], str]:
    """Return the names of the columns and the separator, by the file's first bytes."""
    if separator is not None:
        check_separator(separator)
    with path.open("rb") as file:
        head = file.read(1 << 20)
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head).encode().removeprefix(codecs.BOM_UTF8)
    except (LookupError, UnicodeError):
        raise DataError.about(path, f'the file is not "{encoding}"; set encoding to its own') from None
    sign = separator or likely_separator(text)
    header = next(rows(text, sign.encode()), None)
    names = [cell.decode().strip() for cell in header.cells] if header is not None else []
    check_names(str(path), names)
    return names, sign


def _partitioned(source: str, base: Path, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    from masquerade.data.read_parquet import partitioned_files

    files = partitioned_files(source, base, columns or ())
    wanted = chosen(files.name, files.columns, columns)
    for part in files.parts(_BATCH_ROWS):
        yield part.read(wanted)


def _parquet(path: Path, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    import pyarrow.parquet

    name = str(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as opened:
            names = opened.schema_arrow.names
            check_names(name, names)
            wanted = chosen(name, names, columns)
            plain_table(opened.schema_arrow.empty_table().select(wanted), name)
            for batch in opened.iter_batches(_BATCH_ROWS, columns=wanted):
                yield plain_table(pa.Table.from_batches([batch]).select(wanted), name)
    except (pa.ArrowException, UnicodeError) as error:
        raise DataError.about(path, f"not a sound Parquet file ({str(error).partition(chr(10))[0]})") from None
    except OSError as error:
        raise why_unreadable(path, error) from None
