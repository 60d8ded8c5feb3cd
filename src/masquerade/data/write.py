"""Write tables as CSV or Parquet, atomically (files.py)."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from masquerade.data.encoding import is_text, mark_missing, missing_rows, texts, without_unused
from masquerade.data.file_kinds import CSV_SUFFIXES, PARQUET_SUFFIXES
from masquerade.data.read_csv import SEPARATORS, check_separator
from masquerade.data.read_parquet import part_name
from masquerade.data.records import KEPT, Records, TablePart
from masquerade.data.released import Outcome
from masquerade.engine import Chunk, Ints, renumber
from masquerade.errors import ParameterError
from masquerade.files import check_place, replacing

# --- writing ------------------------------------------------------------------------------------------------
# Write a release in chunks as a folder of Parquet files, in an order that tells nothing.
#
# Nobody holds all rows. Each chunk sends its released rows to files at random, and each file's rows are put
# into random order: together that is a random order of all rows. What is random comes from a secret of the
# system, drawn once and expanded by ChaCha20, so that a worker that takes over from a lost one sends the
# same rows to the same files.
#
# The check (`privacy/check.py`) reads the finished files. It knows nothing of the method, the ranks or the
# groups that led to them. Columns that it needs and that are not released (who provided a record) are
# written beside each file, in the same order, and removed when it is done.

_SAMPLE = 1000  # rows of a large release that are kept at hand


@dataclass(frozen=True)
class WrittenFile:
    """One file of a release: its rows, and the digest of its bytes."""

    path: str
    rows: int
    sha256: str
    beside: str | None = None  # the file of columns that are for the check alone

    def read(self, columns: Sequence[str], coded: Sequence[str] = ()) -> pa.Table:
        """Read these columns of the file, and of the one beside it."""
        import pyarrow.parquet

        cells: dict[str, pa.ChunkedArray] = {}
        for path in (self.path, *([self.beside] if self.beside is not None else [])):
            here = [name for name in pyarrow.parquet.read_schema(path).names if name in columns]
            table = pyarrow.parquet.read_table(path, columns=here, use_threads=False, memory_map=True)
            cells |= {name: table.column(name) for name in here}
        return pa.table({name: cells[name] for name in columns})


def write_release(
    table: Records,
    outcome: Outcome,
    published: Sequence[str],
    folder: Path,
    *,
    shuffle: bool,
    missing_values: Sequence[str],
    withheld: Sequence[str] = (),
) -> list[WrittenFile]:
    """Write the released rows into files of a folder; in the order of the rows unless they are shuffled.

    Columns that are `withheld` are written beside them for the check; `remove_withheld` removes them.
    """
    secret = os.urandom(32)
    marked = tuple(missing_values) if table.missing == "keep" else None
    hidden = tuple(withheld)
    kernels = [_Cells(part, at, (*published, *hidden), outcome, marked) for at, part in enumerate(table.parts)]
    names = [str(folder / part_name(at)) for at in range(len(kernels))]
    if not shuffle:
        return table.chunks.each(
            [
                partial(_write_chunk, cells=cells, path=name, withheld=hidden)
                for cells, name in zip(kernels, names, strict=True)
            ]
        )
    n_files = len(kernels)
    scattered = [str(folder / f".scattered-{at:05}.arrow") for at in range(n_files)]
    ends = table.chunks.each(
        [
            partial(_scatter, cells=cells, path=name, n_files=n_files, secret=secret)
            for cells, name in zip(kernels, scattered, strict=True)
        ]
    )
    written = table.engine.run(
        [
            partial(
                _gather,
                pieces=tuple((file, own[at], own[at + 1]) for file, own in zip(scattered, ends, strict=True)),
                at=at,
                secret=secret,
                path=name,
                withheld=hidden,
            )
            for at, name in enumerate(names)
        ]
    )
    for name in scattered:
        Path(name).unlink()
    return written


def remove_withheld(files: Sequence[WrittenFile]) -> None:
    """Remove the columns that were written for the check alone."""
    for each in files:
        if each.beside is not None:
            Path(each.beside).unlink(missing_ok=True)


def sample_of(files: Sequence[WrittenFile]) -> pa.Table:
    """Return some rows of the first file, which are random where rows are shuffled."""
    import pyarrow.parquet

    first = next((each for each in files if each.rows), files[0])
    with pyarrow.parquet.ParquetFile(first.path) as opened:
        batch = next(opened.iter_batches(_SAMPLE), None)
        table = opened.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])
    return pa.table({name: without_unused(table.column(name)) for name in table.column_names})


def digest_of(files: Sequence[WrittenFile]) -> str:
    """Return the digest of a folder: of its files' names and digests, as `sha256sum *` lists them."""
    lines = [f"{each.sha256}  {Path(each.path).name}\n" for each in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def expanded(secret: bytes, purpose: int, at: int, rows: int) -> NDArray[np.uint64]:
    """Return a random number for each row, the same whenever it is asked for."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    nonce = purpose.to_bytes(4, "little").rjust(8, b"\0") + at.to_bytes(8, "little")
    stream = Cipher(algorithms.ChaCha20(secret, nonce), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * rows)), np.uint64)


_TO_FILES, _WITHIN_FILE = 1, 2


@dataclass(frozen=True, eq=False)
class _Cells:
    """The released cells of a chunk: generalised ones by their codes, all others read again as they are."""

    part: TablePart
    at: int
    published: tuple[str, ...]
    outcome: Outcome
    marked: tuple[str, ...] | None  # texts of missing cells that are kept

    def __call__(self, chunk: Chunk) -> pa.Table:
        rows = self.outcome.rows(chunk)
        kept = chunk.get(KEPT)
        columns = {column.name: column for column in self.outcome.columns}
        unchanged = [name for name in self.published if name not in columns]
        raw = self.part.read(unchanged, unchanged) if unchanged else None
        source_rows = kept if rows is None else rows if kept is None else kept.take(rows)
        cells = {}
        for name in self.published:
            if name in columns:
                codes = self.outcome.codes[name](chunk)
                codes = codes if rows is None else codes.take(rows)
                cells[name] = _labelled(codes, columns[name].labels)
                continue
            assert raw is not None
            column = raw.column(name)
            if self.marked is not None and (absent := missing_rows(column, self.marked)) is not None:
                column = mark_missing(column, absent)
            column = column if source_rows is None else column.take(pa.array(source_rows))
            cells[name] = column.dictionary_encode() if is_text(column.type) else column
        return pa.table(cells)


def _write_chunk(chunk: Chunk, *, cells: _Cells, path: str, withheld: tuple[str, ...]) -> WrittenFile:
    """Write a chunk's cells in the order of its rows."""
    return _written(cells(chunk), path, withheld)


def _scatter(chunk: Chunk, *, cells: _Cells, path: str, n_files: int, secret: bytes) -> list[int]:
    """Write a chunk's cells in as many pieces as there will be files, each row into one at random.

    Each piece has dictionaries of its own: whoever reads it reads no more. Returns where each begins, and the end.
    """
    rows = cells(chunk)
    numbers = expanded(secret, _TO_FILES, cells.at, rows.num_rows)
    order = np.argsort(numbers)
    ends = (np.arange(1, n_files, dtype=object) * (1 << 64) // n_files).astype(np.uint64)
    cuts = [0, *np.searchsorted(numbers[order], ends).tolist(), rows.num_rows]
    mixed = rows.take(pa.array(order)).combine_chunks()
    places = [0]
    with _whole(path) as unfinished, pa.OSFile(unfinished, "wb") as file:
        for start, stop in pairwise(cuts):
            piece = _without_unused(mixed.slice(start, stop - start))
            with pa.ipc.new_stream(file, piece.schema) as writer:
                writer.write_table(piece)
            places.append(file.tell())
    return places


def _gather(
    pieces: tuple[tuple[str, int, int], ...],  # the file of each, where it begins, and where it ends
    at: int,
    secret: bytes,
    path: str,
    withheld: tuple[str, ...],
) -> WrittenFile:
    """Make one file of the pieces that all chunks wrote for it, in random order."""
    read = []
    for name, start, stop in pieces:
        with pa.OSFile(name, "rb") as file:
            file.seek(start)
            read.append(pa.ipc.open_stream(file.read_buffer(stop - start)).read_all())
    cells = pa.concat_tables(read).unify_dictionaries()
    numbers = expanded(secret, _WITHIN_FILE, at, cells.num_rows)
    return _written(cells.take(pa.array(np.argsort(numbers))), path, withheld)


def _written(cells: pa.Table, path: str, withheld: tuple[str, ...]) -> WrittenFile:
    """Write a file so that it is there whole or not at all, however often it is tried."""
    import pyarrow.parquet

    beside = str(Path(path).with_name(f".withheld-{Path(path).name}")) if withheld else None
    if beside is not None:
        with _whole(beside) as unfinished:
            pyarrow.parquet.write_table(cells.select(withheld), unfinished)
        cells = cells.drop_columns(list(withheld))
    used = pa.table({name: without_unused(cells.column(name)) for name in cells.column_names})
    with _whole(path) as unfinished:
        pyarrow.parquet.write_table(used, unfinished)
        with open(unfinished, "rb") as file:  # noqa: PTH123 # as text, it came so
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return WrittenFile(path, used.num_rows, digest, beside)


def _labelled(codes: Ints, labels: Sequence[str]) -> pa.ChunkedArray:
    """Return the cells with these codes, and a dictionary of those labels alone that occur."""
    numbers, found = renumber(codes, len(labels))
    used = pa.array([labels[code] for code in found.tolist()], pa.string())
    return pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), used)])


