"""Compact encoding of instructions: each carrier's child in as few bits as possible, then deflated.

Deflate's Huffman coding of packed bits comes close to the entropy of a split, and its runs to that of a lopsided one;
longer matches, which take it thirty times as long to find, save nothing more. A split whose bits do not shrink is sent
as plain bits. The first byte says which.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize import Children, child_numbers

_PLAIN, _DEFLATED = b"\0", b"\1"


def pack(children: Children, n_children: int) -> bytes:
    """Encode the children's numbers."""
    width = _bits(n_children)
    if width == 0:
        return _PLAIN
    wide = children.astype(np.uint32)
    bits = ((wide[:, None] >> np.arange(width - 1, -1, -1, dtype=np.uint32)) & 1).astype(np.uint8)
    plain = np.packbits(bits.ravel()).tobytes()
    tries = [_deflated(plain, strategy) for strategy in (zlib.Z_RLE, zlib.Z_HUFFMAN_ONLY)]
    return min([_PLAIN + plain, *(_DEFLATED + data for data in tries)], key=len)


def unpack(data: bytes, n_children: int, n_carriers: int) -> Children:
    """Decode the children's numbers from a peer's bytes; raise ValueError if they do not fit what was agreed."""
    width = _bits(n_children)
    size = (n_carriers * width + 7) // 8
    match data[:1]:
        case b"\0":
            plain = data[1:]
        case b"\1":
            try:  # at most one byte more than agreed, so that a small message cannot expand without limit
                plain = zlib.decompressobj(-15).decompress(data[1:], size + 1)
            except zlib.error:
                raise ValueError("broken compression") from None
        case _:
            raise ValueError("an unknown form of instruction")
    if len(plain) != size:
        raise ValueError(f"{len(plain)} bytes where {size} tell {n_carriers} records' children")
    bits = np.unpackbits(np.frombuffer(plain, np.uint8), count=n_carriers * width).reshape(n_carriers, width)
    numbers: NDArray[np.uint32] = np.zeros(n_carriers, np.uint32)
    for column in bits.T:
        numbers = (numbers << np.uint32(1)) | column
    if numbers.size and int(numbers.max()) >= n_children:
        raise ValueError(f"a record goes to child {int(numbers.max())} of {n_children}")
    return numbers.astype(child_numbers(n_children).dtype)


def _bits(n_children: int) -> int:
    return (n_children - 1).bit_length()


def _deflated(plain: bytes, strategy: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)
    return packer.compress(plain) + packer.flush()
