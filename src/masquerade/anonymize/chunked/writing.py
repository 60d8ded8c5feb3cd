"""Write a release in chunks as a folder of Parquet files, in an order that tells nothing.

Nobody holds all rows. Each chunk sends its released rows to files at random, and each file's rows are put into random
order: together that is a random order of all rows. What is random comes from a secret of the system, drawn once and
stretched by ChaCha20, so that a worker that takes over from a lost one sends the same rows to the same files.

The check (`checking.py`) reads the finished files. It knows nothing of the method, the ranks or the groups that led to
them. Columns that it needs and that are not released (who provided a record) are written beside each file, in the same
order, and removed when it is done.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from masquerade.anonymize.outcome import Outcome
from masquerade.data.encode import is_text, mark_missing, missing_rows, without_unused
from masquerade.data.parquet_names import part_name
from masquerade.data.records import KEPT, Records, TablePart
from masquerade.engine.chunks import Chunk
from masquerade.engine.counts import Ints
from masquerade.engine.numbering import renumber

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
    kernels = [
        _Cells(part, at, (*published, *hidden), outcome, marked) for at, part in enumerate(table.parts)
    ]
    names = [str(folder / part_name(at)) for at in range(len(kernels))]
    if not shuffle:
        return table.chunks.each(
            [_Write(cells, name, hidden) for cells, name in zip(kernels, names, strict=True)]
        )
    n_files = len(kernels)
    scattered = [str(folder / f".scattered-{at:05}.arrow") for at in range(n_files)]
    ends = table.chunks.each(
        [_Scatter(cells, name, n_files, secret) for cells, name in zip(kernels, scattered, strict=True)]
    )
    written = table.engine.run(
        [
            _Gather(
                tuple((file, own[at], own[at + 1]) for file, own in zip(scattered, ends, strict=True)),
                at,
                secret,
                name,
                hidden,
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
    first = next((each for each in files if each.rows), files[0])
    with pyarrow.parquet.ParquetFile(first.path) as opened:
        batch = next(opened.iter_batches(_SAMPLE), None)
        table = opened.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])
    return pa.table({name: without_unused(table.column(name)) for name in table.column_names})


def digest_of(files: Sequence[WrittenFile]) -> str:
    """Return the digest of a folder: of its files' names and digests, as `sha256sum *` lists them."""
    lines = [f"{each.sha256}  {Path(each.path).name}\n" for each in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def stretched(secret: bytes, purpose: int, at: int, rows: int) -> NDArray[np.uint64]:
    """Return a random number for each row, the same whenever it is asked for."""
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


@dataclass(frozen=True, eq=False)
class _Write:
    """Writes a chunk's cells in the order of its rows."""

    cells: _Cells
    path: str
    withheld: tuple[str, ...]

    def __call__(self, chunk: Chunk) -> WrittenFile:
        return _written(self.cells(chunk), self.path, self.withheld)


@dataclass(frozen=True, eq=False)
class _Scatter:
    """Writes a chunk's cells in as many pieces as there will be files, each row into one at random.

    Each piece has dictionaries of its own: whoever reads it reads no more. Returns where each begins, and the end.
    """

    cells: _Cells
    path: str
    n_files: int
    secret: bytes

    def __call__(self, chunk: Chunk) -> list[int]:
        cells = self.cells(chunk)
        numbers = stretched(self.secret, _TO_FILES, self.cells.at, cells.num_rows)
        order = np.argsort(numbers)
        ends = (np.arange(1, self.n_files, dtype=object) * (1 << 64) // self.n_files).astype(np.uint64)
        cuts = [0, *np.searchsorted(numbers[order], ends).tolist(), cells.num_rows]
        mixed = cells.take(pa.array(order)).combine_chunks()
        places = [0]
        with _whole(self.path) as unfinished, pa.OSFile(unfinished, "wb") as file:
            for start, stop in pairwise(cuts):
                piece = _without_unused(mixed.slice(start, stop - start))
                with pa.ipc.new_stream(file, piece.schema) as writer:
                    writer.write_table(piece)
                places.append(file.tell())
        return places


@dataclass(frozen=True)
class _Gather:
    """Makes one file of the pieces that all chunks wrote for it, in random order."""

    pieces: tuple[tuple[str, int, int], ...]  # the file of each, where it begins, and where it ends
    at: int
    secret: bytes
    path: str
    withheld: tuple[str, ...]

    def __call__(self) -> WrittenFile:
        pieces = []
        for name, start, stop in self.pieces:
            with pa.OSFile(name, "rb") as file:
                file.seek(start)
                pieces.append(pa.ipc.open_stream(file.read_buffer(stop - start)).read_all())
        cells = pa.concat_tables(pieces).unify_dictionaries()
        numbers = stretched(self.secret, _WITHIN_FILE, self.at, cells.num_rows)
        return _written(cells.take(pa.array(np.argsort(numbers))), self.path, self.withheld)


def _written(cells: pa.Table, path: str, withheld: tuple[str, ...]) -> WrittenFile:
    """Write a file so that it is there whole or not at all, however often it is tried."""
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


class _whole:  # noqa: N801 # read as a verb
    """A path to write to, which becomes the given one when the block succeeds."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._unfinished = f"{path}.{os.getpid()}"

    def __enter__(self) -> str:
        return self._unfinished

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            Path(self._unfinished).replace(self._path)
        else:
            Path(self._unfinished).unlink(missing_ok=True)


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
