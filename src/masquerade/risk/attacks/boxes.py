"""The groups of a table as boxes: for each attribute, the range of values that a group's cell stands for.

A cell may be raw or generalised, so a person of an outside table is in a group if its ranges meet those of the group,
attribute by attribute. Ranges of one attribute are on one scale, whichever table they are from: numbers and dates by
their values, categories by the ranks of their taxonomy, others by a number for each value; "*" is everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from masquerade.data.continuum import ANYTHING, MISSING_CELL, Kind, read_date, read_interval, read_number
from masquerade.data.encode import distinct as distinct_cells
from masquerade.data.encode import texts
from masquerade.data.schema import Attribute
from masquerade.data.table import Table
from masquerade.data.taxonomy import Taxonomy
from masquerade.engine.counts import Counts, Flags, Rows, value_counts
from masquerade.engine.numbering import first_rows, group_rows

Range = tuple[float, float]
Floats = NDArray[np.float64]

EVERYTHING: Range = (-math.inf, math.inf)


@dataclass
class Scale:
    """How the cells of an attribute become ranges."""

    attribute: Attribute
    numbers: dict[str, int] = field(default_factory=dict)  # of values that have no other order

    def range_of(self, cell: str) -> Range:
        """Return the range `[lo, hi)` of a cell."""
        taxonomy = self.attribute.taxonomy
        if isinstance(taxonomy, Taxonomy):
            found = taxonomy.range_of(cell)
            if found is not None and taxonomy.edges is not None:
                return float(taxonomy.edges[found[0]]), float(taxonomy.edges[found[1]])
            if found is not None:
                return float(found[0]), float(found[1])
        if cell == ANYTHING:
            return EVERYTHING
        is_number = (
            taxonomy.edges is not None
            if isinstance(taxonomy, Taxonomy)
            else self.attribute.kind != "categorical"
        )
        if is_number and cell != MISSING_CELL and (ends := self._ends(cell)) is not None:
            return ends
        # Numbers for values that only equal themselves: below everything that a taxonomy numbers.
        at = -2.0 - self.numbers.setdefault(cell, len(self.numbers))
        return at, at + 0.5

    def _ends(self, cell: str) -> Range | None:
        kind: Kind = "date" if self.attribute.kind == "date" else "continuous"
        if (interval := read_interval(cell, kind)) is not None:
            return float(interval[0]), float(interval[1])
        try:
            number = float(self._number(cell, kind))
        except ValueError:
            return None
        return number, math.nextafter(number, math.inf)

    def _number(self, cell: str, kind: Kind) -> float:
        if kind == "date":
            try:
                return read_number(cell, kind)  # as releases write it
            except ValueError:
                return read_date(cell, self.attribute.format)
        return read_number(cell.replace(",", ".") if self.attribute.decimal == "," else cell, kind)


@dataclass(frozen=True, eq=False)
class Boxes:
    """The groups of a table's rows over some attributes."""

    names: tuple[str, ...]
    lo: Floats  # groups × attributes
    hi: Floats
    sizes: Counts
    groups: Counts  # of each row

    @classmethod
    def of(cls, table: Table, scales: Sequence[Scale]) -> Boxes:
        """Group the rows of a table by their cells."""
        columns, ranges = [], []
        for scale in scales:
            codes, values = distinct_cells(table.cells(scale.attribute.name))
            labels: list[str] = texts(values).to_pylist()
            columns.append((codes, max(len(labels), 1)))
            ranges.append(np.array([scale.range_of(label) for label in labels], float).reshape(-1, 2))
        labels_of_rows, n_groups = group_rows(columns, len(table))
        first = first_rows(labels_of_rows, n_groups)
        lo, hi = (
            np.stack(
                [each[codes[first], end] for (codes, _), each in zip(columns, ranges, strict=True)], axis=1
            )
            if scales
            else np.zeros((n_groups, 0))
            for end in (0, 1)
        )
        names = tuple(scale.attribute.name for scale in scales)
        return cls(names, lo, hi, value_counts(labels_of_rows, n_groups), labels_of_rows)

    def over(self, names: Sequence[str]) -> Boxes:
        """The same groups, by these attributes alone; several may then have one box."""
        at = [self.names.index(name) for name in names]
        return replace(self, names=tuple(names), lo=self.lo[:, at], hi=self.hi[:, at])

    def meeting(self, others: Boxes) -> Iterator[Rows]:
        """Yield for each of our groups the groups of the others whose boxes meet its own, over the same attributes."""
        ends = list(zip(others.lo.T.copy(), others.hi.T.copy(), strict=True))  # each attribute's in one piece
        everyone = np.arange(others.sizes.size)
        for lo, hi in zip(self.lo, self.hi, strict=True):
            met = everyone
            for (their_lo, their_hi), low, high in zip(
                ends, lo, hi, strict=True
            ):  # ever fewer are left to look at
                met = met[(their_lo[met] < high) & (their_hi[met] > low)]
            yield met

    def inside(self, lo: Floats, hi: Floats) -> Flags:
        """Return which of the groups lie within a box."""
        flags: Flags = np.logical_and.reduce((self.lo >= lo) & (self.hi <= hi), axis=1)
        return flags
