"""The levels of one attribute: how far each value can be raised, what that loses, and what covers several values.

Along a taxonomy, level i raises a leaf by i edges. Along numbers a level is a grid of intervals over the ranks of the
distinct values, each width once from the start and once shifted by half, so that no value is always at a border.
Losses are certainty penalties in fixed point: the same job gives the same release on every machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Column
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Counts
from masquerade.utility.penalties import guiding_penalties

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
