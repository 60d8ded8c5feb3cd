"""The distinct records of a table, and the boxes that a vector of levels cuts them into.

A box is a product of values, one for each attribute. Boxes are told apart by a 64-bit key: the sum, modulo 2^64, of a
pseudorandom number for each of its values. Two boxes with the same key would only be taken for one group, whose cells
are found from its records; that is never wrong, and as good as impossible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.data import Coded, Column, Taxonomy
from masquerade.engine import Counts, Flags, Rows, first_rows, group_rows, value_counts, weighted_counts
from masquerade.utility import guiding_penalties

# --- levels -------------------------------------------------------------------------------------------------
# The levels of one attribute: how far each value can be raised, what that loses, and what covers several
# values.
#
# Along a taxonomy, level i raises a leaf by i edges. Along numbers a level is a grid of intervals over the
# ranks of the distinct values, each width once from the start and once shifted by half, so that no value is
# always at a border. Losses are certainty penalties in fixed point: the same job gives the same release on
# every machine.

ONE = 1 << 20  # a penalty of 1

Costs = NDArray[np.int32]

_LEAST_GROWTH, _MOST_WIDTHS = 1.5, 8


class Levels(ABC):
    """One attribute. `nodes` and `costs` have a row for each level and an entry for each rank."""

    nodes: Counts  # numbers of the values that ranks are raised to; one value has one number on all levels
    costs: Costs

    def __init__(self, column: Column) -> None:
        self.column = column

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return int(self.nodes.shape[0])

    @abstractmethod
    def cover(self, first: Counts, last: Counts) -> tuple[Counts, Counts]:
        """Return the ranks `[lo, hi)` of the lowest value that covers all ranks from `first` through `last`."""

    def penalty(self, first: Counts, last: Counts) -> Counts:
        """Return what that value loses."""
        return self._fixed(*self.cover(first, last))

    def _fixed(self, lo: Counts, hi: Counts) -> Counts:
        return np.rint(guiding_penalties(self.column.domain, lo, hi) * ONE).astype(np.int64)


class TreeLevels(Levels):
    """A taxonomy."""

    def __init__(self, column: Column) -> None:
        super().__init__(column)
        assert isinstance(column.domain, Taxonomy)
        nodes = column.domain.nodes
        self._lo, self._hi = np.array([node.lo for node in nodes]), np.array([node.hi for node in nodes])
        self._parent = np.array([max(node.parent, 0) for node in nodes])
        self._leaf = np.flatnonzero([not node.children for node in nodes])
        raised = [self._leaf]
        for _ in range(column.domain.height):
            raised.append(self._parent[raised[-1]])
        self.nodes = np.stack(raised)
        self._losses = self._fixed(self._lo, self._hi)
        self.costs = self._losses[self.nodes].astype(np.int32)

    def _node(self, first: Counts, last: Counts) -> Counts:
        node = self._leaf[first]
        while (short := np.flatnonzero(self._hi[node] <= last)).size:
            node[short] = self._parent[node[short]]
        return node

    def cover(self, first: Counts, last: Counts) -> tuple[Counts, Counts]:
        """Climb from the first leaf until the last one is covered, too."""
        node = self._node(first.ravel(), last.ravel()).reshape(first.shape)
        return self._lo[node], self._hi[node]

    def penalty(self, first: Counts, last: Counts) -> Counts:
        """Look the node's loss up."""
        return self._losses[self._node(first.ravel(), last.ravel())].reshape(first.shape)


class GridLevels(Levels):
    """Numbers or dates without a taxonomy."""

    def __init__(self, column: Column) -> None:
        super().__init__(column)
        size = max(column.domain.size, 1)
        ranks = np.arange(size)
        nodes, costs, used = [], [], 0
        for width, shift in _grids(size):
            cells = (ranks + shift) // width
            lo = np.maximum(cells * width - shift, 0)
            hi = np.minimum((cells + 1) * width - shift, size)
            nodes.append(cells + used)
            costs.append(self._fixed(lo, hi))
            used += int(cells[-1]) + 1
        self.nodes, self.costs = np.stack(nodes), np.stack(costs).astype(np.int32)

    def cover(self, first: Counts, last: Counts) -> tuple[Counts, Counts]:
        """Return the interval from the first value to the one after the last."""
        return first, last + 1


def levels_of(column: Column) -> Levels:
    """Return the levels of a column."""
    return TreeLevels(column) if isinstance(column.domain, Taxonomy) else GridLevels(column)


