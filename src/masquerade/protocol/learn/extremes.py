"""The largest of numbers that n sites have, one each, and nothing of the others; the smallest is that of negatives.

A knock-out tournament in a circuit on XOR shares (`protocol/collaborate/shared_bits.py`): 2·w·(n − 1) ANDs for numbers
of w digits. All sites learn the largest number, not whose it is; who has it knows that the others have none larger.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import words
from masquerade.crypto.bits import digits
from masquerade.crypto.circuit import Builder, Circuit
from masquerade.net.script import Script
from masquerade.protocol.collaborate.shared_bits import SharedBits

Numbers = NDArray[np.float64]

_SIGN = np.uint64(1 << 63)


def largest(shared: SharedBits, own: Numbers) -> Script[Numbers]:
    """Return the largest of all sites' numbers, entry by entry."""
    bits = np.ascontiguousarray(own, np.float64).view(np.uint64)
    # The order of floats is that of their bits, once negative ones are inverted and positive ones moved above them.
    ordered = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    found = yield from shared.evaluate(_largest_circuit(len(shared.parties)), digits(ordered, 64), "largest")
    places = np.arange(64, dtype=np.uint64)[:, None]
    whole = (found.astype(np.uint64) << places).sum(axis=0, dtype=np.uint64)
    numbers: Numbers = np.where(whole & _SIGN, whole & ~_SIGN, ~whole).view(np.float64)
    return numbers


def smallest(shared: SharedBits, own: Numbers) -> Script[Numbers]:
    """Return the smallest of all sites' numbers, entry by entry."""
    return -(yield from largest(shared, -own))


@lru_cache(maxsize=8)
def _largest_circuit(n_parties: int) -> Circuit:
    build = Builder()
    numbers = [build.input(f"provider {number}", 64) for number in range(n_parties)]
    build.output("largest", words.arg_max(build, numbers, shallow=True)[1])
    return build.build()
