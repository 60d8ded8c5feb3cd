"""Coalitions as bits: bit i of a mask stands for provider i. Masks are rows of 64-bit words, as many as needed.

What a coalition takes away is a sum of the members' rows of counts. Eight providers have 256 coalitions: their sums are
made once, and then a coalition of any size costs one look-up for each eight providers, some nanoseconds among many. For
sets of values the rows are bits too, and the sums are unions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.errors import ParameterError

Masks = NDArray[np.uint64]  # one row a coalition, one column for each 64 providers

_AT_A_TIME = 1 << 17  # coalitions in one block


def single(n: int) -> Masks:
    """The masks of the n providers, each alone."""
    words = max(-(-n // 64), 1)
    masks = np.zeros((n, words), np.uint64)
    providers = np.arange(n)
    masks[providers, providers // 64] = np.uint64(1) << (providers % 64).astype(np.uint64)
    return masks


def everybody(n: int) -> Masks:
    """The mask of all n providers, one row."""
    return np.bitwise_or.reduce(single(n), axis=0, keepdims=True)


def of_size(singles: Masks, size: int, at_a_time: int = _AT_A_TIME) -> Iterator[Masks]:
    """All coalitions of `size` of these providers, block by block, in lexicographic order.

    So with the most powerful providers first, powerful coalitions come first too.
    """
    if math.comb(len(singles), size) <= at_a_time or not 0 < size < len(singles):
        yield _all_of_size(singles, size)
        return
    for block in of_size(singles[1:], size - 1, at_a_time):
        yield block | singles[0]
    yield from of_size(singles[1:], size, at_a_time)


def _all_of_size(singles: Masks, size: int) -> Masks:
    """The same in one block: from the last provider on, those with it before those without."""
    n, words = singles.shape
    none = np.zeros((0, words), np.uint64)
    made = {0: np.zeros((1, words), np.uint64)}  # by size, of the providers from `first` on
    for first in range(n - 1, -1, -1):
        made = {
            wanted: np.concatenate([made.get(wanted - 1, none) | singles[first], made.get(wanted, none)])
            for wanted in range(max(size - first, 0), min(size, n - first) + 1)
        }
    return made.get(size, none)


def within(masks: Masks, other: Masks) -> NDArray[np.bool_]:
    """Which masks are sub-coalitions of the other."""
    inside: NDArray[np.bool_] = ((masks & ~other) == 0).all(axis=1)
    return inside


def octets(masks: Masks) -> NDArray[np.uint8]:
    """The masks byte by byte: column c holds the bits of the providers 8c to 8c + 7."""
    return np.ascontiguousarray(masks).astype("<u8", copy=False).view(np.uint8)


def bits(masks: Masks, n: int) -> NDArray[np.uint8]:
    """A 1 for each member: one row a coalition, one column a provider."""
    return np.unpackbits(octets(masks), axis=1, bitorder="little")[:, :n]


def members(mask: Masks, n: int) -> tuple[int, ...]:
    """The providers of one coalition."""
    return tuple(np.flatnonzero(bits(mask.reshape(1, -1), n)[0]).tolist())


def joined(singles: Masks, providers: Sequence[int]) -> Masks:
    """The mask of these providers, as a single row."""
    return np.bitwise_or.reduce(singles[np.asarray(providers, np.intp)], axis=0, keepdims=True)


class Sums:
    """The sum of the members' rows (numbers, or arrays of them), for many coalitions at once."""

    _join: ClassVar[np.ufunc] = np.add
    _kind: ClassVar[type[np.int64 | np.uint64]] = np.int64

    def __init__(self, rows: NDArray[Any]) -> None:
        self._tables = []
        for first in range(0, len(rows), 8):
            table = np.zeros((256, *rows.shape[1:]), self._kind)
            for bit, row in enumerate(rows[first : first + 8]):
                table[1 << bit : 2 << bit] = self._join(table[: 1 << bit], row)
            self._tables.append(table)

    def of(self, coalitions: Masks) -> NDArray[Any]:
        """One row a coalition."""
        columns = octets(coalitions).T
        total: NDArray[Any] = self._tables[0].take(columns[0], axis=0)
        for table, column in zip(self._tables[1:], columns[1:], strict=False):
            self._join(total, table.take(column, axis=0), out=total)
        return total


class Unions(Sums):
    """The union of the members' sets of values (at most 64), as bits."""

    _join, _kind = np.bitwise_or, np.uint64

    def __init__(self, present: NDArray[np.bool_]) -> None:
        weights = np.uint64(1) << np.arange(present.shape[1], dtype=np.uint64)
        super().__init__(np.where(present, weights, np.uint64(0)).sum(axis=1, dtype=np.uint64))


def popcount(sets: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The number of bits that are set."""
    if hasattr(np, "bitwise_count"):  # from numpy 2 on
        counted: NDArray[np.uint8] = np.bitwise_count(sets)
        return counted
    ones: NDArray[np.uint8] = np.unpackbits(sets[:, None].view(np.uint8), axis=1).sum(axis=1, dtype=np.uint8)
    return ones


# --- outcome ------------------------------------------------------------------------------------------------
# What a search for a coalition that breaches comes to, and how long it may take.

SEARCH_SECONDS = 60.0  # seconds of one core that a search may take


class TooManyCoalitions(ParameterError):
    """A search would have to look at more coalitions than fit into memory, or into `SEARCH_SECONDS`."""


@dataclass(frozen=True)
class MPrivacyOutcome:
    """Whether a group is m-private; if not, a coalition that breaches (() are outsiders); how many checks it took."""

    private: bool
    coalition: tuple[int, ...] | None
    checks: int


def first_breach(outcomes: Iterable[MPrivacyOutcome]) -> MPrivacyOutcome:
    """The first breach, with the checks made until then; nothing after it is looked at."""
    checks = 0
    for outcome in outcomes:
        checks += outcome.checks
        if not outcome.private:
            return MPrivacyOutcome(False, outcome.coalition, checks)
    return MPrivacyOutcome(True, None, checks)
