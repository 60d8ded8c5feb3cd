"""Rows of a table in chunks that are brought together: a sample, or those that some columns do not tell apart.

What comes back of a row is the fingerprints of its cells, never a cell. The sample is the one that a single pass over
the whole table draws with the same seed (`row_sample.py`): a row's random number depends on its place alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from masquerade.data.fingerprints import Fingerprints
from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import Counts, Rows
from masquerade.engine.numbering import distinct_values, first_rows
from masquerade.engine.shares import counted_shares
from masquerade.risk.chunked_ground import (
    ChunkedGround,
    CountLabels,
    codes_in,
    labels_of,
    values_in,
)
from masquerade.risk.coded_table import CodedTable
from masquerade.risk.partition import Partition, partition_by
from masquerade.risk.row_sample import share_below

_BYTES_PER_CELL = 32  # of a row that is brought here
_FIRST = "first"  # 1 for the first of the rows that are equal in all columns


def sampled_rows(ground: ChunkedGround, size: int, seed: int) -> CodedTable:
    """Return a uniform sample of `size` rows, in random order."""
    size, bound = min(size, ground.rows), share_below(size, ground.rows)
    needed = size * _BYTES_PER_CELL * len(ground.names)
    ground.engine.insist_on_summing(needed, f"{size:,} rows of {len(ground.names)} columns")
    starts = np.cumsum([0, *ground.sizes]).tolist()
    while True:
        found = ground.chunks.each(
            [
                _Draw(ground.names, start, rows, bound, seed)
                for start, rows in zip(starts, ground.sizes, strict=False)
            ]
        )
        numbers = np.concatenate([each for each, _ in found])
        if numbers.size >= size:
            break
        bound = 2 * bound  # but for a chance of less than one in a million it was enough
    order = np.argsort(numbers, kind="stable")[:size]
    return _coded(ground.names, [cells for _, cells in found], order)


@dataclass(frozen=True, eq=False)
class ChunkedRows:
    """The different rows of a table in chunks; see `exact_key`."""

    ground: ChunkedGround

    @classmethod
    def of(cls, ground: ChunkedGround) -> ChunkedRows:
        """Take one of each group of equal rows."""
        everything = ground.by(range(len(ground.names))).extent
        if everything.groups == ground.rows:
            return cls(ground)
        ground.chunks.change([_Everybody(rows) for rows in ground.sizes])
        for counted in counted_shares(ground.chunks, CountLabels(ground.names), ground.engine):
            several = counted.keys[counted.counts > 1]
            if not several.size:
                continue
            owner = np.full(several.size, -1, np.int32)
            for at in range(len(ground.chunks)):
                there = ground.chunks.only(at, _Has(ground.names, several))
                owner[(owner < 0) & there] = at
            ground.chunks.change(
                [_KeepFirst(ground.names, several, owner == at) for at in range(len(ground.chunks))]
            )
        chunks = ground.chunks.derive(_TakeFirst(ground.names))
        sizes = tuple(chunks.each(_Size(ground.names[0])))
        return cls(replace(ground, chunks=chunks, sizes=sizes, chosen=(), known={}))

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.ground.rows

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.ground.names)

    def alike(self, columns: tuple[int, ...]) -> Partition:
        """The groups of rows that these columns do not tell apart, or of some such rows where there are too many."""
        most = max(2, self.ground.engine.summing_memory // (_BYTES_PER_CELL * self.width))
        names = self.ground.names
        if not columns:
            table = sampled_rows(self.ground, min(most, self.rows), 7)
            return Partition.of(table)
        chosen = tuple(names[at] for at in columns)
        found: list[Fingerprints] = []
        for counted in counted_shares(self.ground.chunks, CountLabels(chosen), self.ground.engine):
            several = counted.counts > 1
            keys, times = counted.keys[several], counted.counts[several]
            room = most - sum(each.shape[1] for each in found)
            keys = keys[: max(int(np.searchsorted(np.cumsum(times), room, "right")), 0 if found else 1)]
            if keys.size:
                found += self.ground.chunks.each(_RowsWith(names, chosen, keys))
            if several.any() and keys.size < times.size:
                break
        return partition_by(_coded(names, found), columns)


def _coded(names: Sequence[str], pieces: Sequence[Fingerprints], rows: Rows | None = None) -> CodedTable:
    """Return a table of rows by the fingerprints of their cells, a row of the matrices for each column."""
    codes: list[NDArray[np.int32]] = []
    bounds = []
    for at in range(len(names)):
        cells = np.concatenate([np.empty(0, np.uint64), *(each[at] for each in pieces)])
        values, own = distinct_values(cells if rows is None else cells.take(rows))
        codes.append(own.astype(np.int32))
        bounds.append(int(values.size))
    return CodedTable(tuple(names), tuple(codes), tuple(bounds), int(codes[0].size))


@dataclass(frozen=True)
class _Draw:
    """Draws the rows of a chunk whose random numbers are below a bound; tells the numbers and the cells."""

    names: tuple[str, ...]
    start: int  # rows before the chunk
    rows: int
    bound: float
    seed: int

    def __call__(self, chunk: Chunk) -> tuple[NDArray[np.float64], Fingerprints]:
        random = np.random.default_rng(self.seed)
        random.bit_generator.advance(self.start)  # type: ignore[attr-defined] # one step for each number
        numbers = random.random(self.rows)
        drawn = np.flatnonzero(numbers < self.bound)
        return numbers[drawn], _cells(chunk, self.names, drawn)


def _cells(chunk: Chunk, names: Sequence[str], rows: Rows) -> Fingerprints:
    return np.stack([chunk[values_in(name)].take(chunk[codes_in(name)].take(rows)) for name in names])


@dataclass(frozen=True, eq=False)
class _RowsWith:
    """Tells the cells of rows that have one of some labels."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    labels: Counts

    def __call__(self, chunk: Chunk) -> Fingerprints:
        rows = np.flatnonzero(_position(self.labels, labels_of(chunk, self.columns)) >= 0)
        return _cells(chunk, self.names, rows)


