"""Pairs of rows drawn at random: for each column, which of them it tells apart.

The pairs are a ground set, every column covers some of it, and a key is a set cover; so the same greedy search runs on
all rows and on a sample of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Rows
from masquerade.risk.coded_table import CodedTable
from masquerade.risk.ground import Extent


@dataclass(frozen=True, eq=False)
class SampledPairs:
    """The pairs that no chosen column tells apart yet, and which of those each column does."""

    apart: NDArray[np.bool_]  # columns × pairs
    total: int

    @classmethod
    def of(cls, table: CodedTable, first: Rows, second: Rows) -> SampledPairs:
        """Compare the rows `first[i]` and `second[i]`, for each i."""
        apart = np.stack([codes.take(first) != codes.take(second) for codes in table.codes])
        return cls(apart, int(first.size))

    @property
    def whole(self) -> Extent:
        """All pairs."""
        return Extent(0, self.total)

    @property
    def extent(self) -> Extent:
        """The pairs that the chosen columns tell apart."""
        return Extent(0, self.total - self.apart.shape[1])

    def extent_with(self, column: int) -> Extent:
        """The same with one more column."""
        return Extent(0, self.extent.pairs + int(np.count_nonzero(self.apart[column])))

    def refined(self, column: int) -> SampledPairs:
        """The pairs that are left with one more column."""
        return SampledPairs(self.apart[:, ~self.apart[column]], self.total)
