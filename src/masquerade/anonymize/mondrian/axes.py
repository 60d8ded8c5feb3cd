"""The dimensions along which Mondrian cuts: what the groups of a batch cover, and where each would be cut.

A group covers, along a taxonomy, the lowest node above all its values, and is cut into that node's children; along
numbers it is cut in two beside the median. All groups of a batch are processed together, in one pass over their
records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from masquerade.data import Coded, Column, Continuum, Taxonomy
from masquerade.engine import Counts, Flags, Ints, Rows, value_counts
from masquerade.utility import guiding_penalties

Shares = NDArray[np.float64]
Cells = NDArray[np.int64]  # dimension × (lo, hi) × group


@dataclass(frozen=True, eq=False)
class Batch:
    """Several groups, stored one after the other, each group's rows contiguous."""

    rows: Rows
    sizes: Counts  # of each group; none is empty

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.sizes.size)

    @property
    def n_records(self) -> int:
        """Number of rows of all groups."""
        return int(self.rows.size)

    @cached_property
    def starts(self) -> Counts:
        """Return the offset of each group's first row."""
        return np.cumsum(self.sizes) - self.sizes

    def only(self, groups: Flags) -> Batch:
        """Return the batch of the flagged groups."""
        if groups.all():
            return self
        return Batch(self.rows[np.repeat(groups, self.sizes)], self.sizes[groups])


@dataclass(frozen=True, eq=False)
class AxisView:
    """A batch along one dimension."""

    ranks: Ints  # of each row
    lo: Counts  # the ranks that each group covers, up to `hi`
    hi: Counts
    widths: Shares  # how wide that is, from 0 to 1
    can_split: Flags
    at: Counts  # where each group would be cut: its node, or the first rank of its upper half
    below: Counts | None = None  # the last rank of its lower half

    def only(self, groups: Flags, sizes: Counts) -> AxisView:
        """Return the view of the flagged groups; `sizes` are those of all groups."""
        if groups.all():
            return self
        return AxisView(
            self.ranks[np.repeat(groups, sizes)],
            self.lo[groups],
            self.hi[groups],
            self.widths[groups],
            self.can_split[groups],
            self.at[groups],
            None if self.below is None else self.below[groups],
        )


@dataclass(frozen=True, eq=False)
class CutSlots:
    """Where a cut would put each row: slot `first[g] + child` for the children of group g."""

    of_row: Counts
    first: Counts  # of each group, and the number of slots at the end
    widths: Shares  # what a part in each slot would cover, from 0 to 1

    @property
    def n_slots(self) -> int:
        """Number of slots."""
        return int(self.first[-1])

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.first.size) - 1

    @cached_property
    def groups(self) -> Counts:
        """The group of each slot."""
        return np.repeat(np.arange(self.n_groups), np.diff(self.first))


class Axis(ABC):
    """One dimension. `released` is false for one that only cuts groups and is not published."""

    released = True
    most_parts: int  # into which a group may be cut

    def __init__(self, column: Column) -> None:
        self.column, self.name = column, column.name

    @property
    def n_ranks(self) -> int:
        """The number of ranks that a record may have, at least one."""
        return max(self.column.domain.size, 1)

    @abstractmethod
    def look(self, batch: Batch) -> AxisView:
        """Return what each group covers, and where it would be cut."""

    @abstractmethod
    def cut(self, batch: Batch, view: AxisView) -> CutSlots:
        """Return the slot each row would go to; every group of the batch must be splittable."""


