"""What columns tell apart in a table of which its groups are known: the values of each, and how many rows it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from masquerade.engine.counts import Counts, Ints, weighted_counts
from masquerade.engine.numbering import renumber
from masquerade.risk.ground import Extent


@dataclass(frozen=True, eq=False)
class GroupGround:
    """The rows of all groups, by the columns chosen so far."""

    codes: tuple[Ints, ...]  # of each column, by group
    bounds: tuple[int, ...]
    times: Counts  # the rows of each group
    labels: Counts  # what the chosen columns do not tell apart has one
    n_labels: int

    @classmethod
    def of(cls, codes: Sequence[Ints], bounds: Sequence[int], times: Counts) -> GroupGround:
        """Return the ground on which no column is chosen yet."""
        return cls(tuple(codes), tuple(bounds), times, np.zeros(times.size, np.int64), min(times.size, 1))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.times.sum())

    @property
    def whole(self) -> Extent:
        """All rows and all pairs of them."""
        return Extent(self.rows, self.rows * (self.rows - 1) // 2)

    @property
    def extent(self) -> Extent:
        """What the chosen columns tell apart."""
        alike = self._sizes
        return Extent(self.n_labels, self.whole.pairs - int((alike * (alike - 1)).sum()) // 2)

    @property
    def smallest(self) -> int:
        """The rows that are least among those that the chosen columns do not tell apart; 0 of an empty table."""
        return int(self._sizes.min(initial=self.rows))

    def extent_with(self, column: int) -> Extent:
        """What they would tell apart together with one more."""
        return self.refined(column).extent

    def refined(self, column: int) -> GroupGround:
        """Return the ground with one more column chosen."""
        bound = self.bounds[column]
        labels, found = renumber(self.labels * bound + self.codes[column], self.n_labels * bound)
        return replace(self, labels=labels.astype(np.int64), n_labels=found.size)

    @property
    def _sizes(self) -> Counts:
        return weighted_counts(self.labels, self.times, self.n_labels).astype(np.int64)