def _grids(size: int) -> list[tuple[int, int]]:
    """Return width and shift of each grid: single values, widths that grow by a factor, and everything."""
    growth = max(_LEAST_GROWTH, (size / 2) ** (1 / _MOST_WIDTHS))
    widths, width = [1], 2.0
    while width < size:
        widths.append(round(width))
        width = max(width * growth, round(width) + 1)
    grids = [(width, shift) for width in widths for shift in {0, width // 2}]
    return sorted(grids) + ([(size, 0)] if size > 1 else [])


# --- space --------------------------------------------------------------------------------------------------

Keys = NDArray[np.int64]

_KEPT = 4 << 20  # keys and costs that are kept from one look at a vector to the next
_KEY_SEED = 1


@dataclass(frozen=True, eq=False)
class DistinctRecords:
    """The distinct records: their ranks along each attribute, how many rows have them, and what is counted of them."""

    ranks: Counts  # attribute × record
    sizes: Counts
    counts: Histograms  # as the judge of the requirements counts them
    classes: Counts | None  # record × class, where there is one
    of_row: Counts  # each row's record

    @property
    def n(self) -> int:
        """Number of distinct records."""
        return int(self.sizes.size)

    def only(self, kept: Rows) -> DistinctRecords:
        """Return these records alone; rows keep the numbers they have."""
        classes = None if self.classes is None else self.classes[kept]
        counts = tuple(each[kept] for each in self.counts)
        return DistinctRecords(self.ranks[:, kept], self.sizes[kept], counts, classes, self.of_row)


def distinct_records(levels: Sequence[Levels], rows: Rows, judge: Judge, classes: Coded | None) -> DistinctRecords:
    """Return the distinct records among these rows."""
    ranks = [each.column.ranks.take(rows) for each in levels]
    domains = [each.column.domain.size for each in levels]
    of_row, n = group_rows(zip(ranks, domains, strict=True), rows.size)
    first = first_rows(of_row, n)
    sizes = value_counts(of_row, n)
    return DistinctRecords(
        np.stack([column[first] for column in ranks]).astype(np.int64),
        sizes,
        judge.count(lambda: of_row, rows, sizes),
        classes.histograms(of_row, n, rows) if classes is not None else None,
        of_row,
    )


class _Half(NamedTuple):
    """What a vector of levels of some attributes says of each record's box."""

    hashes: NDArray[np.uint16]  # the keys' last bits
    keys: Keys
    costs: Costs

    def of(self, records: Rows) -> _Half:
        """Return what it says of these records."""
        return _Half(self.hashes.take(records), self.keys.take(records), self.costs.take(records))


class BoxIndex:
    """Keys and costs of the boxes that hold each record, for each of the vectors that are searched.

    A vector is looked at in two halves, whose keys and costs add up: a few hundred halves make all vectors of a
    lattice of many thousands, so they are kept as long as there is room.
    """

    def __init__(self, levels: Sequence[Levels], records: DistinctRecords, vectors: Counts) -> None:
        random = np.random.default_rng(_KEY_SEED)
        self._ranks = records.ranks
        self._keys = [random.integers(-(2**62), 2**62, int(each.nodes.max()) + 1)[each.nodes] for each in levels]
        self._costs = [each.costs for each in levels]
        self._n_levels = np.array([each.n_levels for each in levels])
        self._attributes = _balanced(self._n_levels.tolist())
        self._halves = [_numbers(vectors[:, part], self._n_levels[part]) for part in self._attributes]
        least = [each.costs.min(axis=1).astype(np.int64) for each in levels]
        bounds = sum(costs[level] for costs, level in zip(least, vectors.T, strict=True))
        self.least_costs: list[int] = bounds.tolist()  # lower bounds on what any box of each vector loses
        self._kept: dict[tuple[int, int], _Half] = {}

    @property
    def n_vectors(self) -> int:
        """Number of vectors that are searched."""
        return len(self.least_costs)

    def hashes(self, vector: int, records: Rows, bits: int) -> NDArray[np.uint16]:
        """Return some bits of the key of the box of each of these records."""
        one, other = self._both(vector)
        hashes = one.hashes.take(records)
        hashes += other.hashes.take(records)
        hashes &= (1 << bits) - 1
        return hashes

    def all_hashes(self, vectors: Rows, records: Rows, bits: int) -> NDArray[np.uint16]:
        """Return such bits of several vectors' keys, vector × record."""
        hashes = np.zeros((vectors.size, records.size), np.uint16)
        for part in range(len(self._attributes)):
            halves: dict[int, int] = {}
            of_vector = [halves.setdefault(self._halves[part][vector], len(halves)) for vector in vectors.tolist()]
            hashes += np.stack([self._half(part, half).hashes.take(records) for half in halves])[of_vector]
        hashes &= (1 << bits) - 1
        return hashes

    def keys(self, vector: int, records: Rows) -> Keys:
        """Return the key of the box of each of these records."""
        one, other = self._both(vector)
        return one.keys.take(records) + other.keys.take(records)

    def costs(self, vector: int, records: Rows) -> Counts:
        """Return what the box of each of these records loses."""
        one, other = self._both(vector)
        return one.costs.take(records).astype(np.int64) + other.costs.take(records)

    def keep_only(self, records: Rows) -> None:
        """Forget all other records; these are numbered anew, in this order."""
        self._ranks = self._ranks[:, records]
        self._kept = {at: half.of(records) for at, half in self._kept.items()}

    def _both(self, vector: int) -> tuple[_Half, _Half]:
        return self._half(0, self._halves[0][vector]), self._half(1, self._halves[1][vector])

    def _half(self, part: int, half: int) -> _Half:
        if (known := self._kept.get((part, half))) is not None:
            return known
        n = self._ranks.shape[1]
        keys, costs = np.zeros(n, np.int64), np.zeros(n, np.int32)
        attributes = self._attributes[part]
        for attribute, level in zip(attributes, _levels(half, self._n_levels[attributes]), strict=True):
            keys += self._keys[attribute][level].take(self._ranks[attribute])
            costs += self._costs[attribute][level].take(self._ranks[attribute])
        if len(self._kept) * n >= _KEPT:
            self._kept.pop(next(iter(self._kept)), None)  # the oldest
        made = self._kept[part, half] = _Half(keys.astype(np.uint16), keys, costs)
        return made


def _numbers(vectors: Counts, n_levels: Counts) -> list[int]:
    """Number vectors of levels."""
    if not n_levels.size:
        return [0] * len(vectors)
    numbers: list[int] = np.ravel_multi_index(tuple(vectors.T), tuple(n_levels)).tolist()
    return numbers


def _levels(number: int, n_levels: Counts) -> list[int]:
    """Return the vector with this number."""
    return [int(level) for level in np.unravel_index(number, tuple(n_levels))] if n_levels.size else []


def _balanced(n_levels: Sequence[int]) -> tuple[list[int], list[int]]:
    """Deal the attributes into two parts with about equally many vectors."""
    parts: tuple[list[int], list[int]] = ([], [])
    sizes = [1, 1]
    for attribute in sorted(range(len(n_levels)), key=lambda at: -n_levels[at]):
        smaller = int(sizes[1] < sizes[0])
        parts[smaller].append(attribute)
        sizes[smaller] *= n_levels[attribute]
    return parts


# --- remaining ----------------------------------------------------------------------------------------------
# The records that no group has taken yet, and the boxes among them that are large enough to be one.
#
# Thousands of vectors are looked at, and most have no large box: a table of short hashes tells, without
# sorting keys. What is looked up for that lies close together, as the records that have left are forgotten
# now and then.

_FEWEST_BITS, _MOST_BITS = 10, 16
_SPARSE = 0.7  # share of the records still there below which the others are forgotten


@dataclass(frozen=True, eq=False)
class LargeBoxes:
    """The boxes of one vector that are large enough: where the records of each stand among others, and its cost."""

    records: Rows  # box after box, those of smaller boxes between
    starts: Counts
    lengths: Counts  # distinct records in each box
    costs: Counts

    def only(self, boxes: Flags) -> LargeBoxes:
        """Return the flagged boxes, without records between them."""
        lengths = self.lengths[boxes]
        starts = lengths.cumsum() - lengths
        places = np.arange(lengths.sum()) + (self.starts[boxes] - starts).repeat(lengths)
        return LargeBoxes(self.records.take(places), starts, lengths, self.costs[boxes])

    def all(self) -> LargeBoxes:
        """Return all boxes, without records between them."""
        return self.only(np.ones(self.starts.size, bool))


class Remaining:
    """The records that are left. `numbers` are theirs in the table, of which some may have left already."""

    def __init__(self, records: DistinctRecords, boxes: BoxIndex, least: int, purity: float) -> None:
        self._records, self._boxes = records, boxes
        self._least, self._purity = least, purity if records.classes is not None else 0.0
        self._numbers = np.arange(records.n)
        self._left = np.arange(records.n)  # places among the numbers
        self._sizes = records.sizes.astype(np.float64)  # of those that are left
        self.n_rows = int(records.sizes.sum())

    @property
    def n_records(self) -> int:
        """Number of distinct records."""
        return int(self._left.size)

    def large_boxes(self, vector: int) -> LargeBoxes | None:
        """Return the boxes of a vector with enough rows; None if there are none."""
        left, least = self._left, self._least
        bits = max(_FEWEST_BITS, min(_MOST_BITS, left.size.bit_length() + 1))
        hashes = self._boxes.hashes(vector, left, bits)
        (some,) = (weighted_counts(hashes, self._sizes, 1 << bits).take(hashes) >= least).nonzero()
        if not some.size:
            return None
        members = left.take(some)
        keys = self._boxes.keys(vector, members)
        order = keys.argsort()
        keys, members, some = keys.take(order), members.take(order), some.take(order)
        ends = np.append((keys[1:] != keys[:-1]).nonzero()[0] + 1, keys.size)
        starts = np.append(0, ends[:-1])
        in_box = np.add.reduceat(self._sizes.take(some), starts)
        (large,) = (in_box >= least).nonzero()
        if not large.size:
            return None
        starts = starts.take(large)
        costs = self._boxes.costs(vector, members.take(starts))
        found = LargeBoxes(members, starts, ends.take(large) - starts, costs)
        return self._with_purity(found, in_box.take(large)) if self._purity else found

    def small_throughout(self, vectors: Rows, bits: int) -> Flags:
        """Return which vectors certainly have no large box; of the others some may have none, either."""
        shift = (np.arange(vectors.size) << bits)[:, None]
        hashes = self._boxes.all_hashes(vectors, self._left, bits) + shift
        weights = np.broadcast_to(self._sizes, hashes.shape).ravel()
        together = weighted_counts(hashes.ravel(), weights, vectors.size << bits)
        small: Flags = together.reshape(vectors.size, 1 << bits).max(axis=1) < self._least
        return small

    def histograms(self, found: LargeBoxes) -> Histograms:
        """Return what is counted of each box; no records stand between them."""
        return tuple(np.add.reduceat(each[found.records], found.starts, axis=0) for each in self._records.counts)

    def remove(self, found: LargeBoxes) -> Rows:
        """Let the records of boxes leave; return their numbers in the table."""
        stays = np.ones(self._numbers.size, bool)
        stays[found.records] = False
        stays = stays[self._left]
        numbers = self._numbers.take(found.records)
        self.n_rows -= int(self._records.sizes.take(found.records).sum())
        self._left, self._sizes = self._left[stays], self._sizes[stays]
        if self._left.size < _SPARSE * self._numbers.size:  # forget the others
            self._numbers, self._records = self._numbers[self._left], self._records.only(self._left)
            self._boxes.keep_only(self._left)
            self._left = np.arange(self._left.size)
        return numbers

    def _with_purity(self, found: LargeBoxes, in_box: Counts) -> LargeBoxes:
        """Return the boxes with what they cost more because they mix classes."""
        found = found.all()
        assert self._records.classes is not None
        classes = np.add.reduceat(self._records.classes[found.records], found.starts, axis=0)
        mixed = np.rint(self._purity * ONE * (1 - classes.max(axis=1) / in_box)).astype(np.int64)
        return replace(found, costs=found.costs + mixed)


# --- hopeless -----------------------------------------------------------------------------------------------
# Vectors whose boxes are all too small, found many at a time: of a small table nearly all vectors are.
#
# Records only leave, so such a vector stays hopeless. Looking for more of them is worth it as soon as the
# looks at single vectors that found nothing have cost as much.

_CELLS_A_LOOK = 1_000  # vectors × records that are swept in the time of one look
_AT_A_TIME = 1 << 18  # of those
_MOST_BITS_TESTED = 10


class Hopeless:
    """The vectors that are known to have no box that is large enough."""

    def __init__(self, n_vectors: int) -> None:
        self._known = bytearray(n_vectors)
        self._looks = 0  # that found nothing, since the last sweep

    def __contains__(self, vector: int) -> bool:
        return bool(self._known[vector])

    def note(self, vector: int, remaining: Remaining) -> None:
        """A look at this vector found nothing among the records that are left."""
        self._known[vector] = 1
        self._looks += 1
        if self._looks * _CELLS_A_LOOK > len(self._known) * remaining.n_records:
            self._sweep(remaining)
            self._looks = 0

    def _sweep(self, remaining: Remaining) -> None:
        known = np.frombuffer(self._known, np.uint8)  # a view, into which is written
        hopeful = np.flatnonzero(known == 0)
        bits = min(_MOST_BITS_TESTED, remaining.n_records.bit_length() + 2)
        step = max(1, _AT_A_TIME // max(remaining.n_records, 1))
        for start in range(0, hopeful.size, step):
            some = hopeful[start : start + step]
            known[some[remaining.small_throughout(some, bits)]] = 1
