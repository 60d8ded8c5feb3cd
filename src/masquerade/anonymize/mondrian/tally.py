"""What a batch's groups cover along all taxonomies at once, from counts alone.

A tally holds how many records of each group have each value; its prefix sums make counting the records under a node one
subtraction, however many there are. After a cut all parts but the largest are counted; the largest has what these
leave. So a group of many records costs no more than one of few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.mondrian.axes import Axis, Batch, TaxonomyAxis
from masquerade.engine import Counts, Flags, Rows, value_counts

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
