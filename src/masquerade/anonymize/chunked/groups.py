"""The groups of one QID where records are in chunks: what `Partition` asks of records, as kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from masquerade.anonymize.instruction import Instruction, RankSplit
from masquerade.anonymize.partition import Partition
from masquerade.anonymize.public_state import PublicState
from masquerade.anonymize.tolerant_partition import TolerantPartition
from masquerade.data.column import Coded, Column
from masquerade.data.records import Records, codes_of, ranks_of
from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import Counts, Ints, Rows
from masquerade.engine.numbering import look_up, rows_by_rank
from masquerade.engine.sparse import SparseCounts
from masquerade.privacy.requirement import GroupRequirement


def labels_of(qid: Sequence[str]) -> str:
    """Return under which name a chunk has each row's group of a QID."""
    return f"groups {' '.join(qid)}"


class ChunkedState(PublicState):
    """A `PublicState` whose records are in chunks; its instructions are the splits of ranks themselves."""

    def __init__(
        self,
        table: Records,
        attributes: Sequence[str],
        requirements: Sequence[GroupRequirement],
        may_suppress: int,
    ) -> None:
        self._table = table
        super().__init__(attributes, requirements, self.sensitive, len(table), may_suppress)

    @property
    def sensitive(self) -> Mapping[str, Coded]:
        """The sensitive attributes whose requirements are checked here."""
        return self._table.coded

    def _partition(
        self, qid: Sequence[str], parts: Sequence[GroupRequirement], sensitive: Mapping[str, Coded]
    ) -> Partition:
        if self.may_suppress:
            tolerant = _ChunkedTolerantPartition(qid, parts, sensitive, 0, self.may_suppress)
            tolerant.start(self._table, [0, self.n_rows])
            return tolerant
        strict = _ChunkedPartition(qid, parts, sensitive, 0)
        strict.start(self._table, [self.n_rows])
        return strict

    def instruct(self, split: RankSplit, column: Column) -> Instruction:
        """Return the split: whoever holds the ranks can apply it."""
        return split  # type: ignore[return-value] # only the chunks look at more than its children's number

    def split_keys(self, partition: Partition, instruction: Instruction) -> tuple[Rows | None, Counts, int]:
        """Fetch the carriers and their (group, child) from the chunks."""
        assert isinstance(partition, _InChunks)
        return partition.split_keys(instruction)

    def _carriers_by_child(self, carriers: Rows | None, instruction: Instruction) -> Sequence[Rows | None]:
        return [None] * instruction.n_children

    @property
    def released(self) -> str | None:
        """The name of the array in which records that are left out have a 0; None where nobody is."""
        for partition in self.partitions:
            if isinstance(partition, TolerantPartition) and partition.sizes[0]:
                return labels_of(partition.qid)
        return None


class _InChunks(Partition):
    """What a partition asks of records, where they are in chunks."""

    def start(self, table: Records, sizes: Sequence[int]) -> None:
        """Put all records into the last of these groups."""
        self._chunks = table.chunks
        self._name = labels_of(self.qid)
        self.n_rows, self.sizes = len(table), np.array(sizes)
        self.whole = dict(table.whole)
        self._parts_of: tuple[Instruction, SparseCounts] | None = None  # the last, which is asked for again
        self._chunks.change(_Start(self._name, len(sizes) - 1))

    def holds(self) -> bool:
        """Return whether every current group satisfies the requirements."""
        return self.allows(None, Everybody(self._name))  # type: ignore[arg-type] # as for `ChunkedState.instruct`

    def each_label(self) -> Iterator[Counts]:
        """Yield each record's group, chunk by chunk."""
        for at in range(len(self._chunks)):
            yield self._chunks.only(at, _Array(self._name))

    def rows_by_group(self) -> Rows:
        """Fetch each record's group, four bytes each, and sort the records."""
        return rows_by_rank(np.concatenate(self._chunks.each(_Labels(self._name))), int(self.sizes.size))

    def split_keys(self, instruction: Instruction) -> tuple[Rows, Counts, int]:
        """Fetch the carriers, and the number of each one's (group, child), below the third."""
        count = self._count(instruction)
        sizes = self._chunks.each(_Size(self._name))
        found = self._chunks.each(_KeysOfRows(count))
        firsts = np.cumsum([0, *sizes[:-1]])
        rows = np.concatenate([first + rows for first, (rows, _) in zip(firsts, found, strict=True)])
        bound = count.n_groups * count.split.n_children
        return rows, np.concatenate([keys for _, keys in found]), bound

    def parts(self, carriers: Rows | None, instruction: Instruction) -> tuple[Counts, Counts]:
        """Count the (group, child) pairs over all chunks."""
        if self._parts_of is None or self._parts_of[0] is not instruction:
            self._parts_of = instruction, self._chunks.total(self._count(instruction))
        return self._parts_of[1].keys, self._parts_of[1].counts

    def histograms(self, carriers: Rows | None, instruction: Instruction, name: str) -> Counts:
        """Count the values of a sensitive attribute in each (group, child) over all chunks."""
        n_values = len(self.sensitive[name].labels)
        counted = self._chunks.total(self._count(instruction, name))
        pairs, values = np.divmod(counted.keys, n_values)
        starts = np.diff(pairs, prepend=-1) > 0
        histogram = np.zeros((int(np.count_nonzero(starts)), n_values), np.int64)
        histogram[np.cumsum(starts) - 1, values] = counted.counts
        return histogram

    def relabel(
        self, carriers: Rows | None, instruction: Instruction, found: Counts, numbers: Counts
    ) -> None:
        """Have every chunk give its records the numbers of their groups."""
        self._chunks.change(_Relabel(self._count(instruction), found, numbers))
        self._parts_of = None

    def _count(self, instruction: Instruction, name: str | None = None) -> _CountParts:
        split = carried_by(instruction)
        if name is None:
            return _CountParts(split, self._name, int(self.sizes.size))
        return _CountParts(
            split, self._name, int(self.sizes.size), codes_of(name), len(self.sensitive[name].labels)
        )


