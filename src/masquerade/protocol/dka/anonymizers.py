"""Local anonymizers for the framework: each makes a party's own columns k-anonymous, and can go a step further.

| | first | a step further |
|---|---|---|
| `ByRecords` | Datafly as in the DkA paper: records in a group of k are left as they are | everybody climbs one step |
| `ByColumns` | Sweeney's Datafly: everybody climbs until all groups have k | the same |
| `FullDomain` | of all combinations of levels, one with the fewest steps in all | the widest attribute one level up |
| `Descent` | everything at the top | one step back down the way of `ByColumns`, while groups have k |
| `ByMondrian` | Mondrian for k (`mondrian_levels.py`) | small groups join others: all are twice as large |
| `MondrianDescent` | one group | the same, backwards |

Attributes need taxonomies, but Mondrian takes numbers as they are. `Descent` and `MondrianDescent` are for the top-down
variant (§7 of the paper).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Protocol

import numpy as np

from masquerade.anonymize.bottom_up import BottomUpColumns
from masquerade.data.column import Column, Generalised
from masquerade.engine.counts import Counts, Rows
from masquerade.engine.numbering import group_rows
from masquerade.errors import RequirementUnreachable
from masquerade.protocol.dka.groups import all_large, labels_of


class LocalAnonymizer(Protocol):
    """What the framework asks of a party's own anonymizer."""

    def start(self) -> None:
        """Make the own columns locally k-anonymous (step 1 of Algorithm 4)."""

    def further(self) -> bool:
        """Go one step, more general bottom-up, more specific top-down. Return False when there is none."""

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, and the number of groups."""

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""


class TopDownAnonymizer(LocalAnonymizer, Protocol):
    """What the top-down variant also needs."""

    def back(self) -> None:
        """Undo the last step."""


class _BottomUp:
    """Base of the anonymizers that generalise step by step."""

    def __init__(self, columns: Sequence[Column], n_records: int, k: int) -> None:
        refuse_few(n_records, k)
        self._k, self._everybody = k, np.arange(n_records)
        self._generalised = BottomUpColumns(columns)

    def further(self) -> bool:
        """Generalise all records one step."""
        return self._generalised.climb(self._everybody) is not None

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, and the number of groups."""
        return self._generalised.groups(rows)

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""
        return self._generalised.released(rows)

    def _climb_until_large(self) -> None:
        while not all_large(self._generalised, self._everybody, self._k):
            self.further()


class ByColumns(_BottomUp):
    """Datafly on whole columns."""

    def start(self) -> None:
        """Generalise all records until every group has k."""
        self._climb_until_large()


class ByRecords(_BottomUp):
    """Datafly that leaves records alone as soon as their group has k."""

    def start(self) -> None:
        """Generalise records without a group of k; when fewer than k remain, generalise all records."""
        rest, bound = self._everybody, self._everybody.size
        while rest.size >= self._k:
            rest = rest[labels_of(self._generalised, rest, self._k, bound) == bound]
            if rest.size < self._k or self._generalised.climb(rest) is None:
                break
        self._climb_until_large()


class FullDomain:
    """Every value of an attribute on one level; the least general combination of levels comes first."""

    def __init__(self, columns: Sequence[Column], n_records: int, k: int) -> None:
        refuse_few(n_records, k)
        self._k, self._everybody = k, np.arange(n_records)
        self._per_column = [list(_levels(column, self._everybody)) for column in columns]
        self._level = [0] * len(columns)

    def start(self) -> None:
        """Choose the combination with the fewest steps that gives every group k records; on a tie, by schema order."""
        heights = [range(len(levels)) for levels in self._per_column]
        for levels in sorted(product(*heights), key=lambda each: (sum(each), each)):
            self._level = list(levels)
            if all_large(self, self._everybody, self._k):
                return

    def further(self) -> bool:
        """Move up one level the attribute with the most values among those not at the top."""
        able = [at for at, levels in enumerate(self._per_column) if self._level[at] + 1 < len(levels)]
        if not able:
            return False
        widest = max(able, key=lambda at: self._now(at).groups(self._everybody)[1])
        self._level[widest] += 1
        return True

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, and the number of groups."""
        return group_rows([self._now(at).groups(rows) for at in range(len(self._level))], rows.size)

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""
        return tuple(column for at in range(len(self._level)) for column in self._now(at).released(rows))

    def _now(self, at: int) -> BottomUpColumns:
        return self._per_column[at][self._level[at]]


class Descent:
    """From the top down: the steps of `ByColumns` in reverse, as far as every group has k."""

    def __init__(self, columns: Sequence[Column], n_records: int, k: int) -> None:
        refuse_few(n_records, k)
        self._columns, self._everybody = columns, np.arange(n_records)
        generalised, self._lowest, steps = BottomUpColumns(columns), -1, 0
        while True:
            if self._lowest < 0 and all_large(generalised, self._everybody, k):
                self._lowest = steps
            if generalised.climb(self._everybody) is None:
                break
            steps += 1
        self._steps = self._top = steps
        self._generalised = generalised

    def start(self) -> None:
        """Put every attribute at the top."""
        self._go_to(self._top)

    def further(self) -> bool:
        """Go one step down. Return False at the lowest."""
        if self._steps <= self._lowest:
            return False
        self._go_to(self._steps - 1)
        return True

    def back(self) -> None:
        """Undo the last step."""
        self._go_to(min(self._steps + 1, self._top))

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, and the number of groups."""
        return self._generalised.groups(rows)

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""
        return self._generalised.released(rows)

    def _go_to(self, steps: int) -> None:
        self._steps, self._generalised = steps, BottomUpColumns(self._columns)
        for _ in range(steps):
            self._generalised.climb(self._everybody)


def _levels(column: Column, everybody: Rows) -> Iterator[BottomUpColumns]:
    """Yield the attribute alone, at each of its levels."""
    steps = 0
    while True:
        generalised = BottomUpColumns([column])
        if not all(generalised.climb(everybody) is not None for _ in range(steps)):
            return
        yield generalised
        steps += 1


def refuse_few(n_records: int, k: int) -> None:
    """Raise for fewer than k records, of which no k-anonymous table can be made."""
    if n_records < k:
        raise RequirementUnreachable(
            f"k-anonymity with k = {k} needs at least {k} common records; there are {n_records}"
        )
