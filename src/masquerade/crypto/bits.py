"""Bits packed into bytes, lowest first, and the transposition that OT extension relies on.

A vector of bits is uint8[n] of zeros and ones; packed, it is uint8[⌈n/8⌉], bit j in byte j // 8 at place j % 8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from masquerade.errors import ParameterError

Bits = NDArray[np.uint8]  # zeros and ones
Packed = NDArray[np.uint8]

WIDTH = 128
_SLICE = 128  # words of each vector at a time: 128 kB stay in the cache
_EXCHANGES = (
    (32, 0x00000000FFFFFFFF),
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)


def as_bits(values: ArrayLike) -> Bits:
    """Convert an array of zeros and ones to uint8; any other value is an error."""
    array = np.asarray(values)
    if array.shape == (0,):  # numpy makes an empty list an array of floats
        return np.zeros(0, np.uint8)
    if array.ndim != 1 or not (array.dtype == bool or np.issubdtype(array.dtype, np.integer)):
        raise ParameterError(
            f"bits must be a vector of 0 and 1. Got {array.dtype}{list(array.shape)} instead."
        )
    if array.size and (array.min() < 0 or array.max() > 1):
        raise ParameterError("bits must be 0 or 1")
    return array.astype(np.uint8)


def pack(bits: Bits) -> Packed:
    """Pack eight bits per byte; the last byte is padded with zeros."""
    return np.packbits(bits, bitorder="little")


def unpack(packed: Packed, count: int) -> Bits:
    """Return the first `count` bits."""
    if count < 0 or len(packed) != -(-count // 8):
        raise ParameterError(f"{count} bits take {-(-count // 8)} bytes. Got {len(packed)} instead.")
    return np.unpackbits(packed, count=count, bitorder="little")


def digits(values: NDArray[np.uint64], count: int) -> Bits:
    """Return the lowest `count` bits of each number: row i holds bit i of all of them."""
    places = np.arange(count, dtype=np.uint64)[:, None]
    return ((values[None, :] >> places) & np.uint64(1)).astype(np.uint8)


def transpose(columns: Packed) -> NDArray[np.uint64]:
    """Transpose 128 packed vectors of n bits (64 divides n): bit i of block j is bit j of vector i."""
    if columns.ndim != 2 or columns.shape[0] != WIDTH or columns.shape[1] % 8:
        raise ParameterError(
            f"a transposition takes 128 vectors of 64·m bits. Got {list(columns.shape)} bytes."
        )
    size = columns.shape[1] // 8
    out = np.empty((size, 64, WIDTH // 64), np.uint64)
    words = columns.view(np.uint64)
    for at in range(0, size, _SLICE):
        _transpose_slice(words[:, at : at + _SLICE], out[at : at + _SLICE])
    return out.reshape(64 * size, WIDTH // 64)


def _transpose_slice(columns: NDArray[np.uint64], out: NDArray[np.uint64]) -> None:
    # Exchanges between rows that are 32, 16, … 1 apart transpose every 64×64 square of bits, 64 bits per step; then
    # whole words move to their places.
    words = columns.copy()
    for step, mask in _EXCHANGES:
        pairs = words.reshape(-1, 2, step, words.shape[1])
        upper, lower = pairs[:, 0], pairs[:, 1]
        change = upper >> np.uint64(step)
        change ^= lower
        change &= np.uint64(mask)
        lower ^= change
        change <<= np.uint64(step)
        upper ^= change
    out[:] = words.reshape(WIDTH // 64, 64, -1).transpose(2, 1, 0)


def choose(bits: Bits, ones: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the rows of `ones` where the bit is 1, zeros elsewhere, without branching on the bit."""
    mask = np.uint64(0) - bits.astype(np.uint64)
    return ones & mask.reshape(-1, *(1,) * (ones.ndim - 1))