class _ChunkedPartition(_InChunks, Partition):
    """Groups that must all satisfy."""


class _ChunkedTolerantPartition(_InChunks, TolerantPartition):
    """Groups of which some may be left out."""


class Carried(Protocol):
    """Which records of a chunk carry a value that is specialised, and the child that each goes to."""

    @property
    def n_children(self) -> int:
        """The number of children that some record goes to."""

    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        """Return the rows, None for all, and their children."""


def carried_by(instruction: object) -> Carried:
    """Return the kernel of an instruction: a split of ranks, or one that finds its records itself."""
    return _OfRanks(instruction) if isinstance(instruction, RankSplit) else cast(Carried, instruction)


@dataclass(frozen=True, eq=False)
class _OfRanks:
    """Those with ranks of the value."""

    split: RankSplit

    @property
    def n_children(self) -> int:
        return self.split.n_children

    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        ranks = chunk[ranks_of(self.split.attribute)]
        rows = _between(ranks, self.split.lo, self.split.lo + self.split.child_of_rank.size)
        return rows, self.split.children_of(ranks if rows is None else ranks.take(rows))


@dataclass(frozen=True)
class Everybody:
    """All records, which go to one child."""

    labels: str
    n_children: int = 1

    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        """Return a child for each."""
        return None, np.zeros(chunk[self.labels].size, np.uint8)


@dataclass(frozen=True)
class _Start:
    """Puts all records of a chunk into one group."""

    labels: str
    group: int

    def __call__(self, chunk: Chunk) -> Arrays:
        like = next(iter(chunk.values()))
        return {self.labels: np.full(like.size, self.group, np.int32)}


@dataclass(frozen=True)
class _Array:
    name: str

    def __call__(self, chunk: Chunk) -> Counts:
        return chunk[self.name].astype(np.int64)


@dataclass(frozen=True)
class _Labels:
    name: str

    def __call__(self, chunk: Chunk) -> Ints:
        labels: Ints = chunk[self.name]
        return labels


@dataclass(frozen=True)
class _Size:
    name: str

    def __call__(self, chunk: Chunk) -> int:
        return int(chunk[self.name].size)


@dataclass(frozen=True, eq=False)
class _KeysOfRows:
    """Gives the rows that carry a value, and the (group, child) of each."""

    count: _CountParts

    def __call__(self, chunk: Chunk) -> tuple[Rows, Counts]:
        rows, keys = self.count.keys(chunk)
        return np.arange(keys.size) if rows is None else rows, keys


@dataclass(frozen=True, eq=False)
class _CountParts:
    """Counts the (group, child) pairs of the records that carry a value, by sensitive value if asked."""

    split: Carried
    labels: str
    n_groups: int
    codes: str | None = None
    n_values: int = 1

    def __call__(self, chunk: Chunk) -> SparseCounts:
        rows, keys = self.keys(chunk)
        bound = self.n_groups * self.split.n_children
        if self.codes is None:
            return SparseCounts.of(keys, bound)
        values = chunk[self.codes] if rows is None else chunk[self.codes].take(rows)
        return SparseCounts.of(keys * self.n_values + values, bound * self.n_values)

    def keys(self, chunk: Chunk) -> tuple[Rows | None, Counts]:
        """Return the rows that carry the value, None for all, and the (group, child) of each."""
        rows, children = self.split(chunk)
        labels = chunk[self.labels] if rows is None else chunk[self.labels].take(rows)
        keys = labels.astype(np.int64) * self.split.n_children
        keys += children
        return rows, keys


@dataclass(frozen=True, eq=False)
class _Relabel:
    """Gives the carriers of each (group, child) that occurs its number as their group."""

    count: _CountParts
    found: Counts
    numbers: Counts

    def __call__(self, chunk: Chunk) -> Arrays:
        rows, keys = self.count.keys(chunk)
        bound = self.count.n_groups * self.count.split.n_children
        numbers = look_up(keys, self.found, self.numbers, bound).astype(np.int32)
        if rows is None:
            return {self.count.labels: numbers}
        labels = np.array(chunk[self.count.labels])
        labels[rows] = numbers
        return {self.count.labels: labels}


def _between(ranks: Ints, lo: int, hi: int) -> Rows | None:
    """Return the rows with ranks in `[lo, hi)`; None for all."""
    inside = ranks < hi if lo == 0 else (ranks >= lo) & (ranks < hi)
    return None if inside.all() else np.flatnonzero(inside)
