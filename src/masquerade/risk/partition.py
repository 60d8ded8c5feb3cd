"""Rows in groups that the chosen columns do not tell apart, refined column by column.

The greedy algorithms ask again and again how many groups there would be with one more column. Sorting the tuples for
every question, as one would in a database, costs a sort of whole rows each time. Here every row carries the **label**
of its group, and one more column is one more digit of the label: label · values + value. Counting these numbers (a
table where it fits, otherwise one sort of integers) gives the sizes of the finer groups, and with them both measures;
renumbering them makes the next labels. A row that is alone in its group is told apart from all others for good, so it
is left out from then on: after two or three good columns most rows are gone, and a question costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from masquerade.engine.counts import Counts, Ints, Rows, value_counts
from masquerade.engine.numbering import occurring, renumber
from masquerade.risk.coded_table import CodedTable
from masquerade.risk.ground import Extent


@dataclass(frozen=True, eq=False)
class Partition:
    """The groups of a table's rows. Only rows in groups of two or more have a label."""

    table: CodedTable
    rows: Rows | None  # those with a label; None for all
    labels: Ints
    n_labels: int
    alone: int  # rows that are a group of their own

    unseparated: int  # pairs of rows that are in one group

    @classmethod
    def of(cls, table: CodedTable) -> Partition:
        """All rows in one group."""
        if table.rows < 2:
            return cls(table, np.empty(0, np.intp), np.empty(0, np.int32), 0, table.rows, 0)
        pairs = table.rows * (table.rows - 1) // 2
        return cls(table, None, np.zeros(table.rows, np.int32), 1, 0, pairs)

    @property
    def whole(self) -> Extent:
        """All rows and all pairs of them."""
        return Extent(self.table.rows, self.table.rows * (self.table.rows - 1) // 2)

    @property
    def extent(self) -> Extent:
        """The groups, and the pairs of rows in different ones."""
        return Extent(self.alone + self.n_labels, self.whole.pairs - self.unseparated)

    @property
    def smallest(self) -> int:
        """The rows of the smallest group; 0 of an empty table."""
        if self.alone or not self.n_labels:
            return min(self.table.rows, 1)
        return int(value_counts(self.labels, self.n_labels).min())

    def extent_with(self, column: int) -> Extent:
        """The same with one more column."""
        if not self.n_labels:
            return self.extent
        _, sizes = occurring(*self._keys(column))
        return Extent(self.alone + sizes.size, self.whole.pairs - _pairs_within(sizes))

    def refined(self, column: int) -> Partition:
        """The finer groups with one more column."""
        if not self.n_labels:
            return self
        numbers, found = renumber(*self._keys(column))
        sizes = value_counts(numbers, found.size)
        several = sizes > 1
        n_labels = int(np.count_nonzero(several))
        kept = np.flatnonzero(several.take(numbers))
        label_of_number = np.cumsum(several, dtype=np.int32) - 1
        return Partition(
            self.table,
            kept if self.rows is None else self.rows.take(kept),
            label_of_number.take(numbers.take(kept)),
            n_labels,
            self.alone + sizes.size - n_labels,
            _pairs_within(sizes),
        )

    def _keys(self, column: int) -> tuple[Counts, int]:
        """Each labelled row's label with the column's code as one more digit, and a bound of these numbers."""
        codes, bound = self.table.codes[column], self.table.bounds[column]
        keys = self.labels.astype(np.int64) * bound
        keys += codes if self.rows is None else codes.take(self.rows)
        return keys, self.n_labels * bound


def _pairs_within(sizes: Counts) -> int:
    return int((sizes * (sizes - 1)).sum()) // 2


def partition_by(table: CodedTable, columns: Iterable[int]) -> Partition:
    """The groups of the table's rows by these columns."""
    groups = Partition.of(table)
    for column in columns:
        groups = groups.refined(column)
    return groups
