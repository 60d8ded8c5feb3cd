"""What a cluster's cells lose along one attribute, as it is and with another record in it, for all ranks at once.

The loss is that of the paper: the height of the cell's node over the height of the taxonomy; along numbers without a
taxonomy the width over that of all values. In fixed point, so that the same job gives the same clusters everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.cheapest_box.levels import ONE, GridLevels, Levels, TreeLevels
from masquerade.data.column import Column
from masquerade.data.continuum import Continuum
from masquerade.data.taxonomy import Taxonomy

Losses = NDArray[np.int32]
Span = tuple[int, int]  # the first and the last rank that a cluster covers


class AttributeLosses(ABC):
    """One attribute."""

    @abstractmethod
    def with_rank(self, span: Span) -> Losses:
        """Return for each rank what a cluster that covers `span` loses with that rank in it."""

    @abstractmethod
    def widened(self, span: Span, rank: int) -> Span:
        """Return what a cluster covers with this rank in it."""


class TreeLosses(AttributeLosses):
    """A taxonomy: a cluster covers the lowest node above its values."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._taxonomy, self._known = taxonomy, dict[Span, Losses]()

    def with_rank(self, span: Span) -> Losses:
        """Look up the height of the lowest node above both; an ancestor's is overwritten by those below it."""
        if (known := self._known.get(span)) is not None:
            return known
        nodes, node = self._taxonomy.nodes, self._taxonomy.node(span[0], span[1] + 1)
        path = [node]
        while path[-1].parent >= 0:
            path.append(nodes[path[-1].parent])
        losses = np.zeros(self._taxonomy.size, np.int32)
        for above in reversed(path):
            losses[above.lo : above.hi] = above.height * ONE // max(self._taxonomy.height, 1)
        self._known[span] = losses
        return losses

    def widened(self, span: Span, rank: int) -> Span:
        """Climb until the rank is covered, too."""
        nodes, node = self._taxonomy.nodes, self._taxonomy.node(span[0], span[1] + 1)
        while not node.lo <= rank < node.hi:
            node = nodes[node.parent]
        return node.lo, node.hi - 1


class NumberLosses(AttributeLosses):
    """Numbers and dates without a taxonomy: a cluster covers the values from its smallest to its largest."""

    def __init__(self, domain: Continuum) -> None:
        values = domain.values.astype(np.float64)
        spread = values[-1] - values[0] if values.size > 1 else 1.0
        self._first = domain.first
        self._places = np.rint((values - values[:1]) / spread * ONE).astype(np.int32)

    def with_rank(self, span: Span) -> Losses:
        """Return the width of the interval that covers both; a missing cell beside a number loses everything."""
        missing = np.full(self._first, 0 if span[0] < self._first else ONE, np.int32)
        if span[0] < self._first:
            numbers = np.full(self._places.size, ONE, np.int32)
            return np.concatenate([missing + (ONE if span[1] >= self._first else 0), numbers])
        low, high = (self._places[rank - self._first] for rank in span)
        return np.concatenate([missing, np.maximum(self._places, high) - np.minimum(self._places, low)])

    def widened(self, span: Span, rank: int) -> Span:
        """Return the smallest and the largest."""
        return min(span[0], rank), max(span[1], rank)


class HeightLevels(TreeLevels):
    """The levels of a taxonomy, where a value loses its height over that of the taxonomy."""

    def __init__(self, column: Column) -> None:
        super().__init__(column)
        assert isinstance(column.domain, Taxonomy)
        heights = np.array([node.height for node in column.domain.nodes])
        self._losses = heights * ONE // max(column.domain.height, 1)


def losses_of(column: Column) -> AttributeLosses:
    """Return the losses along a column."""
    domain = column.domain
    return TreeLosses(domain) if isinstance(domain, Taxonomy) else NumberLosses(domain)


def levels_by_height(column: Column) -> Levels:
    """Return the levels of a column, for groups that are compared by the same loss."""
    return HeightLevels(column) if isinstance(column.domain, Taxonomy) else GridLevels(column)
