"""What columns tell apart in a table that stays in chunks, counted exactly in a memory that does not grow with it.

A chunk holds each cell's code, and the fingerprint of each code (`data/fingerprints.py`), so that equal cells of chunks
that never meet are known to be equal. A row's label is made of the fingerprints of its cells in some columns. The
kernel counts the rows with each label, and these counts add up over chunks, share by share where there are too many
labels (`engine/shares.py`). Nothing else is kept, so a `Ground` of any columns costs nothing until somebody asks.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from masquerade.data.fingerprints import Fingerprints, coded_fingerprints, mixed
from masquerade.data.records import Parted, TablePart, rows_of_chunks
from masquerade.engine.chunks import Arrays, Chunk, Chunks, Engine
from masquerade.engine.counts import Counts, value_counts
from masquerade.engine.shares import counted_shares
from masquerade.engine.sparse import SparseCounts
from masquerade.risk.ground import Extent

_BYTES_PER_CELL = 20  # while a chunk is read: Arrow's cells and their numbers, one column after the other
_WHOLE = np.iinfo(np.int64).max


def codes_in(name: str) -> str:
    """Return under which name a chunk has the code of each row's cell."""
    return f"codes {name}"


def values_in(name: str) -> str:
    """Return under which name a chunk has the fingerprint of each code."""
    return f"values {name}"


@dataclass(frozen=True)
class ReadCells:
    """The loader of a chunk: the codes of its cells, and their fingerprints."""

    part: TablePart
    columns: tuple[str, ...]
    secret: int

    def __call__(self) -> tuple[Arrays, int]:
        """Read the part. Tell how many rows it has."""
        table = self.part.read(self.columns, self.columns)
        arrays: Arrays = {}
        for name in self.columns:
            codes, values = coded_fingerprints(table[name], self.secret)
            arrays[codes_in(name)] = codes.astype(np.min_scalar_type(max(values.size - 1, 0)))
            arrays[values_in(name)] = values
        return arrays, table.num_rows


def cells_of(chunk: Chunk, name: str) -> Fingerprints:
    """Return the fingerprint of each cell of a column."""
    found: Fingerprints = chunk[values_in(name)].take(chunk[codes_in(name)])
    return found


def labels_of(chunk: Chunk, columns: Sequence[str]) -> Counts:
    """Return a number for each row, by which rows that are equal in these columns, and no others, are equal."""
    first, *others = columns
    labels: Fingerprints = mixed(chunk[values_in(first)]).take(chunk[codes_in(first)])
    for name in others:
        labels = mixed(labels ^ cells_of(chunk, name))
    return (labels >> np.uint64(1)).astype(np.int64)


@dataclass(frozen=True)
class CountLabels:
    """Counts the rows with each label."""

    columns: tuple[str, ...]

    def __call__(self, chunk: Chunk) -> SparseCounts:
        """Return the counts of this chunk's rows."""
        if len(self.columns) > 1:
            return SparseCounts.of(labels_of(chunk, self.columns), _WHOLE)
        values = chunk[values_in(self.columns[0])]
        times = value_counts(chunk[codes_in(self.columns[0])], values.size)
        found = SparseCounts((mixed(values) >> np.uint64(1)).astype(np.int64), times)
        return SparseCounts.sum_of([found])  # in order, and each value once


@dataclass(frozen=True, eq=False)
class ChunkedGround:
    """The rows of a table in chunks, and the columns chosen so far."""

    engine: Engine
    chunks: Chunks
    names: tuple[str, ...]
    sizes: tuple[int, ...]  # the rows of each chunk
    chosen: tuple[int, ...] = ()
    known: dict[frozenset[int], Extent] = field(default_factory=dict)  # of this and all others of the table

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.sizes)

    @property
    def whole(self) -> Extent:
        """All rows and all pairs of them."""
        return Extent(self.rows, self.rows * (self.rows - 1) // 2)

    @property
    def extent(self) -> Extent:
        """The groups, and the pairs of rows in different ones."""
        return self._extent(self.chosen)

    def extent_with(self, column: int) -> Extent:
        """The same with one more column."""
        return self._extent((*self.chosen, column))

    def refined(self, column: int) -> ChunkedGround:
        """The ground with one more column chosen."""
        return self.by((*self.chosen, column))

    def by(self, columns: Sequence[int]) -> ChunkedGround:
        """The ground with these columns chosen, and no others."""
        return replace(self, chosen=tuple(columns))

    def _extent(self, columns: tuple[int, ...]) -> Extent:
        asked = frozenset(columns)
        if asked not in self.known:
            self.known[asked] = self._counted(tuple(self.names[at] for at in sorted(asked)))
        return self.known[asked]

    def _counted(self, columns: tuple[str, ...]) -> Extent:
        if not columns:
            return Extent(min(self.rows, 1), 0)
        groups, alike = 0, 0
        for counted in counted_shares(self.chunks, CountLabels(columns), self.engine):
            groups += counted.counts.size
            alike += int((counted.counts * (counted.counts - 1)).sum()) // 2
        return Extent(groups, self.whole.pairs - alike)


def read_ground(files: Parted, columns: Sequence[str], engine: Engine) -> ChunkedGround:
    """Read a table's columns into an engine's chunks; none is chosen yet."""
    names, secret = tuple(columns), secrets.randbits(64)
    parts = files.parts(rows_of_chunks(files, len(names), engine, _BYTES_PER_CELL))
    engine.check_files([str(path) for path in files.paths])
    chunks, sizes = engine.load([ReadCells(part, names, secret) for part in parts])
    return ChunkedGround(engine, chunks, names, tuple(sizes))
