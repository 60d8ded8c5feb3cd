"""A party's own groups, as labels for the joint histogram."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts, Rows, value_counts

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
