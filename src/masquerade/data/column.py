"""One column as an algorithm sees it: an integer array of ranks, and the domain that gives them meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.continuum import Continuum
from masquerade.data.taxonomy import Taxonomy

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

    def of_rows(self, rows: NDArray[np.intp]) -> Generalised:
        """The column of some rows only. Values that none of them has are forgotten: they tell of the others."""
        codes = self.codes.take(rows)
        used = np.flatnonzero(np.bincount(codes, minlength=len(self.labels)))
        if used.size == len(self.labels):
            return replace(self, codes=codes)
        number = np.zeros(len(self.labels), np.int32)
        number[used] = np.arange(used.size, dtype=np.int32)
        labels = tuple(self.labels[code] for code in used)
        return Generalised(self.name, number.take(codes), labels, self.lo[used], self.hi[used], self.domain)

    def to_arrow(self) -> pa.DictionaryArray:
        """The cells as text, each distinct one stored once."""
        return pa.DictionaryArray.from_arrays(pa.array(self.codes), pa.array(self.labels, pa.string()))


@dataclass(frozen=True, eq=False)
class Coded:
    """A column that is not generalised (a class, a sensitive attribute): codes of its sorted values."""

    name: str
    codes: NDArray[np.int32]
    labels: tuple[str, ...]
