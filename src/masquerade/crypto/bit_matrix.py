"""Public matrices over bits, times packed columns: by tables of all sums of a few columns (the four Russians)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import Bits

Columns = NDArray[np.uint64]  # uint64[columns, words]: each column packed, lowest bit first


class BitMatrix:
    """Rows × columns of bits; `group` columns share a table of 2^group sums."""

    def __init__(self, bits: Bits, group: int) -> None:
        self.bits = bits
        self._group = group
        self._parts = []
        for first in range(0, bits.shape[1], group):
            part = bits[:, first : first + group].astype(np.intp)
            self._parts.append((first, part.shape[1], part @ (1 << np.arange(part.shape[1]))))

    def times(self, columns: Columns) -> Columns:
        """Return the product with columns of bits, uint64[rows, words]."""
        words = columns.shape[1]
        out = np.zeros((self.bits.shape[0], words), np.uint64)
        picked = np.empty_like(out)
        sums = np.zeros((1 << self._group, words), np.uint64)
        for first, size, numbers in self._parts:
            for bit in range(size):
                np.bitwise_xor(sums[: 1 << bit], columns[first + bit], out=sums[1 << bit : 2 << bit])
            np.take(sums, numbers, axis=0, out=picked, mode="clip")
            out ^= picked
        return out


def rank(bits: Bits) -> int:
    """Return the rank of a matrix of bits."""
    left = [int("".join(map(str, row)), 2) for row in bits.tolist() if any(row)]
    found = 0
    while left:
        pivot = max(left)
        top = pivot.bit_length() - 1
        left = [each for row in left if (each := row ^ pivot if row >> top & 1 else row)]
        found += 1
    return found


def bit_columns(words: NDArray[np.uint64]) -> Columns:
    """Return the 64 columns of bits of n words (64 divides n), uint64[64, n / 64]: column i has bit i of each."""
    octets = np.ascontiguousarray(words.view(np.uint8).reshape(-1, 8).T)  # octets[i]: byte i of each word
    squares = octets.view(np.uint64)  # eight words' bytes: a square of 8 × 8 bits, to be transposed
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        change = (squares ^ (squares >> np.uint64(shift))) & np.uint64(mask)
        squares ^= change
        squares ^= change << np.uint64(shift)
    by_bit = squares.view(np.uint8).reshape(8, -1, 8).transpose(0, 2, 1)
    return np.ascontiguousarray(by_bit).reshape(64, -1).view(np.uint64)
