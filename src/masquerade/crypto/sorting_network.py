"""Batcher's merge exchange (Knuth, *Sorting and Searching*, Algorithm 5.2.2M): sorts any number of keys.

Which places are compared depends on the number of keys alone, so that the comparisons can be made on shares. Layers:
about (log₂ n)² / 2; comparators: about n·(log₂ n)² / 4.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.engine.counts import Rows


def layers(n: int) -> Iterator[tuple[Rows, Rows]]:
    """Yield the places that each layer compares: after it the smaller key is at the first of two, all disjoint."""
    if n < 2:
        return
    top = 1 << ((n - 1).bit_length() - 1)
    stride = top
    while stride:
        step, phase, distance = top, 0, stride
        while True:
            low = np.arange(n - distance)
            low = low[(low & stride) == phase]
            yield low, low + distance
            if step == stride:
                break
            distance, step, phase = step - stride, step >> 1, stride
        stride >>= 1
