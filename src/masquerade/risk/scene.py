"""The scene of an attack, a release and what an attacker may hold beside it, and what an attack finds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from masquerade.data import (
    ANYTHING,
    MISSING_CELL,
    Attribute,
    Kind,
    Schema,
    Table,
    Taxonomy,
    distinct as distinct_cells,
    read_date,
    read_interval,
    read_number,
    texts,
)
from masquerade.engine import (
    Counts,
    Flags,
    Rows,
    distinct_values,
    first_rows,
    group_rows,
    value_counts,
    weighted_counts,
)
from masquerade.errors import DataError, ParameterError

# --- boxes --------------------------------------------------------------------------------------------------
# The groups of a table as boxes: for each attribute, the range of values that a group's cell stands for.
#
# A cell may be raw or generalised, so a person of an outside table is in a group if its ranges meet those
# of the group, attribute by attribute. Ranges of one attribute are on one scale, whichever table they are
# from: numbers and dates by their values, categories by the ranks of their taxonomy, others by a number for
# each value. "*" and the root of categories are everything, also a missing cell or a value that the
# taxonomy does not have.

Range = tuple[float, float]
Floats = NDArray[np.float64]

EVERYTHING: Range = (-math.inf, math.inf)

# Values that only equal themselves, such as a missing cell, are numbered below all numbers and ranks.
_FIRST_VALUE, _VALUE_STEP, _LEAST_NUMBER = -1.7e308, 1e300, -8e307


@dataclass
class CellRanges:
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
    def of(cls, table: Table, scales: Sequence[CellRanges]) -> Boxes:
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
            np.stack([each[codes[first], end] for (codes, _), each in zip(columns, ranges, strict=True)], axis=1)
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
            for (their_lo, their_hi), low, high in zip(ends, lo, hi, strict=True):  # ever fewer are left to look at
                met = met[(their_lo[met] < high) & (their_hi[met] > low)]
            yield met

    def distinct(self) -> tuple[Boxes, Counts]:
        """Merge groups with one box; return the boxes that are left, and the one of each group."""
        ends = [distinct_values(end) for end in np.hstack([self.lo, self.hi]).T]
        of_group, n_boxes = group_rows([(codes, found.size) for found, codes in ends], self.sizes.size)
        first = first_rows(of_group, n_boxes)
        sizes = weighted_counts(of_group, self.sizes, n_boxes).astype(np.int64)
        merged = replace(self, lo=self.lo[first], hi=self.hi[first], sizes=sizes, groups=of_group[self.groups])
        return merged, of_group


# --- attack -------------------------------------------------------------------------------------------------

Need = Literal["sensitive", "learnable", "outside", "earlier", "provider"]

MOST_RECORDS = 10
_ASSUMED_SHARE = 0.01  # of the population that is in a release, where nobody says


@dataclass(frozen=True)
class Finding:
    """What an attack got: a figure, what it means, and the most exposed records (rows of the original, from 1)."""

    name: str
    value: float
    meaning: str
    records: tuple[int, ...] = ()
    attribute: str | None = None  # whose values are learned, where it is about those of one

    def summary(self) -> dict[str, Any]:
        """Return the entry of a JSON summary."""
        return {
            "name": self.name,
            **({} if self.attribute is None else {"attribute": self.attribute}),
            "value": self.value,
            "meaning": self.meaning,
            "records": list(self.records),
        }


Values = tuple[tuple[str, ...], Counts]  # of a column: their names, and how often each group has each


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """A release whose rows are elsewhere, as far as attackers without other tables ask for it."""

    sizes: Counts  # of each group
    values: Mapping[str, Values] = field(default_factory=dict)  # of the columns that are counted


@dataclass(frozen=True, eq=False)
class Scene:
    """A release, and what an attacker may hold beside it."""

    release: Table
    schema: Schema
    qid: tuple[str, ...]
    sensitive: tuple[str, ...] = ()
    target: str | None = None  # the class, which is released as it is
    original: Table | None = None  # complete rows, for pointing at records
    outside: Table | None = None
    earlier: tuple[Table, ...] = ()
    provider: str | None = None  # the release's column that names providers
    colluding: int = 1
    population: int | None = None
    counted: GroupCounts | None = None  # where `release` has some of its rows alone

    @property
    def learnable(self) -> tuple[str, ...]:
        """The columns whose values a group may tell: the sensitive ones and the class."""
        named = self.sensitive if self.target is None else (*self.sensitive, self.target)
        return tuple(dict.fromkeys(named))

    @property
    def sizes(self) -> Counts:
        """The number of records in each group of the release."""
        return self.groups.sizes if self.counted is None else self.counted.sizes

    @property
    def records(self) -> int:
        """The number of records in the release."""
        return len(self.release) if self.counted is None else int(self.counted.sizes.sum())

    def values_of(self, name: str) -> Values | None:
        """Return a released column's values, and how often each group has each; None where nobody knows."""
        if self.counted is not None:
            return self.counted.values.get(name)
        if name not in self.release.arrow.column_names:
            return None
        coded = self.release.coded(name)
        return coded.labels, coded.histograms(self.groups.groups, self.sizes.size)

    @cached_property
    def scales(self) -> dict[str, CellRanges]:
        """How the cells of each attribute are compared."""
        return {name: CellRanges(self.schema[name] if name in self.schema else Attribute(name)) for name in self.qid}

    def boxes_of(self, table: Table, what: str) -> Boxes:
        """Group a table over those attributes of the QIDs that it has; refuse one that has none."""
        names = [name for name in self.qid if name in table.arrow.column_names]
        if not names:
            raise DataError.about(
                table.origin.name, f"{what} has no attribute of the release's QIDs: {', '.join(self.qid)}"
            )
        return Boxes.of(table, [self.scales[name] for name in names])

    @cached_property
    def groups(self) -> Boxes:
        """The groups of the release."""
        return self.boxes_of(self.release, "the release")

    @cached_property
    def population_size(self) -> tuple[int, str]:
        """The people whom the release is a sample of, and where the number is from."""
        if self.population is not None:
            if self.population < self.records:
                raise ParameterError(
                    f"population must be at least {self.records:,}, the records of the release; got {self.population}"
                )
            return self.population, "given"
        if self.outside is not None and len(self.outside) > self.records:
            return len(self.outside), "the outside table"
        return round(self.records / _ASSUMED_SHARE), "assumed: a release of 1 % of it"

    @cached_property
    def outsiders(self) -> tuple[Boxes, list[NDArray[np.intp]]]:
        """The different people of the outside table, and those who fit each group of the release."""
        assert self.outside is not None
        people = self.boxes_of(self.outside, "the outside table")
        return people, list(self.groups.over(people.names).meeting(people))

    def most_exposed(self, exposure: NDArray[np.float64]) -> tuple[int, ...]:
        """Return the original's rows with the highest exposure, given that of each group; those with none are left out.

        Where the release is in another order than the original, a record that fits several groups counts as in the most
        exposed of them.
        """
        if self.original is None:
            return ()
        if self._in_order:
            of_rows = exposure[self.groups.groups]
        else:
            highest = [exposure[met].max() if met.size else 0.0 for met in self._fitting]
            of_rows = np.array(highest, float)[self._people.groups]
        order = np.argsort(-of_rows, kind="stable")[:MOST_RECORDS]
        return tuple(self.original.source_row(int(row)) + 1 for row in order if of_rows[row] > 0)

    @cached_property
    def _people(self) -> Boxes:
        assert self.original is not None
        return self.boxes_of(self.original, "the original")

    @cached_property
    def _in_order(self) -> bool:
        """Whether row i of the release covers row i of the original, for all rows."""
        people, groups = self._people, self.groups.over(self._people.names)
        if people.groups.size != groups.groups.size:
            return False
        own, of_group = people.groups, groups.groups
        covered = (groups.lo[of_group] <= people.lo[own]) & (groups.hi[of_group] >= people.hi[own])
        return bool(covered.all())

    @cached_property
    def _fitting(self) -> list[NDArray[np.intp]]:
        """The groups that each different record of the original may be in."""
        return list(self._people.meeting(self.groups.over(self._people.names)))


# --- fitting people -----------------------------------------------------------------------------------------
# The people who fit each group of a release: those of the outside table, or else of the release itself.


def people_of_groups(scene: Scene) -> tuple[NDArray[np.float64], str]:
    """Count the people who fit each group: of the outside table, but no fewer than are in the release."""
    sizes = scene.sizes.astype(float)
    if scene.outside is None:
        return sizes, "the release"
    people, fitting = scene.outsiders
    fit = np.array([people.sizes[met].sum() for met in fitting], float)
    return np.maximum(fit, sizes), "the outside table"


# --- sensitive histograms -----------------------------------------------------------------------------------
# How often each value of a column occurs in each group of a release, for the attacks on such values.


def histograms(scene: Scene, columns: Sequence[str]) -> Iterator[tuple[str, Counts]]:
    """Yield each of these columns that is released, with its counts by group and value."""
    for name in columns:
        if (found := scene.values_of(name)) is not None:
            yield name, found[1]


def share_of(scene: Scene, exposed: Flags) -> float:
    """Return the share of the records that are in these groups."""
    return float(scene.sizes[exposed].sum() / max(scene.records, 1))
