"""The groups of a table as boxes: for each attribute, the range of values that a group's cell stands for.

A cell may be raw or generalised, so a person of an outside table is in a group if its ranges meet those of the group,
attribute by attribute. Ranges of one attribute are on one scale, whichever table they are from: numbers and dates by
their values, categories by the ranks of their taxonomy, others by a number for each value. "*" and the root of
categories are everything, also a missing cell or a value that the taxonomy does not have.
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
from masquerade.engine.counts import Counts, Rows, value_counts, weighted_counts
from masquerade.engine.numbering import distinct_values, first_rows, group_rows

Range = tuple[float, float]
Floats = NDArray[np.float64]

EVERYTHING: Range = (-math.inf, math.inf)

# Values that only equal themselves, such as a missing cell, are numbered below all numbers and ranks.
_FIRST_VALUE, _VALUE_STEP, _LEAST_NUMBER = -1.7e308, 1e300, -8e307


@dataclass
class Scale:
    """How the cells of an attribute become ranges."""

    attribute: Attribute
    numbers: dict[str, int] = field(default_factory=dict)  # of values that have no other order

    def range_of(self, cell: str) -> Range:
        """Return the range `[lo, hi)` of a cell; an empty one is a missing one."""
        cell = cell or MISSING_CELL
        taxonomy = self.attribute.taxonomy
        is_number = self.attribute.kind != "categorical"
        if isinstance(taxonomy, Taxonomy):
            edges, found = taxonomy.edges, taxonomy.range_of(cell)
            is_number = edges is not None
            if found is not None and edges is None:
                is_root = found == (0, len(taxonomy.leaves)) and len(taxonomy.leaves) > 1
                return EVERYTHING if is_root else (float(found[0]), float(found[1]))
            if found is not None and edges is not None and cell != ANYTHING:
                return _above_values(edges[found[0]], edges[found[1]])
        if cell == ANYTHING:
            return EVERYTHING
        if is_number and cell != MISSING_CELL and (ends := self._ends(cell)) is not None:
            return ends
        at = _FIRST_VALUE + _VALUE_STEP * self.numbers.setdefault(cell, len(self.numbers))
        return at, at + _VALUE_STEP / 2

    def _ends(self, cell: str) -> Range | None:
        kind: Kind = "date" if self.attribute.kind == "date" else "continuous"
        if (interval := read_interval(cell, kind)) is not None:
            return _above_values(*interval)
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
        return read_number(self.attribute.numbers.usual(cell), kind)


def _above_values(lo: float, hi: float) -> Range:
    """Return an interval of numbers; one without a lower end does not reach down to the values that are none."""
    return max(float(lo), _LEAST_NUMBER), float(hi)


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

    def distinct(self) -> tuple[Boxes, Counts]:
        """Merge groups with one box; return the boxes that are left, and the one of each group."""
        ends = [distinct_values(end) for end in np.hstack([self.lo, self.hi]).T]
        of_group, n_boxes = group_rows([(codes, found.size) for found, codes in ends], self.sizes.size)
        first = first_rows(of_group, n_boxes)
        sizes = weighted_counts(of_group, self.sizes, n_boxes).astype(np.int64)
        merged = replace(
            self, lo=self.lo[first], hi=self.hi[first], sizes=sizes, groups=of_group[self.groups]
        )
        return merged, of_group
