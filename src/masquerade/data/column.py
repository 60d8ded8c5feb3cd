"""A column as an algorithm sees it: an integer array of ranks, and the domain that gives them meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.boundary import Boundary
from masquerade.data.continuum import Continuum, Kind, read_number
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine import Counts, Ints, Rows, pair_counts, renumber, value_counts

Ranks = NDArray[np.int32]
Domain = Taxonomy | Continuum


@dataclass(frozen=True, eq=False)
class Column:
    """One attribute's value in each row, as a rank in the attribute's domain."""

    name: str
    ranks: Ranks
    domain: Domain
    boundary: Boundary | None = None  # how far its values may be generalised; None: as far as there is

    def of_rows(self, rows: Rows) -> Column:
        """Return the column for these rows."""
        return replace(self, ranks=self.ranks.take(rows))

    def most_general(self, rows: Rows) -> Counts:
        """Return the ranks `[lo, hi)` of the most general value that each of these rows may have, as two rows."""
        if self.boundary is None:
            return np.repeat([[0], [max(self.domain.size, 1)]], rows.size, axis=1).astype(np.int64)
        ranks = self.ranks.take(rows)
        return np.stack([self.boundary.lo.take(ranks), self.boundary.hi.take(ranks)])

    def generalise(self, cut: NDArray[np.int64]) -> Generalised:
        """Generalise each row to its range of the cut, given as sorted range starts, the first of them 0."""
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
    rows: Counts | None = None  # with each code, where the codes are in chunks

    def of_rows(self, rows: Rows) -> Generalised:
        """Return the column for these rows, without values that only other rows have: those would leak."""
        codes = self.codes.take(rows)
        numbers, used = renumber(codes, len(self.labels))
        if used.size == len(self.labels):
            return replace(self, codes=codes)
        labels = tuple(self.labels[code] for code in used)
        return Generalised(
            self.name, numbers.astype(np.int32, copy=False), labels, self.lo[used], self.hi[used], self.domain
        )

    def counts(self) -> Counts:
        """Count the rows with each code."""
        return value_counts(self.codes, len(self.labels)) if self.rows is None else self.rows

    def to_arrow(self) -> pa.DictionaryArray:
        """Return the cells as text, dictionary-encoded."""
        return pa.DictionaryArray.from_arrays(pa.array(self.codes), pa.array(self.labels, pa.string()))


@dataclass(frozen=True, eq=False)
class Coded:
    """A column that is not generalised (a class, a sensitive attribute): codes of its sorted values."""

    name: str
    codes: NDArray[np.int32]
    labels: tuple[str, ...]

    def of_rows(self, rows: Rows) -> Coded:
        """Return the column for these rows, with the same values, be they anybody's or not."""
        return replace(self, codes=self.codes.take(rows))

    def histogram(self) -> Counts:
        """Count the rows of the whole table with each value, as a histogram of one row."""
        return value_counts(self.codes, len(self.labels)).reshape(1, -1)

    def histograms(self, groups: Ints, n_groups: int, rows: Rows | None = None) -> Counts:
        """Count the rows of each group with each value; `groups` is aligned with `rows`, or with all rows."""
        codes = self.codes if rows is None else self.codes.take(rows)
        return pair_counts(groups, codes, n_groups, len(self.labels))


# --- released range -----------------------------------------------------------------------------------------
# Read a released cell back: the ranks that it covers.


def released_range(domain: Domain, label: str) -> tuple[int, int] | None:
    """Return the ranks that a released cell, generalised or raw, covers; None if it is not in the domain."""
    covered = domain.range_of(label)
    if covered is not None:
        return covered
    if isinstance(domain, Continuum):
        number = _number(label, domain.kind)
        if number is None:
            return None
        # A number that no record has covers no rank.
        lo, hi = (int(np.searchsorted(domain.values, number, side=side)) for side in ("left", "right"))
        return domain.first + lo, domain.first + hi
    if domain.edges is None:
        return None
    number = _number(label, "continuous")
    number = _number(label, "date") if number is None else number
    if number is None:
        return None
    rank = int(np.searchsorted(np.asarray(domain.edges), number, side="right")) - 1
    return (rank, rank + 1) if 0 <= rank < domain.size else None


def _number(label: str, kind: Kind) -> int | float | None:
    try:
        number = read_number(label, kind)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def allowed_cells(domain: Domain) -> str:
    """Say what the cells of a release of this domain may be."""
    if not isinstance(domain, Continuum):
        return f"the values of taxonomy {domain.source}"
    raw = "dates" if domain.kind == "date" else "numbers"
    return f"{raw} and intervals [lo, hi) of them"
