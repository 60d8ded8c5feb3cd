"""Counts of those keys that occur: additive like `counts.py`, where a table of all keys would be mostly empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.engine.counts import Counts, Ints
from masquerade.engine.numbering import occurring


@dataclass(frozen=True, eq=False)
class SparseCounts:
    """The keys that some row has, in ascending order, and the number of rows with each."""

    keys: Counts
    counts: Counts

    @classmethod
    def of(cls, keys: Ints, bound: int) -> SparseCounts:
        """Count the rows with each key below `bound`."""
        found, counts = occurring(keys, bound)
        return cls(found.astype(np.int64, copy=False), counts)

    def __add__(self, other: SparseCounts) -> SparseCounts:
        return self.sum_of([self, other])

    @classmethod
    def sum_of(cls, several: Sequence[SparseCounts]) -> SparseCounts:
        """Add up the counts of several chunks of rows."""
        keys = np.concatenate([each.keys for each in several])
        counts = np.concatenate([each.counts for each in several])
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))  # keys are not negative
        return cls(keys[starts], np.add.reduceat(counts, starts) if starts.size else counts)

    def dense(self, n_groups: int, n_values: int) -> Counts:
        """Return all counts as a table, where a key is a group's number times the number of values, plus the value."""
        table = np.zeros(n_groups * n_values, np.int64)
        table[self.keys] = self.counts
        return table.reshape(n_groups, n_values)