@contextmanager
def _whole(path: str) -> Iterator[str]:
    """Give a path to write to, which becomes the given one when the block succeeds."""
    unfinished = f"{path}.{os.getpid()}"
    try:
        yield unfinished
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise
    Path(unfinished).replace(path)


def _without_unused(piece: pa.Table) -> pa.Table:
    """Return a piece of a table without the values of large dictionaries that none of its rows has."""
    columns = {}
    for name in piece.column_names:
        column = piece.column(name)
        is_large = pa.types.is_dictionary(column.type) and any(
            len(each.dictionary) > len(each) for each in column.chunks
        )
        columns[name] = without_unused(column) if is_large else column
    return pa.table(columns)


# --- as json ------------------------------------------------------------------------------------------------
# Write a release's figures as JSON, which supports neither numpy types nor infinity.


def as_json(content: Mapping[str, Any]) -> str:
    """Return one JSON object in ASCII; numpy numbers become plain numbers, infinities become null."""
    return json.dumps(_plain(content), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- write --------------------------------------------------------------------------------------------------

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
    columns = [_CsvCells(separator, alone=table.num_columns == 1) for _ in table.column_names]
    yield memoryview(separator.join(_header_cell(name, separator) for name in table.column_names).encode() + b"\n")
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


class _CsvCells:
    """Writes the cells of one column; remembers the last dictionary, which batches of a table share."""

    def __init__(self, separator: str, *, alone: bool) -> None:
        self._special = '["\r\n' + ("\\" if separator.isascii() and not separator.isalnum() else "") + separator + "]"
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
        return (array.offset, len(array), *(None if buffer is None else buffer.address for buffer in array.buffers()))

    return key(one) == key(other)


# --- formulas -----------------------------------------------------------------------------------------------
# Cells that a spreadsheet would run as formulas when it opens a CSV file, and a way to write them so that
# it does not.
#
# A text that begins with =, +, -, @, a tab or a carriage return, and is not a number, gets an apostrophe
# in front. So does one that already has apostrophes before such a sign, so that `unescape` gives every
# text back as it was.


_FORMULA = "^'*[=+\\-@\t\r]"
_NUMBER = r"^[+-]?[0-9.,]+([eE][+-]?[0-9]+)?$"
_ESCAPED = "^'+[=+\\-@\t\r]"


def count_formulas(table: pa.Table) -> dict[str, int]:
    """Return how many cells of each text column would be run; columns without any are left out."""
    counts = {name: sum(map(_count, table.column(name).chunks)) for name in table.column_names}
    return {name: count for name, count in counts.items() if count}


def escape_formulas(table: pa.Table) -> pa.Table:
    """Put an apostrophe before every text cell that a spreadsheet would run."""

    def escape(texts: pa.Array) -> pa.Array:
        apostrophe, nothing = pa.scalar("'", texts.type), pa.scalar("", texts.type)
        return pc.if_else(_is_formula(texts), pc.binary_join_element_wise(apostrophe, texts, nothing), texts)

    return _changed(table, escape)


def unescape_formulas(table: pa.Table) -> pa.Table:
    """Give a table back as it was before `escape_formulas`."""

    def unescape(texts: pa.Array) -> pa.Array:
        return pc.if_else(pc.match_substring_regex(texts, _ESCAPED), pc.utf8_slice_codeunits(texts, 1), texts)

    return _changed(table, unescape)


def _count(array: pa.Array) -> int:
    if pa.types.is_dictionary(array.type):
        if not is_text(array.type.value_type) or not pc.any(_is_formula(array.dictionary)).as_py():
            return 0
        array = _is_formula(array.dictionary).take(array.indices)
    elif is_text(array.type):
        array = _is_formula(array)
    else:
        return 0
    return pc.sum(array).as_py() or 0


def _is_formula(texts: pa.Array) -> pa.Array:
    return pc.and_not(pc.match_substring_regex(texts, _FORMULA), pc.match_substring_regex(texts, _NUMBER))


def _changed(table: pa.Table, change: Callable[[pa.Array], pa.Array]) -> pa.Table:
    """Return the table with its texts changed."""

    def of(array: pa.Array) -> pa.Array:
        if not pa.types.is_dictionary(array.type):
            return change(array) if is_text(array.type) else array
        if not is_text(array.type.value_type):
            return array
        return pa.DictionaryArray.from_arrays(array.indices, change(array.dictionary), ordered=array.type.ordered)

    columns = [pa.chunked_array([of(each) for each in column.chunks], column.type) for column in table.columns]
    return pa.table(columns, names=table.column_names) if columns else table
