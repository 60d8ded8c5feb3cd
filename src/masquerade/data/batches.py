"""Read a table in one pass, a batch of rows at a time, so that memory does not grow with the rows."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from masquerade.data.cell_types import plain_table
from masquerade.data.csv_scan import rows
from masquerade.data.database_url import database_scheme
from masquerade.data.file_kinds import CSV_SUFFIXES, PARQUET_SUFFIXES, is_parted
from masquerade.data.parquet_parts import parted_files
from masquerade.data.read_csv import check_separator, likely_separator
from masquerade.data.read_sql import hide_password, sql_batches
from masquerade.data.reading import check_names, chosen, why_unreadable
from masquerade.data.source import read_source
from masquerade.data.table import Origin
from masquerade.errors import DataError

_SMALL_FILE = (
    1 << 26
)  # bytes; smaller files are read at once, which says more exactly what is wrong with them
_FEW_ROWS = 1 << 20
_BLOCK = 1 << 22
_BATCH_ROWS = 1 << 18  # fewer cost more calls, more are slower to decode


@dataclass(frozen=True, eq=False)
class Batches:
    """Rows to come, a batch at a time; each batch has the requested columns."""

    batches: Iterator[pa.Table]
    origin: Origin
    rows: int | None = None  # how many will come, if it is known beforehand


@contextmanager
def read_batches(
    source: str,
    base: Path,
    *,
    query: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    columns: Sequence[str] | None = None,
) -> Iterator[Batches]:
    """Open a source, as `read_source` has it, for one pass over its rows."""
    path = base / source
    suffix = path.suffix.lower()
    if database_scheme(source) is not None and query is not None:
        with sql_batches(source, query, base, columns) as batches:
            yield Batches(batches, Origin(hide_password(source)))
        return
    if is_parted(source, base):
        yield Batches(_parted(source, base, columns), Origin(str(path)))
        return
    streams = {
        **dict.fromkeys(CSV_SUFFIXES, partial(_csv, path, separator, encoding, columns)),
        **dict.fromkeys(PARQUET_SUFFIXES, partial(_parquet, path, columns)),
    }
    rows = _parquet_rows(path) if suffix in PARQUET_SUFFIXES else None
    if suffix not in streams or not path.is_file() or _is_small(path, rows):
        found = read_source(
            source, base, query=query, separator=separator, encoding=encoding, columns=columns
        )
        yield Batches(iter([found.table]), found.origin)
        return
    yield Batches(streams[suffix](), Origin(str(path)), rows)


def _is_small(path: Path, rows: int | None) -> bool:
    """Return whether a file is read at once; a Parquet file may hold many times its bytes, so rows count, too."""
    return path.stat().st_size <= _SMALL_FILE and (rows or 0) <= _FEW_ROWS


def _parquet_rows(path: Path) -> int | None:
    """Return the rows of a Parquet file; None where it cannot be read, which its reader explains."""
    try:
        return int(pyarrow.parquet.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):
        return None


def _csv(
    path: Path, separator: str | None, encoding: str, columns: Sequence[str] | None
) -> Iterator[pa.Table]:
    """Yield the rows of a large CSV file. What is wrong with a row is Arrow's word, which names the row."""
    names, sign = _header(path, separator, encoding)
    wanted = chosen(str(path), names, columns)
    try:
        reader = pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(
                column_names=list(names), skip_rows=1, block_size=_BLOCK, encoding=encoding
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


def _parted(source: str, base: Path, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    files = parted_files(source, base, columns or ())
    wanted = chosen(files.name, files.columns, columns)
    for part in files.parts(_BATCH_ROWS):
        yield part.read(wanted)


def _parquet(path: Path, columns: Sequence[str] | None) -> Iterator[pa.Table]:
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
        raise DataError.about(
            path, f"not a sound Parquet file ({str(error).partition(chr(10))[0]})"
        ) from None
    except OSError as error:
        raise why_unreadable(path, error) from None
