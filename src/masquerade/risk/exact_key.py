"""The exact minimum key: the lightest set of columns that tells all different rows apart.

Each pair of rows names the columns in which it differs, and a key has one of these columns for every pair: it hits all
**difference sets**. There are too many pairs to list, and few sets that matter. So keep a list, find the lightest set
of columns that hits all of it (`hitting_set.py`), and try that as a key. If it is one, no key is lighter. If not, rows
that it does not tell apart give further difference sets: add columns for as long as some rows still look alike, and
what is left to add is a smallest possible difference set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from masquerade.risk.coded_table import CodedTable
from masquerade.risk.greedy_key import greedy_key
from masquerade.risk.ground import Ground
from masquerade.risk.hitting_set import columns_of, lightest_hitting_set, minimal_sets
from masquerade.risk.partition import Partition, partition_by

_ORDERS = 8  # in which columns are added to what is no key: each may end at another difference set


class DifferentRows(Protocol):
    """Rows of which no two are equal in all columns."""

    @property
    def rows(self) -> int:
        """How many there are."""

    @property
    def width(self) -> int:
        """The number of columns."""

    @property
    def ground(self) -> Ground:
        """The ground on which no column is chosen yet."""

    def alike(self, columns: tuple[int, ...]) -> Partition:
        """The groups of rows that these columns do not tell apart, or of some such rows where there are too many."""


@dataclass(frozen=True, eq=False)
class TableRows:
    """The different rows of a table in memory."""

    table: CodedTable

    @classmethod
    def of(cls, table: CodedTable) -> TableRows:
        """Take one of each group of equal rows."""
        return cls(table.take(table.different_rows()))

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.table.rows

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.table.width

    @property
    def ground(self) -> Ground:
        """The ground on which no column is chosen yet."""
        return Partition.of(self.table)

    def alike(self, columns: tuple[int, ...]) -> Partition:
        """The groups of rows that these columns do not tell apart."""
        return partition_by(self.table, columns)


def exact_key(rows: DifferentRows, weights: Sequence[float], seed: int = 7) -> tuple[int, ...]:
    """Return the columns of a lightest key, in the order of the table."""
    if rows.rows < 2:
        return ()
    key = greedy_key(rows.ground, range(rows.width), lambda extent: extent.groups == rows.rows, weights)
    assert key is not None  # different rows differ in some column
    best, heaviest = sorted(key), sum(weights[column] for column in key)
    random = np.random.default_rng(seed)
    sets = minimal_sets(
        each
        for column in key
        for each in _difference_sets(rows, tuple(other for other in key if other != column), random)
    )
    while True:
        found = lightest_hitting_set(sets, weights, heaviest)
        if not found:  # nothing is lighter than the best key so far
            return tuple(best)
        tried = tuple(columns_of(found))
        further = list(_difference_sets(rows, tried, random))
        if not further:
            return tried
        sets = minimal_sets([*sets, *further])


def _difference_sets(
    rows: DifferentRows, columns: tuple[int, ...], random: np.random.Generator
) -> Iterator[int]:
    """Difference sets that these columns do not hit; none if they are a key."""
    alike = rows.alike(columns)
    others = [column for column in range(rows.width) if column not in columns]
    for _ in range(_ORDERS if alike.n_labels else 0):
        left, groups = list[int](), alike
        for column in random.permutation(others).tolist():
            finer = groups.refined(column)
            if finer.n_labels:
                groups = finer
            else:
                left.append(column)
        yield sum(1 << column for column in left)
