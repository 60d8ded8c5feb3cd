"""Vectors whose boxes are all too small, found many at a time: of a small table nearly all vectors are.

Records only leave, so such a vector stays hopeless. Looking for more of them is worth it as soon as the looks at single
vectors that found nothing have cost as much.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.cheapest_box.space import Boxes, Keys, Records
from masquerade.engine.counts import Counts, Flags, Rows, weighted_counts

_CELLS_A_LOOK = 400  # vectors × records that are swept in the time of one look
_AT_A_TIME = 1 << 18  # of those
_MOST_BITS = 10


class Hopeless:
    """The vectors that are known to have no box of at least `least` rows."""

    def __init__(self, records: Records, boxes: Boxes, least: int) -> None:
        self._records, self._boxes, self._least = records, boxes, least
        self._known = bytearray(boxes.n_vectors)
        self._looks = 0  # that found nothing, since the last sweep

    def __contains__(self, vector: int) -> bool:
        return bool(self._known[vector])

    def note(self, vector: int, left: Rows) -> None:
        """A look at this vector found nothing."""
        self._known[vector] = 1
        self._looks += 1
        if self._looks * _CELLS_A_LOOK > self._boxes.n_vectors * left.size:
            self._sweep(left)
            self._looks = 0

    def _sweep(self, left: Rows) -> None:
        known = np.frombuffer(self._known, np.uint8)  # a view, into which is written
        hopeful = np.flatnonzero(known == 0)
        sizes = self._records.sizes.take(left)
        bits = min(_MOST_BITS, left.size.bit_length() + 2)
        step = max(1, _AT_A_TIME // max(left.size, 1))
        for start in range(0, hopeful.size, step):
            some = hopeful[start : start + step]
            known[some[_all_small(self._boxes.all_keys(some, left), sizes, bits, self._least)]] = 1


def _all_small(keys: Keys, sizes: Counts, bits: int, least: int) -> Flags:
    """Return which rows of keys, one a vector, have no key with at least `least` rows, by short hashes of the keys."""
    n_vectors = keys.shape[0]
    short = (keys & ((1 << bits) - 1)) + (np.arange(n_vectors) << bits)[:, None]
    together = weighted_counts(short.ravel(), np.tile(sizes, n_vectors), n_vectors << bits)
    small: NDArray[np.bool_] = together.reshape(n_vectors, 1 << bits).max(axis=1) < least
    return small
