"""Lists of values of a pseudo-random function, as two parties compare them: long enough not to meet by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.hashing import Blocks
from masquerade.engine.counts import Rows

_STATISTICAL = 40  # bits: in one session of 2^40 two different identifiers have one value
_WORD = 8  # bytes
_STEP = 1 << 18  # values that are looked at together
_MOST_TIES = 3  # values of one list with the same first word that are looked for: more do not occur


def value_bytes(*sizes: int) -> int:
    """Return how many bytes of F two lists are compared by."""
    pairs = math.prod(max(size, 1) for size in sizes)
    return max(_WORD, -(-(_STATISTICAL + (pairs - 1).bit_length()) // 8))


@dataclass(frozen=True)
class Values:
    """The first bytes of F: a word, and the few bytes after it."""

    first: NDArray[np.uint64]
    second: NDArray[np.uint64]

    @classmethod
    def of(cls, found: Blocks, width: int) -> Values:
        """Cut F to `width` bytes; nothing is copied, so the array itself is cut."""
        found[:, 1] &= np.uint64((1 << 8 * (width - _WORD)) - 1)
        return cls(found[:, 0], found[:, 1])

    def __len__(self) -> int:
        return len(self.first)

    def take(self, order: Rows) -> Values:
        """Return the values at these places."""
        return Values(self.first[order], self.second[order])

    def order(self) -> Rows:
        """Return the places in ascending order of values."""
        order = np.argsort(self.first)
        ranked = self.first[order]
        return np.lexsort((self.second, self.first)) if (ranked[1:] == ranked[:-1]).any() else order

    def ascend(self) -> bool:
        """Return whether each value is larger than the one before it."""
        tied = self.first[1:] == self.first[:-1]
        return bool(
            np.where(tied, self.second[1:] > self.second[:-1], self.first[1:] > self.first[:-1]).all()
        )

    def packed(self, width: int) -> bytes:
        """Encode the values, `width` bytes each."""
        rows = np.empty((len(self), width), np.uint8)
        for start in range(0, len(self), _STEP):  # so that no further copy of the whole is made
            for words, to in ((self.first, slice(_WORD)), (self.second, slice(_WORD, width))):
                part = np.ascontiguousarray(words[start : start + _STEP]).view(np.uint8).reshape(-1, _WORD)
                rows[start : start + _STEP, to] = part[:, : rows[0, to].size]
        return rows.tobytes()

    @classmethod
    def unpacked(cls, data: bytes, width: int) -> Values:
        """Invert `packed`."""
        rows = np.zeros((len(data) // width, 2 * _WORD), np.uint8)
        rows[:, :width] = np.frombuffer(data, np.uint8).reshape(-1, width)
        words = rows.view(np.uint64)
        return cls(words[:, 0], words[:, 1])


def matched(own: Values, theirs: Values) -> tuple[Rows, Rows]:
    """Return the places of common values on both lists; `theirs` ascend, and so do their places."""
    if not len(theirs):
        return np.empty(0, np.intp), np.empty(0, np.intp)
    order = own.order()  # looked for in this order, neighbours are near each other
    row_of = np.full(len(theirs), -1, np.intp)
    words = np.ascontiguousarray(theirs.first)  # or every search would copy them
    for start in range(0, len(own), _STEP):
        rows = order[start : start + _STEP]
        part = own.take(rows)
        first = np.searchsorted(words, part.first)
        for tie in range(_MOST_TIES):
            at = np.minimum(first + tie, len(theirs) - 1)
            hit = np.flatnonzero((words[at] == part.first) & (theirs.second[at] == part.second))
            row_of[at[hit]] = rows[hit]
    places = np.flatnonzero(row_of >= 0)
    return row_of[places], places
