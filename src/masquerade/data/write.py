"""Write tables as CSV or Parquet, atomically (files.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from masquerade.data.encode import is_text, texts
from masquerade.data.file_kinds import CSV_SUFFIXES, PARQUET_SUFFIXES
from masquerade.data.read_csv import SEPARATORS, check_separator
from masquerade.errors import ParameterError
from masquerade.files import check_place, replacing

_ROWS_AT_ONCE = 1 << 16  # bounds the memory that text takes while it is written
_TEXT = pa.large_string()


def write_table(table: pa.Table, path: Path, separator: str = ",") -> None:
    """Write CSV or Parquet atomically, chosen by the file extension."""
    check_target(path)
    with replacing(path) as file:
        encode_table(table, file, path.suffix, separator)


def encode_table(table: pa.Table, file: BinaryIO, suffix: str, separator: str = ",") -> None:
    """Write CSV or Parquet, chosen by `suffix`, into an open file.

    CSV cells are quoted only where needed: those with a separator, a quote or a line break, and an
    empty cell that would be a whole line. A null is an empty cell.
    """
    check_separator(separator)
    if suffix.lower() in PARQUET_SUFFIXES:
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, file)
    else:
        for lines in csv_lines(table, separator):
            file.write(lines)


def check_target(path: Path) -> None:
    """Check, as far as possible beforehand, that a table can be written to this path."""
    if path.suffix.lower() not in (*CSV_SUFFIXES, *PARQUET_SUFFIXES):
        allowed = ", ".join((*CSV_SUFFIXES, *PARQUET_SUFFIXES))
        raise ParameterError(f'{path}: a table cannot be written as "{path.suffix}"; allowed are {allowed}')
    check_place(path)


def csv_lines(table: pa.Table, separator: str = ",") -> Iterator[memoryview]:
    """Yield the table as CSV, header first, in batches of rows."""
    if not table.num_columns:
        raise ParameterError("a table without columns cannot be written as CSV")
    # Arrow's own writer quotes every text. Here each distinct cell of a dictionary is quoted once, where
    # needed, and one kernel joins the columns into lines, whose buffer holds the bytes of the file.
    columns = [_Cells(separator, alone=table.num_columns == 1) for _ in table.column_names]
    yield memoryview(
        separator.join(_header_cell(name, separator) for name in table.column_names).encode() + b"\n"
    )
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        if batch.num_rows:
            cells = [column.of(array) for column, array in zip(columns, batch.columns, strict=True)]
            rows = pc.binary_join_element_wise(*cells, pa.scalar(separator, _TEXT))
            lines = pc.binary_join_element_wise(rows, pa.scalar("", _TEXT), pa.scalar("\n", _TEXT))
            yield memoryview(lines.buffers()[2])[: pc.sum(pc.binary_length(lines)).as_py()]


def _header_cell(name: str, separator: str) -> str:
    # A reader would take a leading U+FEFF for a byte order mark, skip an empty line, and look for a usual separator.
    signs = (separator, *SEPARATORS, '"', "\r", "\n")
    needed = not name or name.startswith("\ufeff") or any(sign in name for sign in signs)
    return '"' + name.replace('"', '""') + '"' if needed else name


class _Cells:
    """Writes the cells of one column; remembers the last dictionary, which batches of a table share."""

    def __init__(self, separator: str, *, alone: bool) -> None:
        self._special = (
            '["\r\n' + ("\\" if separator.isascii() and not separator.isalnum() else "") + separator + "]"
        )
        self._empty = '""' if alone else ""
        self._dictionary: pa.Array | None = None
        self._written: pa.Array | None = None

    def of(self, array: pa.Array) -> pa.Array:
        """Write the cells as text, quoted where needed."""
        if not pa.types.is_dictionary(array.type):
            return self._write(array)
        dictionary = array.dictionary
        if self._dictionary is None or not _same_memory(dictionary, self._dictionary):
            self._dictionary, self._written = dictionary, self._write(dictionary)
        assert self._written is not None
        cells = self._written.take(array.indices)
        return cells.fill_null(self._empty) if cells.null_count else cells

    def _write(self, values: pa.Array) -> pa.Array:
        cells = _as_text(values)
        if cells.null_count:
            cells = cells.fill_null("")
        special = pc.match_substring_regex(cells, self._special)
        if pc.any(special).as_py():
            doubled = pc.replace_substring(cells, '"', '""')
            quote, nothing = pa.scalar('"', _TEXT), pa.scalar("", _TEXT)
            cells = pc.if_else(special, pc.binary_join_element_wise(quote, doubled, quote, nothing), cells)
        if self._empty:
            cells = pc.if_else(pc.equal(cells, pa.scalar("", _TEXT)), pa.scalar(self._empty, _TEXT), cells)
        return cells


def _as_text(values: pa.Array) -> pa.Array:
    kind = values.type
    if is_text(kind) or pa.types.is_null(kind):
        return values.cast(_TEXT)
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise ParameterError(f"a column of type {kind} cannot be written as CSV; write Parquet")
    if pa.types.is_floating(kind) or pa.types.is_boolean(kind):  # as everywhere in a release
        coded = values.dictionary_encode()
        return texts(coded.dictionary).cast(_TEXT).take(coded.indices)
    cells = values.cast(pa.string()).cast(_TEXT)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        cells = pc.replace_substring_regex(cells, r"[.]0+(Z?)$", r"\1")
    return cells


def _same_memory(one: pa.Array, other: pa.Array) -> bool:
    def key(array: pa.Array) -> tuple[object, ...]:
        return (
            array.offset,
            len(array),
            *(None if buffer is None else buffer.address for buffer in array.buffers()),
        )

    return key(one) == key(other)
