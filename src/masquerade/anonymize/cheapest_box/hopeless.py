"""Vectors whose boxes are all too small, found many at a time: of a small table nearly all vectors are.

Records only leave, so such a vector stays hopeless. Looking for more of them is worth it as soon as the looks at single
vectors that found nothing have cost as much.
"""

from __future__ import annotations

import numpy as np

from masquerade.anonymize.cheapest_box.remaining import Remaining

_CELLS_A_LOOK = 1_000  # vectors × records that are swept in the time of one look
_AT_A_TIME = 1 << 18  # of those
_MOST_BITS = 10


class Hopeless:
    """The vectors that are known to have no box that is large enough."""

    def __init__(self, n_vectors: int) -> None:
        self._known = bytearray(n_vectors)
        self._looks = 0  # that found nothing, since the last sweep

    def __contains__(self, vector: int) -> bool:
        return bool(self._known[vector])

    def note(self, vector: int, remaining: Remaining) -> None:
        """A look at this vector found nothing among the records that are left."""
        self._known[vector] = 1
        self._looks += 1
        if self._looks * _CELLS_A_LOOK > len(self._known) * remaining.n_records:
            self._sweep(remaining)
            self._looks = 0

    def _sweep(self, remaining: Remaining) -> None:
        known = np.frombuffer(self._known, np.uint8)  # a view, into which is written
        hopeful = np.flatnonzero(known == 0)
        bits = min(_MOST_BITS, remaining.n_records.bit_length() + 2)
        step = max(1, _AT_A_TIME // max(remaining.n_records, 1))
        for start in range(0, hopeful.size, step):
            some = hopeful[start : start + step]
            known[some[remaining.small_throughout(some, bits)]] = 1
