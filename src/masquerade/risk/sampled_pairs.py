"""Pairs of rows drawn at random: for each column, which of them it tells apart.

Every column covers some of the pairs, and a key is a set cover; so the same greedy search runs on
all rows and on a sample of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.chunks import Chunk
from masquerade.engine.counts import Rows
from masquerade.risk.row_sample import draw_pairs, drawn_rows
from masquerade.risk.separation import CodedRows, Extent, Measure, SeparatedRows, Separation, code_columns


@dataclass(frozen=True, eq=False)
class SampledPairs:
    """The pairs that no chosen column tells apart yet, and which of those each column does."""

    apart: NDArray[np.bool_]  # columns × pairs
    total: int

    @classmethod
    def of(cls, rows: CodedRows, first: Rows, second: Rows) -> SampledPairs:
        """Compare the rows `first[i]` and `second[i]` of one chunk, for each i."""
        return cls(
            rows.chunks.only(0, partial(_apart, names=rows.names, first=first, second=second)),
            int(first.size),
        )

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


def sample_of(rows: CodedRows, measure: Measure, size: int, seed: int) -> Separation:
    """Return what a sample decides by: `size` tuples, or for the separation ratio pairs of rows."""
    if measure == "distinct":
        return SeparatedRows.of(drawn_rows(rows, size, seed))
    sample = drawn_rows(rows, 2 * size, seed)
    return SampledPairs.of(sample, *draw_pairs(rows.rows_read, size, np.arange(sample.rows), seed))


def _apart(chunk: Chunk, names: Sequence[str], first: Rows, second: Rows) -> NDArray[np.bool_]:
    return np.stack([codes.take(first) != codes.take(second) for codes, _ in code_columns(chunk, names)])
