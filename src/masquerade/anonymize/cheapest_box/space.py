"""The distinct records of a table, and the boxes that a vector of levels cuts them into.

A box is a product of values, one for each attribute. Boxes are told apart by a 64-bit key: the sum, modulo 2^64, of a
pseudorandom number for each of its values. Two boxes with the same key would only be taken for one group, whose cells
are found from its records; that is never wrong, and as good as impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.cheapest_box.levels import Costs, Levels
from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.data.column import Coded
from masquerade.engine.counts import Counts, Rows, value_counts
from masquerade.engine.numbering import first_rows, group_rows

Keys = NDArray[np.int64]

_KEPT = 4 << 20  # keys and costs that are kept from one look at a vector to the next
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

    def only(self, kept: Rows) -> Records:
        """Return these records alone; rows keep the numbers they have."""
        return Records(
            self.ranks[:, kept],
            self.sizes[kept],
            tuple(each[kept] for each in self.counts),
            None if self.classes is None else self.classes[kept],
            self.of_row,
        )

    def of_records(self, some: Rows) -> Records:
        """Return just these, each in a row of its own."""
        counts = tuple(each[some] for each in self.counts)
        classes = None if self.classes is None else self.classes[some]
        return Records(self.ranks[:, some], self.sizes[some], counts, classes, np.arange(some.size))


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


class _Half(NamedTuple):
    """What a vector of levels of some attributes says of each record's box."""

    hashes: NDArray[np.uint16]  # the keys' last bits
    keys: Keys
    costs: Costs

    def of(self, records: Rows) -> _Half:
        """Return what it says of these records."""
        return _Half(self.hashes.take(records), self.keys.take(records), self.costs.take(records))


class Boxes:
    """Keys and costs of the boxes that hold each record, for each of the vectors that are searched.

    A vector is looked at in two halves, whose keys and costs add up: a few hundred halves make all vectors of a
    lattice of many thousands, so they are kept as long as there is room.
    """

    def __init__(self, levels: Sequence[Levels], records: Records, vectors: Counts) -> None:
        random = np.random.default_rng(_KEY_SEED)
        self._ranks = records.ranks
        self._keys = [
            random.integers(-(2**62), 2**62, int(each.nodes.max()) + 1)[each.nodes] for each in levels
        ]
        self._costs = [each.costs for each in levels]
        self._n_levels = np.array([each.n_levels for each in levels])
        self._attributes = _balanced(self._n_levels.tolist())
        self._halves = [_numbers(vectors[:, part], self._n_levels[part]) for part in self._attributes]
        least = [each.costs.min(axis=1).astype(np.int64) for each in levels]
        bounds = sum(costs[level] for costs, level in zip(least, vectors.T, strict=True))
        self.least_costs: list[int] = bounds.tolist()  # lower bounds on what any box of each vector loses
        self._kept: dict[tuple[int, int], _Half] = {}

    @property
    def n_vectors(self) -> int:
        """Number of vectors that are searched."""
        return len(self.least_costs)

    def hashes(self, vector: int, records: Rows, bits: int) -> NDArray[np.uint16]:
        """Return some bits of the key of the box of each of these records."""
        one, other = self._both(vector)
        hashes = one.hashes.take(records)
        hashes += other.hashes.take(records)
        hashes &= (1 << bits) - 1
        return hashes

    def all_hashes(self, vectors: Rows, records: Rows, bits: int) -> NDArray[np.uint16]:
        """Return such bits of several vectors' keys, vector × record."""
        hashes = np.zeros((vectors.size, records.size), np.uint16)
        for part in range(len(self._attributes)):
            halves: dict[int, int] = {}
            of_vector = [
                halves.setdefault(self._halves[part][vector], len(halves)) for vector in vectors.tolist()
            ]
            hashes += np.stack([self._half(part, half).hashes.take(records) for half in halves])[of_vector]
        hashes &= (1 << bits) - 1
        return hashes

    def keys(self, vector: int, records: Rows) -> Keys:
        """Return the key of the box of each of these records."""
        one, other = self._both(vector)
        return one.keys.take(records) + other.keys.take(records)

    def costs(self, vector: int, records: Rows) -> Counts:
        """Return what the box of each of these records loses."""
        one, other = self._both(vector)
        return one.costs.take(records).astype(np.int64) + other.costs.take(records)

    def keep_only(self, records: Rows) -> None:
        """Forget all other records; these are numbered anew, in this order."""
        self._ranks = self._ranks[:, records]
        self._kept = {at: half.of(records) for at, half in self._kept.items()}

    def _both(self, vector: int) -> tuple[_Half, _Half]:
        return self._half(0, self._halves[0][vector]), self._half(1, self._halves[1][vector])

    def _half(self, part: int, half: int) -> _Half:
        if (known := self._kept.get((part, half))) is not None:
            return known
        n = self._ranks.shape[1]
        keys, costs = np.zeros(n, np.int64), np.zeros(n, np.int32)
        attributes = self._attributes[part]
        for attribute, level in zip(attributes, _levels(half, self._n_levels[attributes]), strict=True):
            keys += self._keys[attribute][level].take(self._ranks[attribute])
            costs += self._costs[attribute][level].take(self._ranks[attribute])
        if len(self._kept) * n >= _KEPT:
            self._kept.pop(next(iter(self._kept)), None)  # the oldest
        made = self._kept[part, half] = _Half(keys.astype(np.uint16), keys, costs)
        return made


def _numbers(vectors: Counts, n_levels: Counts) -> list[int]:
    """Number vectors of levels."""
    if not n_levels.size:
        return [0] * len(vectors)
    numbers: list[int] = np.ravel_multi_index(tuple(vectors.T), tuple(n_levels)).tolist()
    return numbers


def _levels(number: int, n_levels: Counts) -> list[int]:
    """Return the vector with this number."""
    return [int(level) for level in np.unravel_index(number, tuple(n_levels))] if n_levels.size else []


def _balanced(n_levels: Sequence[int]) -> tuple[list[int], list[int]]:
    """Deal the attributes into two parts with about equally many vectors."""
    parts: tuple[list[int], list[int]] = ([], [])
    sizes = [1, 1]
    for attribute in sorted(range(len(n_levels)), key=lambda at: -n_levels[at]):
        smaller = int(sizes[1] < sizes[0])
        parts[smaller].append(attribute)
        sizes[smaller] *= n_levels[attribute]
    return parts
