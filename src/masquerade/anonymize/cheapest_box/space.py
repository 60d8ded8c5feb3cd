"""The distinct records of a table, and the boxes that a vector of levels cuts them into.

A box is a product of values, one for each attribute. Boxes are told apart by a 64-bit key: the sum, modulo 2^64, of a
pseudorandom number for each of its values. Two boxes with the same key would only be taken for one group, whose cells
are found from its records; that is never wrong, and as good as impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.cheapest_box.levels import Costs, Levels
from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.data.column import Coded
from masquerade.engine.counts import Counts, Rows, value_counts
from masquerade.engine.numbering import first_rows, group_rows

Vector = tuple[int, ...]  # a level for each attribute
Keys = NDArray[np.int64]

_KEPT_BYTES = 64 << 20  # of keys and costs that are kept from one look at a vector to the next
_KEY_SEED = 1


@dataclass(frozen=True, eq=False)
class Records:
    """The distinct records: their ranks along each attribute, how many rows have them, and what is counted of them."""

    ranks: Counts  # attribute × record
    sizes: Counts
    counts: Histograms  # as the judge of the requirements counts them
    classes: Counts | None  # record × class, where there is one
    of_row: Counts  # each row's record

    @property
    def n(self) -> int:
        """Number of distinct records."""
        return int(self.sizes.size)


def distinct_records(levels: Sequence[Levels], rows: Rows, judge: Judge, classes: Coded | None) -> Records:
    """Return the distinct records among these rows."""
    ranks = [each.column.ranks.take(rows) for each in levels]
    domains = [each.column.domain.size for each in levels]
    of_row, n = group_rows(zip(ranks, domains, strict=True), rows.size)
    first = first_rows(of_row, n)
    sizes = value_counts(of_row, n)
    return Records(
        np.stack([column[first] for column in ranks]).astype(np.int64),
        sizes,
        judge.count(lambda: of_row, rows, sizes),
        classes.histograms(of_row, n, rows) if classes is not None else None,
        of_row,
    )


class Boxes:
    """Keys and costs of the boxes that hold each record, for each of the vectors that are searched.

    A vector is looked at in two halves, whose keys and costs add up: a few hundred halves make all vectors of a
    lattice of many thousands, so they are kept as long as there is room.
    """

    def __init__(self, levels: Sequence[Levels], records: Records, vectors: Sequence[Vector]) -> None:
        random = np.random.default_rng(_KEY_SEED)
        self._ranks = records.ranks
        self._keys = [
            random.integers(-(2**62), 2**62, int(each.nodes.max()) + 1)[each.nodes] for each in levels
        ]
        self._costs = [each.costs for each in levels]
        self._attributes = _balanced([each.n_levels for each in levels])
        self._vectors = [
            [tuple(vector[attribute] for attribute in part) for part in self._attributes]
            for vector in vectors
        ]
        least = [each.costs.min(axis=1).tolist() for each in levels]
        self.least_costs = [  # lower bounds on what any box of each vector loses
            sum(costs[level] for costs, level in zip(least, vector, strict=True)) for vector in vectors
        ]
        self._kept: dict[tuple[int, Vector], tuple[Keys, Costs]] = {}
        self._room = _KEPT_BYTES // (12 * max(records.n, 1))

    @property
    def n_vectors(self) -> int:
        """Number of vectors that are searched."""
        return len(self._vectors)

    def keys(self, vector: int, records: Rows) -> Keys:
        """Return the key of the box of each of these records."""
        (keys, _), (other, _) = self._halves(vector)
        keys = keys.take(records)
        keys += other.take(records)
        return keys

    def all_keys(self, vectors: Rows, records: Rows) -> Keys:
        """Return the keys of several vectors' boxes, vector × record."""
        keys: Keys = np.zeros((vectors.size, records.size), np.int64)
        for part in range(len(self._attributes)):
            halves: dict[Vector, int] = {}
            of_vector = [
                halves.setdefault(self._vectors[vector][part], len(halves)) for vector in vectors.tolist()
            ]
            keys += np.stack([self._half(part, half)[0].take(records) for half in halves])[of_vector]
        return keys

    def costs(self, vector: int, records: Rows) -> Counts:
        """Return what the box of each of these records loses."""
        (_, costs), (_, other) = self._halves(vector)
        return costs.take(records).astype(np.int64) + other.take(records)

    def _halves(self, vector: int) -> tuple[tuple[Keys, Costs], tuple[Keys, Costs]]:
        one, other = self._vectors[vector]
        return self._half(0, one), self._half(1, other)

    def _half(self, part: int, half: Vector) -> tuple[Keys, Costs]:
        if (known := self._kept.get((part, half))) is not None:
            return known
        n = self._ranks.shape[1]
        keys, costs = np.zeros(n, np.int64), np.zeros(n, np.int32)
        for attribute, level in zip(self._attributes[part], half, strict=True):
            keys += self._keys[attribute][level].take(self._ranks[attribute])
            costs += self._costs[attribute][level].take(self._ranks[attribute])
        if len(self._kept) >= self._room:
            self._kept.pop(next(iter(self._kept)), None)  # the oldest
        self._kept[part, half] = keys, costs
        return keys, costs


def _balanced(n_levels: Sequence[int]) -> tuple[list[int], list[int]]:
    """Deal the attributes into two parts with about equally many vectors."""
    parts: tuple[list[int], list[int]] = ([], [])
    sizes = [1, 1]
    for attribute in sorted(range(len(n_levels)), key=lambda at: -n_levels[at]):
        smaller = int(sizes[1] < sizes[0])
        parts[smaller].append(attribute)
        sizes[smaller] *= n_levels[attribute]
    return parts
