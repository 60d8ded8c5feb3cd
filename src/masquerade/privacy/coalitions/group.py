"""One group of records by provider, and the test of many coalitions at once.

What a coalition leaves is a sum of rows of the providers × values counts. Eight providers have 256 coalitions: their
sums are made once, and then a coalition of any size costs one look-up for each eight providers, some nanoseconds
among many. For distinct ℓ-diversity the rows are bit sets of values and the sums are unions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.coalitions.constraint import Constraint
from masquerade.privacy.coalitions.masks import Masks, octets, single
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity

_CELLS = 1 << 22  # counts that are summed at a time
_WORD = 64


class Group:
    """The counts of one group: for each constraint a matrix of providers × values.

    `providers` are the rows of the given matrices that have records; coalitions are made of those, numbered 0, 1, …
    """

    def __init__(self, constraints: Sequence[Constraint], matrices: Sequence[Counts]) -> None:
        sizes = matrices[0].sum(axis=1)
        self.providers = np.flatnonzero(sizes)
        self.sizes: Counts = sizes[self.providers]
        self.constraints = tuple(constraints)
        self.matrices = tuple(matrix[self.providers] for matrix in matrices)
        self.n = int(self.providers.size)

    def power(self, m: int) -> int:
        """How large a coalition can be: a coalition attacks somebody else's records, so one provider is left."""
        return max(min(m, self.n - 1), 0)

    @cached_property
    def singles(self) -> Masks:
        """The mask of each provider alone."""
        return single(self.n)

    @cached_property
    def everybody(self) -> Masks:
        """The mask of all providers, one row."""
        return np.bitwise_or.reduce(self.singles, axis=0, keepdims=True)

    def breached(self, coalitions: Masks) -> NDArray[np.bool_]:
        """Which coalitions breach: they can leave records, not theirs alone, that violate a constraint."""
        bad = np.zeros(len(coalitions), bool)
        for test in self._tests:
            bad |= test(coalitions)
        return bad

    @cached_property
    def _tests(self) -> list[Callable[[Masks], NDArray[np.bool_]]]:
        return [
            self._test_of(constraint, matrix)
            for constraint, matrix in zip(self.constraints, self.matrices, strict=True)
        ]

    def _test_of(self, constraint: Constraint, matrix: Counts) -> Callable[[Masks], NDArray[np.bool_]]:
        part = constraint.part
        if isinstance(part, KAnonymity):
            k, sizes = part.k, _Sums(self.sizes)
            all_records = int(self.sizes.sum())
            return lambda coalitions: all_records - sizes.of(coalitions) < k
        present = matrix > 0
        used = present.any(axis=0)
        if isinstance(part, LDiversity) and np.count_nonzero(used) <= _WORD:
            least, values = part.l, _Unions(present[:, used])
            return lambda coalitions: popcount(values.of(coalitions ^ self.everybody)) < least
        total, removed = matrix.sum(axis=0, keepdims=True), _Sums(matrix)

        def test(coalitions: Masks) -> NDArray[np.bool_]:
            step = max(_CELLS // matrix.shape[1], 1)
            blocks = (coalitions[first : first + step] for first in range(0, len(coalitions), step))
            good = [constraint.holds(total - removed.of(block), total) for block in blocks]
            return ~np.concatenate([*good, np.zeros(0, bool)])

        return test


class _Sums:
    """The sum of the members' rows (numbers, or arrays of them), for many coalitions at once."""

    def __init__(self, rows: Counts) -> None:
        n = len(rows)
        self._tables = []
        for first in range(0, n, 8):
            table = np.zeros((256, *rows.shape[1:]), np.int64)
            for bit, row in enumerate(rows[first : first + 8]):
                table[1 << bit : 2 << bit] = table[: 1 << bit] + row
            self._tables.append(table)

    def of(self, coalitions: Masks) -> Counts:
        columns = octets(coalitions).T
        total: Counts = self._tables[0].take(columns[0], axis=0)
        for table, column in zip(self._tables[1:], columns[1:], strict=False):
            total += table.take(column, axis=0)
        return total


class _Unions:
    """The union of the members' sets of values (at most 64), for many coalitions at once."""

    def __init__(self, present: NDArray[np.bool_]) -> None:
        self._tables = []
        weights = np.uint64(1) << np.arange(present.shape[1], dtype=np.uint64)
        sets = np.where(present, weights, np.uint64(0)).sum(axis=1, dtype=np.uint64)
        for first in range(0, len(sets), 8):
            table = np.zeros(256, np.uint64)
            for bit, each in enumerate(sets[first : first + 8]):
                table[1 << bit : 2 << bit] = table[: 1 << bit] | each
            self._tables.append(table)

    def of(self, coalitions: Masks) -> NDArray[np.uint64]:
        columns = octets(coalitions).T
        union: NDArray[np.uint64] = self._tables[0].take(columns[0])
        for table, column in zip(self._tables[1:], columns[1:], strict=False):
            union |= table.take(column)
        return union


def popcount(sets: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """How many bits are set."""
    if hasattr(np, "bitwise_count"):  # from numpy 2 on
        counted: NDArray[np.uint8] = np.bitwise_count(sets)
        return counted
    ones: NDArray[np.uint8] = np.unpackbits(sets[:, None].view(np.uint8), axis=1).sum(axis=1, dtype=np.uint8)
    return ones
