"""The taxonomies of all dimensions side by side: their leaves are columns, and a node is a range of columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.mondrian.axes import Axis, TaxonomyAxis
from masquerade.engine.counts import Counts, Rows, value_counts

_ROWS_AT_A_TIME = 1 << 17  # so that counting needs little memory
_CELLS_PER_VALUE = 1


class Trees:
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
        """Count each column's value per label; consecutive stretches of rows of these sizes have one label each."""
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
