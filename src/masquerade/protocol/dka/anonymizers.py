"""Local anonymizers for the framework: each makes a party's own columns k-anonymous, and can go a step further.

| | first | a step further |
|---|---|---|
| `FullDomain` | of all combinations of levels, one with the fewest steps in all | the widest attribute one level up |
| `Descent` | everything at the top | one step back down the way of Sweeney's Datafly, while groups have k |
| `ByMondrian` | Mondrian for k (`anonymizers.py`) | small groups join others: all are twice as large |

Attributes need taxonomies, but Mondrian takes numbers as they are. `Descent` is for the top-down variant (§7 of the
paper).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize import CHOICES, BottomUpColumns, Cells, Judge, Partition, axes_of, partition
from masquerade.data import Column, Continuum, Generalised, Taxonomy
from masquerade.engine import Counts, Flags, Rows, group_rows, renumber, value_counts
from masquerade.errors import ParameterError, RequirementUnreachable
from masquerade.privacy import KAnonymity
from masquerade.utility import Penalties, guiding_penalties

# --- groups -------------------------------------------------------------------------------------------------
# A party's own groups, as labels for the joint histogram.

Labels = NDArray[np.uint64]


class Grouped(Protocol):
    """Columns that are generalised to some extent, such as a `BottomUpColumns`."""

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, numbered from 0, and the number of groups."""


