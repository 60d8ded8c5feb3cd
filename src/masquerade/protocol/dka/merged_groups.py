"""Merge groups until each is large enough: each small one joins the group with which they lose least.

A group's cell is the lowest node that covers it along a taxonomy, and an interval along numbers. Merging two makes
their cells cover both; the loss is the certainty penalty of the union times its records, less that of the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from masquerade.anonymize.mondrian.groups import Cells, Partition
from masquerade.data.column import Column
from masquerade.data.continuum import Continuum
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Counts, Flags, value_counts
from masquerade.utility.penalties import Penalties, guiding_penalties


class MergedGroups:
    """The groups of a partition, fewer and larger from call to call."""

    def __init__(self, columns: Sequence[Column], groups: Partition) -> None:
        n_groups = groups.cells.shape[2]
        self._first = groups.labels
        self._sizes = value_counts(groups.labels, n_groups)
        self._into = np.arange(n_groups)  # which group each has become part of
        self._alive: Flags = np.ones(n_groups, bool)
        self._extents = [_extent(column, *cells) for column, cells in zip(columns, groups.cells, strict=True)]

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


def _extent(column: Column, lo: Counts, hi: Counts) -> _Extent:
    return (_Nodes if isinstance(column.domain, Taxonomy) else _Interval)(column, lo, hi)