class TaxonomyAxis(Axis):
    """A taxonomy: a group is cut into the children of the lowest node that covers it."""

    def __init__(self, column: Column) -> None:
        super().__init__(column)
        assert isinstance(column.domain, Taxonomy)
        nodes = column.domain.nodes
        self._size = column.domain.size
        self.lo = np.array([node.lo for node in nodes])
        self.hi = np.array([node.hi for node in nodes])
        self.widths = guiding_penalties(column.domain, self.lo, self.hi)
        self._parent = np.array([max(node.parent, 0) for node in nodes])
        self._depth = np.array([node.depth for node in nodes])
        self._leaf = np.flatnonzero([not node.children for node in nodes])
        self.n_children = np.array([len(node.children) for node in nodes])
        self.most_parts = max(int(self.n_children.max()), 1)
        self._first_child = np.cumsum(self.n_children) - self.n_children
        self.children = np.array([child for node in nodes for child in node.children], np.int64)
        # Which child of its ancestor at each depth a leaf is below.
        self._which = np.zeros((max(column.domain.height, 1), self._size), np.int64)
        for node in nodes:
            for which, child in enumerate(node.children):
                self._which[node.depth, nodes[child].lo : nodes[child].hi] = which

    def look(self, batch: Batch) -> AxisView:
        """Find the lowest node that covers each group."""
        ranks = self.column.ranks.take(batch.rows)
        starts = batch.starts
        node = self.lowest(np.minimum.reduceat(ranks, starts), np.maximum.reduceat(ranks, starts))
        can_split = self.n_children[node] > 0
        return AxisView(ranks, self.lo[node], self.hi[node], self.widths[node], can_split, node)

    def lowest(self, first: Ints, last: Ints) -> Counts:
        """Return the lowest node above each group, given its first and last rank."""
        node: Counts = self._leaf.take(first)
        while (short := np.flatnonzero(self.hi.take(node) <= last)).size:
            node[short] = self._parent[node[short]]
        return node

    def cut(self, batch: Batch, view: AxisView) -> CutSlots:
        """Make a slot for each child of each group's node."""
        node = view.at
        n_children = self.n_children[node]
        first = np.concatenate([[0], np.cumsum(n_children)])
        table = np.repeat(self._depth[node] * self._size, batch.sizes)
        table += view.ranks
        of_row = self._which.ravel().take(table)
        of_row += np.repeat(first[:-1], batch.sizes)
        child = np.arange(first[-1]) + np.repeat(self._first_child[node] - first[:-1], n_children)
        return CutSlots(of_row, first, self.widths[self.children[child]])