def most_groups(records: int, k: int) -> int:
    """Return the most groups of at least k records possible: the public bound that a number of groups is padded to."""
    return max(1, records // k)


def labels_of(columns: Grouped, rows: Rows, k: int, bound: int) -> Labels:
    """Return the group of each of these records, or `bound` where it has fewer than k: such a record cannot pass."""
    numbers, n_groups = columns.groups(rows)
    large = value_counts(numbers, n_groups) >= k
    renumbered = np.full(n_groups, bound, np.uint64)
    renumbered[large] = np.arange(np.count_nonzero(large), dtype=np.uint64)
    return renumbered[numbers]


def all_large(columns: Grouped, rows: Rows, k: int) -> bool:
    """Return whether every group of these records has at least k of them."""
    numbers, n_groups = columns.groups(rows)
    return bool((value_counts(numbers, n_groups) >= k).all())


# --- anonymizers --------------------------------------------------------------------------------------------


class LocalAnonymizer(Grouped, Protocol):
    """What the framework asks of a party's own anonymizer."""

    def start(self) -> None:
        """Make the own columns locally k-anonymous (step 1 of Algorithm 4)."""

    def further(self) -> bool:
        """Go one step, more general bottom-up, more specific top-down. Return False when there is none."""

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""


class FullDomain:
    """Every value of an attribute on one level; the least general combination of levels comes first."""

    def __init__(self, columns: Sequence[Column], n_records: int, k: int) -> None:
        refuse_few(n_records, k)
        self._k, self._everybody = k, np.arange(n_records)
        self._per_column = [list(_levels(column, self._everybody)) for column in columns]
        self._level = [0] * len(columns)

    def start(self) -> None:
        """Choose the combination with the fewest steps that gives every group k records; on a tie, by schema order."""
        heights = [range(len(levels)) for levels in self._per_column]
        for levels in sorted(product(*heights), key=lambda each: (sum(each), each)):
            self._level = list(levels)
            if all_large(self, self._everybody, self._k):
                return

    def further(self) -> bool:
        """Move up one level the attribute with the most values among those not at the top."""
        able = [at for at, levels in enumerate(self._per_column) if self._level[at] + 1 < len(levels)]
        if not able:
            return False
        widest = max(able, key=lambda at: self._now(at).groups(self._everybody)[1])
        self._level[widest] += 1
        return True

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, and the number of groups."""
        return group_rows([self._now(at).groups(rows) for at in range(len(self._level))], rows.size)

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""
        return tuple(column for at in range(len(self._level)) for column in self._now(at).released(rows))

    def _now(self, at: int) -> BottomUpColumns:
        return self._per_column[at][self._level[at]]


class Descent:
    """From the top down: the steps of Datafly on whole columns in reverse, as far as every group has k."""

    def __init__(self, columns: Sequence[Column], n_records: int, k: int) -> None:
        refuse_few(n_records, k)
        self._columns, self._everybody = columns, np.arange(n_records)
        self._generalised, self._lowest, steps = BottomUpColumns(columns), -1, 0
        while True:
            if self._lowest < 0 and all_large(self._generalised, self._everybody, k):
                self._lowest = steps
            if self._generalised.climb(self._everybody) is None:
                break
            steps += 1
        self._steps = self._top = steps

    def start(self) -> None:
        """Put every attribute at the top."""
        self._go_to(self._top)

    def further(self) -> bool:
        """Go one step down. Return False at the lowest."""
        if self._steps <= self._lowest:
            return False
        self._go_to(self._steps - 1)
        return True

    def back(self) -> None:
        """Undo the last step."""
        self._go_to(min(self._steps + 1, self._top))

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, and the number of groups."""
        return self._generalised.groups(rows)

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""
        return self._generalised.released(rows)

    def _go_to(self, steps: int) -> None:
        self._steps, self._generalised = steps, BottomUpColumns(self._columns)
        for _ in range(steps):
            self._generalised.climb(self._everybody)


def _levels(column: Column, everybody: Rows) -> Iterator[BottomUpColumns]:
    """Yield the attribute alone, at each of its levels."""
    steps = 0
    while True:
        generalised = BottomUpColumns([column])
        if not all(generalised.climb(everybody) is not None for _ in range(steps)):
            return
        yield generalised
        steps += 1


def refuse_few(n_records: int, k: int) -> None:
    """Raise for fewer than k records, of which no k-anonymous table can be made."""
    if n_records < k:
        raise RequirementUnreachable(
            f"k-anonymity with k = {k} needs at least {k} common records; there are {n_records}"
        )


# --- merged groups ------------------------------------------------------------------------------------------
# Merge groups until each is large enough: each small one joins the group with which they lose least.
#
# A group's cell is the lowest node that covers it along a taxonomy, and an interval along numbers. Merging two makes
# their cells cover both; the loss is the certainty penalty of the union times its records, less that of the two.


class MergedGroups:
    """The groups of a partition, fewer and larger from call to call."""

    def __init__(self, columns: Sequence[Column], groups: Partition) -> None:
        n_groups = groups.cells.shape[2]
        self._first = groups.labels
        self._sizes = value_counts(groups.labels, n_groups)
        self._into = np.arange(n_groups)  # which group each has become part of
        self._alive: Flags = np.ones(n_groups, bool)
        self._extents: list[_Extent] = [
            (_Nodes if isinstance(column.domain, Taxonomy) else _Interval)(column, *cells)
            for column, cells in zip(columns, groups.cells, strict=True)
        ]

    @property
    def n_groups(self) -> int:
        """Number of groups now."""
        return int(np.count_nonzero(self._alive))

    def merge_below(self, size: int) -> bool:
        """Merge until every group has `size` records, or all are one. Return False when there was nothing to merge.

        The smallest goes first: it joins the group with which the two lose least, the first on a tie.
        """
        merged = False
        while (alive := np.flatnonzero(self._alive)).size > 1:
            smallest = int(alive[self._sizes[alive].argmin()])
            if self._sizes[smallest] >= size:
                break
            self._merge(smallest, alive[alive != smallest])
            merged = True
        return merged

    def partition(self) -> Partition:
        """Return the current groups."""
        alive = np.flatnonzero(self._alive)
        number = np.zeros(self._alive.size, np.int64)
        number[alive] = np.arange(alive.size)
        cells: Cells = np.stack([np.stack([each.lo[alive], each.hi[alive]]) for each in self._extents])
        return Partition(number[self._into].take(self._first), cells)

    def _merge(self, one: int, others: Counts) -> None:
        sizes, own = self._sizes[others], self._sizes[one]
        unions = [extent.unions(one, others) for extent in self._extents]
        loss = np.zeros(others.size)
        for extent, (lo, hi) in zip(self._extents, unions, strict=True):
            before = sizes * extent.penalties[others] + own * extent.penalties[one]
            loss += (sizes + own) * extent.penalty(lo, hi) - before
        best = int(loss.argmin())
        into = int(others[best])
        for extent, (lo, hi) in zip(self._extents, unions, strict=True):
            extent.widen(into, int(lo[best]), int(hi[best]))
        self._sizes[into] += own
        self._alive[one] = False
        self._into[self._into == one] = into


class _Extent(ABC):
    """What each group covers along one dimension: ranks from `lo` up to `hi`, and the penalty for that."""

    def __init__(self, column: Column, lo: Counts, hi: Counts) -> None:
        self._domain = column.domain
        self.lo, self.hi = lo.copy(), hi.copy()
        self.penalties = self.penalty(lo, hi)

    def penalty(self, lo: Counts, hi: Counts) -> Penalties:
        return guiding_penalties(self._domain, lo, hi)

    def widen(self, group: int, lo: int, hi: int) -> None:
        self.lo[group], self.hi[group] = lo, hi
        self.penalties[group] = self.penalty(self.lo[group, None], self.hi[group, None])[0]

    @abstractmethod
    def unions(self, one: int, others: Counts) -> tuple[Counts, Counts]:
        """Return what one group would cover together with each of the others."""


class _Interval(_Extent):
    def unions(self, one: int, others: Counts) -> tuple[Counts, Counts]:
        lo, hi = np.minimum(self.lo[others], self.lo[one]), np.maximum(self.hi[others], self.hi[one])
        assert isinstance(self._domain, Continuum)
        # A missing cell is in no interval: with a number, it is in the root alone.
        return lo, np.where((lo < self._domain.first) & (hi > self._domain.first), self._domain.size, hi)


class _Nodes(_Extent):
    def __init__(self, column: Column, lo: Counts, hi: Counts) -> None:
        super().__init__(column, lo, hi)
        assert isinstance(column.domain, Taxonomy)
        nodes = column.domain.nodes
        self._lo = np.array([node.lo for node in nodes])
        self._hi = np.array([node.hi for node in nodes])
        self._parent = np.array([max(node.parent, 0) for node in nodes])
        self._number = {(node.lo, node.hi): number for number, node in enumerate(nodes)}
        self._node = np.array([self._number[ends] for ends in zip(lo.tolist(), hi.tolist(), strict=True)])

    def widen(self, group: int, lo: int, hi: int) -> None:
        super().widen(group, lo, hi)
        self._node[group] = self._number[lo, hi]

    def unions(self, one: int, others: Counts) -> tuple[Counts, Counts]:
        node = self._node[others]
        lo, hi = self.lo[one], self.hi[one]
        while (short := np.flatnonzero((self._lo[node] > lo) | (self._hi[node] < hi))).size:
            node[short] = self._parent[node[short]]
        return self._lo[node], self._hi[node]


# --- mondrian levels ----------------------------------------------------------------------------------------
# Mondrian as a local anonymizer: its groups, merged into larger and larger ones.
#
# A step must make a party's table more general everywhere: its new groups are unions of those before.
# Mondrian run again with a larger k does not do that, as it cuts elsewhere from the start. So Mondrian runs
# once, for k; and a step makes every group at least twice as large as before:
#
#     lowest      Mondrian for k
#     above       groups of fewer than 2·k, then 4·k, 8·k, … records join the group with which both lose least
#     top         everybody is one group
#
# Merging up to 2^j·k loses about as much as Mondrian for 2^j·k from the start, on Adult sometimes less. Two
# other ways are monotone too. Undoing Mondrian's own cuts unites all parts of a cut for the sake of its
# smallest. Cutting one tree downwards, first for a large k and then inside each group for half of it, loses
# several times as much at the end: cuts that halve all records are seldom the good ones.
#
# Sizes double, so there are at most log₂(n / k) + 2 levels, for every round costs a joint histogram. A
# level at which nothing merges is left out: every step but those at the top changes the party's table, and
# the number of rounds follows from its release (Algorithm 5).
#
# Attributes may have taxonomies or be numbers without one.


class ByMondrian:
    """Mondrian for k, then larger groups."""

    def __init__(self, columns: Sequence[Column], n_records: int, k: int) -> None:
        refuse_few(n_records, k)
        if not columns:
            raise ParameterError("Mondrian takes at least one attribute of each party")
        self._axes = axes_of(columns)
        self._levels = levels_of(columns, n_records, k)
        self._at = 0

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, and the number of groups."""
        level = self._levels[self._at]
        numbers, found = renumber(level.labels[rows], level.cells.shape[2])
        return numbers.astype(np.int64), found.size

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""
        return tuple(column.of_rows(rows) for column in self._levels[self._at].released(self._axes))

    def start(self) -> None:
        """Start at the lowest level."""
        self._at = 0

    def further(self) -> bool:
        """Go one level up. Return False at the top."""
        if self._at + 1 == len(self._levels):
            return False
        self._at += 1
        return True


def levels_of(columns: Sequence[Column], n_records: int, k: int) -> list[Partition]:
    """Return all levels, the lowest first; the groups of each are unions of those of the one before."""
    judge = Judge([KAnonymity([column.name for column in columns], k)], {}, n_records)
    lowest = partition(axes_of(columns), judge, CHOICES["certainty"], n_records, strict=False)
    levels, groups, least = [lowest], MergedGroups(columns, lowest), k
    while groups.n_groups > 1:
        least *= 2
        if groups.merge_below(least):
            levels.append(groups.partition())
    return levels
