"""Bits packed into bytes, lowest first, and the transposition that OT extension relies on.

A vector of bits is uint8[n] of zeros and ones; packed, it is uint8[⌈n/8⌉], bit j in byte j // 8 at place j % 8.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import ArrayLike, NDArray

from masquerade.crypto.hashing import BLOCK_BYTES, derive_key
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
        raise ParameterError(f"bits must be a vector of 0 and 1. Got {array.dtype}{list(array.shape)} instead.")
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
        raise ParameterError(f"a transposition takes 128 vectors of 64·m bits. Got {list(columns.shape)} bytes.")
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


# --- bit matrix ---------------------------------------------------------------------------------------------
# Public matrices over bits, times packed columns: by tables of all sums of a few columns (the four
# Russians).

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


# --- column check -------------------------------------------------------------------------------------------
# Short linear digests of long columns of bits, by which one party shows another that its columns fit
# together.
#
#     digest(c) = GHASH under some keys = Σ cⱼ·Hᵏ⁻ʲ, in GF(2¹²⁸), for the 16-byte blocks cⱼ of the column
#
# The map is linear over bits: digest(a ⊕ b) = digest(a) ⊕ digest(b). A column that is fixed before the key
# is drawn, and not zero, has a digest of zero with a probability of at most k / 2¹²⁸ under each key, for k
# blocks. GHASH is computed by AES-GCM, which runs at the speed of memory: two tags under one key and nonce
# differ by the GHASH of the difference. These tags authenticate nothing; keys and digests are public.

Digests = NDArray[np.uint64]  # uint64[columns, 2 · keys]

KEYS = 3
DIGEST_BYTES = KEYS * BLOCK_BYTES
_NONCE = bytes(12)


def digests(columns: NDArray[np.uint8], seed: bytes, keys: int = KEYS) -> Digests:
    """Return the digest of each column (bytes, 16 divides their number) under the keys that a public seed gives."""
    count, width = columns.shape
    raw, nothing = np.ascontiguousarray(columns).data.cast("B"), bytes(width)
    starts = range(0, count * width, width)
    found = np.empty((count, keys, BLOCK_BYTES), np.uint8)
    for number in range(keys):
        tag = AESGCM(derive_key(seed, b"column-check", bytes([number]))).encrypt
        tags = b"".join([tag(_NONCE, b"", raw[at : at + width]) for at in starts])
        constant = np.frombuffer(tag(_NONCE, b"", nothing), np.uint8)
        found[:, number] = np.frombuffer(tags, np.uint8).reshape(count, BLOCK_BYTES) ^ constant
    return found.reshape(count, keys * BLOCK_BYTES).view(np.uint64)