class ContinuousAxis(Axis):
    """Numbers: a group is cut at the value beside its median that leaves the parts most alike in size.

    A group with missing cells and numbers is first cut between them.
    """

    most_parts = 2

    def __init__(self, column: Column, edges: Counts | None = None) -> None:
        """Let cells end at `edges`, ranks in order, where no record of theirs is beyond."""
        super().__init__(column)
        self.edges = edges if edges is not None else np.zeros(0, np.int64)
        assert isinstance(column.domain, Continuum)
        self._size = max(column.domain.size, 1)
        self.first = column.domain.first  # the smallest number; below it, missing cells
        values = column.domain.values.astype(np.float64)
        spread = values[-1] - values[0] if values.size > 1 else 1.0
        places = (values - values[0]) / spread if values.size else values  # from 0 to 1
        self._places = np.concatenate([np.zeros(self.first), places])

    def look(self, batch: Batch) -> AxisView:
        """Find each group's smallest and largest value, and the value at which it would be cut."""
        ranks = self.column.ranks.take(batch.rows)
        shift: Ints = np.arange(batch.n_groups) * self._size
        if batch.n_groups * self._size < 1 << 31:
            shift = shift.astype(np.int32)  # numbers half as wide sort in half the time
        ordered: Ints = np.repeat(shift, batch.sizes)
        ordered += ranks
        ordered.sort()  # the groups are in order already: this sorts within them
        starts, sizes = batch.starts, batch.sizes
        left = self._lower_half(ordered, shift, starts, sizes)
        mixed = None
        if self.first:  # missing cells are cut off the numbers before anything else
            missing = np.searchsorted(ordered, shift + self.first, "left") - starts
            mixed = (missing > 0) & (missing < sizes)
            left = np.where(mixed, missing, left)
        can_split = (left > 0) & (left < sizes)
        at = starts + np.clip(left, 1, np.maximum(sizes - 1, 1))
        cut = ordered.take(np.minimum(at, ordered.size - 1)) - shift
        below = ordered[at - 1] - shift
        lo = (ordered[starts] - shift).astype(np.int64)
        hi = (ordered[starts + sizes - 1] - shift).astype(np.int64)
        widths = self._places[hi] - self._places[lo]
        if mixed is not None:
            cut, hi = np.where(mixed, self.first, cut), np.where(mixed, self._size - 1, hi)
            widths = np.where(mixed, 1.0, widths)
        return AxisView(ranks, lo, hi + 1, widths, can_split, cut.astype(np.int64), below.astype(np.int64))

    def look_weighted(self, batch: Batch, weights: Counts, records: Counts) -> AxisView:
        """Look at different values of each group, in ascending order, each of which several records have.

        `batch` has the values, `weights` their records, and `records` the sum for each group.
        """
        ranks = self.column.ranks.take(batch.rows)
        up_to = np.cumsum(weights)
        starts = np.cumsum(records) - records  # in records

        def value_at(record: Counts) -> Counts:
            """Return the place of the value that a record has, if records were in the order of their values."""
            return np.searchsorted(up_to, record, "right")

        middle = value_at(starts + records // 2)
        left = self._lower_half_weighted(ranks, batch, up_to - np.repeat(starts, batch.sizes), middle, records)
        lo = ranks[batch.starts].astype(np.int64)
        hi = ranks[batch.starts + batch.sizes - 1].astype(np.int64)
        mixed = None
        if self.first:  # missing cells are cut off the numbers before anything else
            missing = np.where(lo < self.first, weights[batch.starts], 0)
            mixed = (missing > 0) & (missing < records)
            left = np.where(mixed, missing, left)
        can_split = (left > 0) & (left < records)
        at = starts + np.clip(left, 1, np.maximum(records - 1, 1))
        cut = ranks[np.minimum(value_at(at), ranks.size - 1)].astype(np.int64)
        below = ranks[value_at(at - 1)].astype(np.int64)
        widths = self._places[hi] - self._places[lo]
        if mixed is not None:
            cut, hi = np.where(mixed, self.first, cut), np.where(mixed, self._size - 1, hi)
            widths = np.where(mixed, 1.0, widths)
        return AxisView(ranks, lo, hi + 1, widths, can_split, cut, below)

    def _lower_half(self, ordered: Ints, shift: Ints, starts: Counts, sizes: Counts) -> Counts:
        """Return how many records of each group are below its cut; `ordered` has each group's ranks plus its shift."""
        middle = ordered[starts + sizes // 2]
        before = np.searchsorted(ordered, middle, "left") - starts
        after = np.searchsorted(ordered, middle, "right") - starts
        evenly = np.minimum(before, sizes - before) >= np.minimum(after, sizes - after)
        below: Counts = np.where(evenly, before, after)
        return below

    def _lower_half_weighted(self, ranks: Ints, batch: Batch, up_to: Counts, middle: Counts, records: Counts) -> Counts:
        """Return the same of weighted values; `up_to` has the records of its group up to each, `middle` the medians."""
        after = up_to[middle]
        before = np.where(middle > batch.starts, up_to[np.maximum(middle - 1, 0)], 0)
        evenly = np.minimum(before, records - before) >= np.minimum(after, records - after)
        below: Counts = np.where(evenly, before, after)
        return below

    def lower_start(self, start: Counts, cut_at: Counts) -> Counts:
        """Return where the lower part of a cell begins: one that is cut inside the numbers holds no missing cell."""
        return np.where(cut_at > self.first, np.maximum(start, self.first), start)

    def narrow(self, cells: Counts, cut_at: Counts, upper: Flags) -> None:
        """Narrow the cells, two rows, of the parts of cells that were cut in two, in place."""
        cells[0, upper] = cut_at[upper]
        cells[1, ~upper] = cut_at[~upper]
        cells[0, ~upper] = self.lower_start(cells[0, ~upper], cut_at[~upper])

    def between_edges(self, lo: Counts, hi: Counts, view: AxisView) -> tuple[Counts, Counts]:
        """Shrink the cells `[lo, hi)` of groups to the edges around their values."""
        ends = np.concatenate([[0], self.edges, [self._size]])
        return (
            np.maximum(lo, ends[np.searchsorted(ends, view.lo, "right") - 1]),
            np.minimum(hi, ends[np.searchsorted(ends, view.hi - 1, "right")]),
        )

    def cut(self, batch: Batch, view: AxisView) -> CutSlots:
        """Make two slots per group: below the cut, and from it on."""
        assert view.below is not None
        of_row = (view.ranks >= np.repeat(view.at, batch.sizes)).astype(np.int64)
        of_row += np.repeat(np.arange(batch.n_groups) * 2, batch.sizes)
        first = np.arange(batch.n_groups + 1) * 2
        place = self._places
        widths = np.stack([place[view.below] - place[view.lo], place[view.hi - 1] - place[view.at]], axis=1)
        return CutSlots(of_row, first, widths.ravel())


def axes_of(columns: Sequence[Column], edges: Mapping[str, Counts] | None = None) -> list[Axis]:
    """Return one axis per released attribute; cells of numbers end at the attribute's edges, where it has some."""
    ends = edges or {}
    return [
        TaxonomyAxis(column) if isinstance(column.domain, Taxonomy) else ContinuousAxis(column, ends.get(column.name))
        for column in columns
    ]


# --- predicate axes -----------------------------------------------------------------------------------------
# Dimensions that are cut only where a workload's predicates begin or end to hold: the min-terms of its
# queries.
#
# Groups are first cut along these as far as the requirement allows, then along the usual ones. Until a
# group crosses no edge, a taxonomy is cut at nodes that do, and numbers at the edge that leaves the parts
# most alike in size; if that one makes a part too small, so does every other. At the end the cells of
# numbers shrink to the edges around their records (`ContinuousAxis.between_edges`).


class PredicateTaxonomyAxis(TaxonomyAxis):
    """A taxonomy that is cut only at nodes which cross an edge."""

    def __init__(self, column: Column, edges: Counts) -> None:
        super().__init__(column)
        self._crosses = np.searchsorted(edges, self.lo, "right") < np.searchsorted(edges, self.hi, "left")

    def look(self, batch: Batch) -> AxisView:
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
        return self._next_to(middle, sizes, lambda edge: np.searchsorted(ordered, shift + edge, "left") - starts)

    def _lower_half_weighted(self, ranks: Ints, batch: Batch, up_to: Counts, middle: Counts, records: Counts) -> Counts:
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

    def look(self, batch: Batch) -> AxisView:
        """Find the edge at which each group would be cut; groups that cross none are left to the usual dimensions."""
        return self._crossing(super().look(batch))

    def look_weighted(self, batch: Batch, weights: Counts, records: Counts) -> AxisView:
        """Find the same of weighted values."""
        return self._crossing(super().look_weighted(batch, weights, records))

    def _crossing(self, view: AxisView) -> AxisView:
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


# --- provider axis ------------------------------------------------------------------------------------------
# The provider of each record as a dimension to cut along: ordered by how many records each has, then by
# name.


class ProviderAxis(ContinuousAxis):
    """Providers in their order; used for cuts only, never released."""

    released = False


def provider_column(providers: Coded, records: Counts) -> tuple[Column, NDArray[np.int32]]:
    """Return the places of records along the axis as ranks, and the place of each provider.

    `records` says how many records each has, in the order of names.
    """
    place = np.empty(records.size, np.int32)
    place[np.argsort(records, kind="stable")] = np.arange(records.size)
    ranks = place.take(providers.codes)
    return Column(providers.name, ranks, Continuum(np.arange(records.size))), place


# --- tally ------------------------------------------------------------------------------------------------
# What a batch's groups cover along all taxonomies at once, from counts alone.
#
# A tally holds how many records of each group have each value; its prefix sums make counting the records under a node
# one subtraction, however many there are. After a cut all parts but the largest are counted; the largest has what
# these leave. So a group of many records costs no more than one of few.

_ROWS_AT_A_TIME = 1 << 17  # so that counting needs little memory
_CELLS_PER_VALUE = 1


class JoinedTaxonomies:
    """The taxonomies of all dimensions; nodes are numbered across all of them."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = np.flatnonzero([isinstance(axis, TaxonomyAxis) for axis in axes])  # their dimensions
        trees = [axis for axis in axes if isinstance(axis, TaxonomyAxis)]
        sizes = np.array([tree.column.domain.size for tree in trees], np.int64)
        first_column = np.cumsum(sizes) - sizes
        n_nodes = np.array([tree.lo.size for tree in trees], np.int64)
        self.roots = np.cumsum(n_nodes) - n_nodes
        self.n_trees, self.n_columns = len(trees), int(sizes.sum())
        self.lo = _joined([tree.lo + first for tree, first in zip(trees, first_column, strict=True)])
        self.hi = _joined([tree.hi + first for tree, first in zip(trees, first_column, strict=True)])
        self.widths = np.concatenate([np.zeros(0), *(tree.widths for tree in trees)])
        self.n_children = _joined([tree.n_children for tree in trees])
        self._first_child = np.cumsum(self.n_children) - self.n_children
        self._children = _joined([tree.children + root for tree, root in zip(trees, self.roots, strict=True)])
        self._trees, self._first_column = trees, first_column

    @cached_property
    def columns(self) -> NDArray[np.int32]:
        """The columns of each row's values, adjacent in memory because they are counted together."""
        n_rows = self._trees[0].column.ranks.size if self._trees else 0
        columns = np.empty((n_rows, self.n_trees), np.int32)
        for at, (tree, first) in enumerate(zip(self._trees, self._first_column, strict=True)):
            np.add(tree.column.ranks, first, out=columns[:, at], casting="unsafe")
        return columns

    def children(self, nodes: Counts) -> tuple[Counts, Counts]:
        """Return the children of all nodes, node by node, and the index in `nodes` of each one's parent."""
        n_children = self.n_children[nodes]
        shift = self._first_child[nodes] - np.cumsum(n_children) + n_children
        parent = np.repeat(np.arange(nodes.size), n_children)
        return self._children[shift[parent] + np.arange(parent.size)], parent

    def worth_counting(self, n_groups: int, n_rows: int) -> bool:
        """Return whether counting every value in each group costs less than reading the records' values."""
        return n_groups * self.n_columns <= _CELLS_PER_VALUE * n_rows * self.n_trees

    def count(self, rows: Rows, labels: Counts, sizes: Counts, n_labels: int) -> Counts:
        """Count each column's value per label; consecutive runs of rows of these sizes have one label each."""
        n_cells = n_labels * self.n_columns
        wide = n_cells > np.iinfo(np.int32).max
        shift = np.repeat((labels * self.n_columns).astype(np.int64 if wide else np.int32), sizes)
        counts = np.zeros(n_cells, np.int64)
        for start in range(0, rows.size, _ROWS_AT_A_TIME):
            some = slice(start, start + _ROWS_AT_A_TIME)
            keys = self.columns.take(rows[some], axis=0).astype(shift.dtype, copy=False)
            keys += shift[some, np.newaxis]
            counts += value_counts(keys.ravel(), n_cells)
        return counts.reshape(n_labels, self.n_columns)


def _joined(arrays: Sequence[Counts]) -> Counts:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


@dataclass(frozen=True, eq=False)
class Tally:
    """The groups of a batch along all taxonomies."""

    trees: JoinedTaxonomies
    counts: Counts  # group × column: how many of the group's records have the value
    nodes: Counts  # group × tree: the lowest node that covers the group

    @classmethod
    def of_groups(cls, trees: JoinedTaxonomies, batch: Batch) -> Tally:
        """Tally the groups of a batch."""
        counts = trees.count(batch.rows, np.arange(batch.n_groups), batch.sizes, batch.n_groups)
        return cls._of(trees, counts, np.repeat(trees.roots[np.newaxis], batch.n_groups, axis=0), batch.sizes)

    @classmethod
    def _of(cls, trees: JoinedTaxonomies, counts: Counts, nodes: Counts, sizes: Counts) -> Tally:
        """Tally groups of these sizes. `nodes` must cover them, and are lowered in place to the lowest that do."""
        tally = cls(trees, counts, nodes)
        flat = nodes.reshape(-1)
        pairs = np.flatnonzero(trees.n_children[flat])
        while pairs.size:
            child, parent = trees.children(flat[pairs])
            groups = pairs[parent] // trees.n_trees
            covers = np.flatnonzero(tally.records(groups, child) == sizes[groups])
            pairs = pairs[parent[covers]]
            flat[pairs] = child[covers]
        return tally

    def only(self, groups: Flags | slice) -> Tally:
        """Return the tally of the selected groups."""
        return Tally(self.trees, self.counts[groups], self.nodes[groups])

    @cached_property
    def _before(self) -> Counts:
        """Prefix sums: how many values of all groups lie before each cell of `counts`."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    def records(self, groups: Counts, nodes: Counts) -> Counts:
        """Return how many records each of these groups has under the node at the same index."""
        first = groups * self.trees.n_columns
        counts: Counts = self._before.take(first + self.trees.hi[nodes])
        counts -= self._before.take(first + self.trees.lo[nodes])
        return counts

    def of_parts(self, batch: Batch, parents: Counts, needed: Flags) -> Tally:
        """Return the tally of the needed parts of a cut; the parts of one parent are contiguous.

        The largest needed part of each parent is deduced, not counted; parts not needed are counted together.
        """
        asked = np.zeros(self.nodes.shape[0], bool)
        asked[parents[needed]] = True
        parts = np.flatnonzero(asked[parents])
        sizes, parents, needed = batch.sizes[parts], parents[parts], needed[parts]
        starts = np.flatnonzero(np.diff(parents, prepend=-1))
        largest = _largest(np.where(needed, sizes, 0), starts)
        counted = np.ones(parts.size, bool)
        counted[largest] = False
        rows_of = np.zeros(batch.n_groups, bool)
        rows_of[parts[counted]] = True
        # Of the tables that are counted, each needed part has one, and then each parent one for the other parts.
        alone = needed & counted
        n_alone = int(alone.sum())
        family = np.repeat(np.arange(starts.size), np.diff(np.append(starts, parts.size)))
        table = np.where(alone, np.cumsum(alone) - 1, n_alone + family)
        counts = self.trees.count(batch.only(rows_of).rows, table[counted], sizes[counted], n_alone + starts.size)
        left = self.counts[parents[starts]] - counts[n_alone:]
        n_siblings = value_counts(family[alone], starts.size)
        first = np.cumsum(n_siblings) - n_siblings
        for nth in range(int(n_siblings.max())):
            more = np.flatnonzero(n_siblings > nth)
            left[more] -= counts[first[more] + nth]
        counts[n_alone:] = left  # where the table of the largest part is, too
        return Tally._of(self.trees, counts[table[needed]], self.nodes[parents[needed]], sizes[needed])


def _largest(numbers: Counts, starts: Counts) -> Counts:
    """Return the index of the largest number of each run, the first on a tie."""
    lengths = np.diff(np.append(starts, numbers.size))
    found = np.flatnonzero(numbers == np.repeat(np.maximum.reduceat(numbers, starts), lengths))
    return found[np.searchsorted(found, starts)]