@dataclass(frozen=True)
class _Everybody:
    rows: int

    def __call__(self, chunk: Chunk) -> Arrays:
        return {_FIRST: np.ones(self.rows, np.uint8)}


@dataclass(frozen=True, eq=False)
class _Has:
    """Tells which of some labels a chunk's rows have."""

    names: tuple[str, ...]
    labels: Counts

    def __call__(self, chunk: Chunk) -> NDArray[np.bool_]:
        found = np.zeros(self.labels.size, bool)
        places = _position(self.labels, labels_of(chunk, self.names))
        found[places[places >= 0]] = True
        return found


@dataclass(frozen=True, eq=False)
class _KeepFirst:
    """Takes note of the rows with some labels that another row of the same label goes before."""

    names: tuple[str, ...]
    labels: Counts
    here: NDArray[np.bool_]  # whether the first row of each label is in this chunk

    def __call__(self, chunk: Chunk) -> Arrays:
        places = _position(self.labels, labels_of(chunk, self.names))
        rows = np.flatnonzero(places >= 0)
        first = np.array(chunk[_FIRST])
        first[rows] = 0
        places = places.take(rows)
        values, own = distinct_values(places)
        if values.size:
            earliest = rows.take(first_rows(own, values.size))
            first[earliest[self.here[values]]] = 1
        return {_FIRST: first}


@dataclass(frozen=True)
class _TakeFirst:
    names: tuple[str, ...]

    def __call__(self, chunk: Chunk) -> Arrays:
        rows = np.flatnonzero(chunk[_FIRST])
        codes = {codes_in(name): chunk[codes_in(name)].take(rows) for name in self.names}
        return {**codes, **{values_in(name): np.array(chunk[values_in(name)]) for name in self.names}}


@dataclass(frozen=True)
class _Size:
    name: str

    def __call__(self, chunk: Chunk) -> int:
        return int(chunk[codes_in(self.name)].size)


def _position(labels: Counts, of: Counts) -> Counts:
    """Return the place of each of these among labels in ascending order, -1 where it is none."""
    if not labels.size:
        return np.full(of.size, -1)
    places = np.minimum(np.searchsorted(labels, of), labels.size - 1)
    return np.where(labels[places] == of, places, -1)
