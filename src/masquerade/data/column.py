"""One column as an algorithm sees it: an integer array of ranks, and the domain that gives them meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.continuum import Continuum
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Counts, Ints, Rows, pair_counts, value_counts
from masquerade.engine.numbering import renumber

Ranks = NDArray[np.int32]
Domain = Taxonomy | Continuum


@dataclass(frozen=True, eq=False)
class Column:
    """The ranks of one attribute's values, row by row, in its domain."""

    name: str
    ranks: Ranks
    domain: Domain

    def generalise(self, cut: NDArray[np.int64]) -> Generalised:
        """Each row's value in the cut: sorted range starts, from 0 on; a range ends where the next begins."""
        ends = np.append(cut[1:], self.domain.size)
        labels = tuple(self.domain.label(int(lo), int(hi)) for lo, hi in zip(cut, ends, strict=True))
        node_of_rank = np.repeat(np.arange(cut.size, dtype=np.int32), ends - cut)
        return Generalised(self.name, node_of_rank.take(self.ranks), labels, cut, ends, self.domain)


@dataclass(frozen=True, eq=False)
class Generalised:
    """A released column: each row's code, and each code's label and range of ranks `[lo, hi)`."""

    name: str
    codes: NDArray[np.int32]
    labels: tuple[str, ...]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    domain: Domain

    def of_rows(self, rows: Rows) -> Generalised:
        """The column of some rows only. Values that none of them has are forgotten: they tell of the others."""
        codes = self.codes.take(rows)
        numbers, used = renumber(codes, len(self.labels))
        if used.size == len(self.labels):
            return replace(self, codes=codes)
        labels = tuple(self.labels[code] for code in used)
        return Generalised(
            self.name, numbers.astype(np.int32, copy=False), labels, self.lo[used], self.hi[used], self.domain
        )

    def counts(self) -> Counts:
        """How many rows have each code."""
        return value_counts(self.codes, len(self.labels))

    def to_arrow(self) -> pa.DictionaryArray:
        """The cells as text, each distinct one stored once."""
        return pa.DictionaryArray.from_arrays(pa.array(self.codes), pa.array(self.labels, pa.string()))


@dataclass(frozen=True, eq=False)
class Coded:
    """A column that is not generalised (a class, a sensitive attribute): codes of its sorted values."""

    name: str
    codes: NDArray[np.int32]
    labels: tuple[str, ...]

    def histogram(self) -> Counts:
        """How many rows of the whole table have each value: one row of a histogram."""
        return value_counts(self.codes, len(self.labels)).reshape(1, -1)

    def histograms(self, groups: Ints, n_groups: int, rows: Rows | None = None) -> Counts:
        """How many rows of each group have each value; `groups` are those of all rows, or of the given ones."""
        codes = self.codes if rows is None else self.codes.take(rows)
        return pair_counts(groups, codes, n_groups, len(self.labels))
