"""What every attack is: a name, what it needs, and a figure with its meaning in one sentence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from masquerade.data.schema import Attribute, Schema
from masquerade.data.table import Table
from masquerade.engine.counts import Counts
from masquerade.errors import DataError, ParameterError
from masquerade.risk.attacks.boxes import Boxes, Scale

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
    def scales(self) -> dict[str, Scale]:
        """How the cells of each attribute are compared."""
        return {
            name: Scale(self.schema[name] if name in self.schema else Attribute(name)) for name in self.qid
        }

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
        of_rows = exposure[self.groups.groups] if self._in_order else self._of_fitting(exposure)
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

    def _of_fitting(self, exposure: NDArray[np.float64]) -> NDArray[np.float64]:
        highest = [exposure[met].max() if met.size else 0.0 for met in self._fitting]
        return np.array(highest, float)[self._people.groups]


class Attack(ABC):
    """One way to learn from a release what it should not tell."""

    name: ClassVar[str]
    summary: ClassVar[str]  # goes on after a colon
    needs: ClassVar[tuple[Need, ...]] = ()

    @abstractmethod
    def run(self, scene: Scene) -> Iterator[Finding]:
        """Yield what it finds; the scene has all that it needs."""

    def possible(self, scene: Scene) -> bool:
        """Return whether the scene has what the attack needs."""
        return all(getattr(scene, need) for need in self.needs)
