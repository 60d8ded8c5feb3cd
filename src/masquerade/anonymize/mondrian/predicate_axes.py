"""Dimensions that are cut only where a workload's predicates begin or end to hold: the min-terms of its queries.

Groups are first cut along these as far as the requirement allows, then along the usual ones. Until a group crosses no
edge, a taxonomy is cut at nodes that do, and numbers at the edge that leaves the parts most alike in size; if
that one makes a part too small, so does every other. At the end the cells of numbers shrink to the edges around their
records (`ContinuousAxis.between_edges`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from masquerade.anonymize.mondrian.axes import Axis, Batch, ContinuousAxis, TaxonomyAxis, View
from masquerade.data.column import Column
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Counts, Ints


class PredicateTaxonomyAxis(TaxonomyAxis):
    """A taxonomy that is cut only at nodes which cross an edge."""

    def __init__(self, column: Column, edges: Counts) -> None:
        super().__init__(column)
        self._crosses = np.searchsorted(edges, self.lo, "right") < np.searchsorted(edges, self.hi, "left")

    def look(self, batch: Batch) -> View:
        """Find the lowest node that covers each group, and whether it crosses an edge."""
        view = super().look(batch)
        return replace(view, can_split=view.can_split & self._crosses[view.at])


class PredicateContinuousAxis(ContinuousAxis):
    """Numbers that are cut only at edges."""

    def _lower_half(self, ordered: Ints, shift: Ints, starts: Counts, sizes: Counts) -> Counts:
        """Count the records below the edge next to the median, on the side where the parts are more alike in size."""
        if not self.edges.size:
            return np.zeros(sizes.size, np.int64)
        middle = ordered[starts + sizes // 2] - shift
        return self._next_to(
            middle, sizes, lambda edge: np.searchsorted(ordered, shift + edge, "left") - starts
        )

    def _lower_half_weighted(
        self, ranks: Ints, batch: Batch, up_to: Counts, middle: Counts, records: Counts
    ) -> Counts:
        """Count the same of weighted values."""
        if not self.edges.size:
            return np.zeros(records.size, np.int64)
        shift = np.arange(batch.n_groups) * self._size
        ordered = np.repeat(shift, batch.sizes) + ranks

        def below(edge: Counts) -> Counts:
            first = np.searchsorted(ordered, shift + edge, "left")
            return np.where(first > batch.starts, up_to[np.maximum(first - 1, 0)], 0)

        return self._next_to(ranks[middle], records, below)

    def _next_to(self, middle: Ints, sizes: Counts, below: Callable[[Counts], Counts]) -> Counts:
        """Count the records below the better of the two edges beside each group's median."""
        after = np.searchsorted(self.edges, middle, "right")
        halves = []
        for neighbour in (after - 1, after):
            there = (neighbour >= 0) & (neighbour < self.edges.size)
            edge = self.edges[np.clip(neighbour, 0, self.edges.size - 1)]
            halves.append(np.where(there, below(edge), 0))
        lower, upper = halves
        evenly = np.minimum(lower, sizes - lower) >= np.minimum(upper, sizes - upper)
        chosen: Counts = np.where(evenly, lower, upper)
        return chosen

    def look(self, batch: Batch) -> View:
        """Find the edge at which each group would be cut; groups that cross none are left to the usual dimensions."""
        return self._crossing(super().look(batch))

    def look_weighted(self, batch: Batch, weights: Counts, records: Counts) -> View:
        """Find the same of weighted values."""
        return self._crossing(super().look_weighted(batch, weights, records))

    def _crossing(self, view: View) -> View:
        crosses = np.searchsorted(self.edges, view.lo, "right") < np.searchsorted(self.edges, view.hi, "left")
        return replace(view, can_split=view.can_split & crosses)


def predicate_axes_of(columns: Sequence[Column], edges: Mapping[str, Counts]) -> list[Axis]:
    """Return one such axis per released attribute; one without edges is never cut."""
    none = np.zeros(0, np.int64)
    return [
        PredicateTaxonomyAxis(column, edges.get(column.name, none))
        if isinstance(column.domain, Taxonomy)
        else PredicateContinuousAxis(column, edges.get(column.name, none))
        for column in columns
    ]
