"""Millions of oblivious transfers from 128, with 4 bytes each: SoftSpokenOT (Roy, CRYPTO 2022), semi-honest.

The sender has a secret Δ of 128 digits, four at a time: δ. For each δ both have sixteen streams G_x but for one, G_δ,
which the sender lacks (`column_seeds`).

    receiver (choices r): u = ⊕ₓ G_x,  v = ⊕ₓ x·G_x,  sends c = u ⊕ r          v has four columns, one a digit of x
    sender:               w = ⊕ₓ (x ⊕ δ)·G_x = v ⊕ δ·u,  q = w ⊕ δ·c = v ⊕ δ·r;   by rows: q_j = v_j ⊕ r_j·Δ

With one digit at a time this is the extension of Ishai, Kilian, Nissim, Petrank (CRYPTO 2003), at four times the bytes.

The parties run the base transfers once with exchanged roles (`setup`, `finish_setup`; both messages may be sent at
once). Then every `extend` is one message from the receiver, in the order of its calls, and yields a batch
(`transfer_batches`) that becomes random, correlated or chosen transfers. The first one brings the sums of the trees
that the streams' seeds are leaves of, 4 kB more.

One setup serves one direction of one session: `session` is a text that names the session, the sender and the
receiver, the same on both sides. Columns are read from their streams once, so a batch can neither be replayed
nor repeated.

Semi-honest: a receiver that sends inconsistent columns, or sums that do not fit its trees, could learn bits of Δ (the
paper checks for that; we do not). Random-oracle-like use of the hash is the correlation robustness of `hashing`.
"""

from __future__ import annotations

import os
import struct

import numpy as np
from numpy.typing import ArrayLike, NDArray

from masquerade.crypto import BadMessage
from masquerade.crypto.base_transfer import BaseReceiver, BaseSender
from masquerade.crypto.bits import WIDTH, Bits, as_bits, pack, transpose
from masquerade.crypto.column_seeds import (
    DIGITS,
    LEAVES,
    SUMS_BYTES,
    TREES,
    grow,
    open_all_but_one,
)
from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, Bytes, TweakCounter, TweakedHash, derive_key
from masquerade.crypto.seed_streams import SeedStreams
from masquerade.crypto.transfer_batches import ReceivedBatch, SentBatch
from masquerade.errors import ParameterError

_HEADER = struct.Struct("<QQ")  # number of the first transfer, how many
_CHUNK = 1 << 13  # transfers at a time: 1 kB of each stream, 512 kB of all


class TransferSender:
    """Offers two values in each transfer and does not learn which one was taken."""

    def __init__(self, session: bytes) -> None:
        secret = np.frombuffer(os.urandom(WIDTH // 8), np.uint8).copy()
        secret[0] |= 1  # as in a difference of labels, which it may serve as
        self._secret = secret.view(np.uint64)
        self._digits = np.unpackbits(secret, bitorder="little")
        self._hash = TweakedHash(derive_key(session, b"transfer-hash"))
        self._trees = TweakedHash(derive_key(session, b"transfer-trees"))
        self._base = BaseReceiver(session, self._digits)
        self._keys: Blocks | None = None
        self._stream_key = derive_key(session, b"transfer-streams")
        self._streams: SeedStreams | None = None
        self._indices = TweakCounter()

    @property
    def secret(self) -> Blocks:
        """The secret Δ, by which the rows of the two sides differ where a choice is 1. Its lowest bit is 1."""
        return self._secret

    def setup(self) -> bytes:
        """Return our message of the base transfers."""
        return self._base.message()

    def finish_setup(self, message: bytes) -> None:
        """Take the receiver's message of the base transfers."""
        self._keys = self._base.receive(message)

    def extend(self, message: bytes, count: int) -> SentBatch:
        """Return the sender's side of `count` transfers, from the receiver's message."""
        if self._keys is None:
            raise _not_set_up()
        is_first = self._streams is None
        first = _first(message, count, self._indices, is_first=is_first)
        at = _HEADER.size
        if self._streams is None:
            sums = message[at : at + SUMS_BYTES]
            leaves = open_all_but_one(self._trees, self._keys, self._digits, sums)
            self._streams = SeedStreams(self._stream_key, leaves[:, 1:].reshape(-1, 2))
            at += SUMS_BYTES
        rows: Blocks = np.empty((count, 2), np.uint64)
        chosen = (np.uint8(0) - self._digits).reshape(TREES, DIGITS, 1)
        for done in range(0, count, _CHUNK):
            size = min(_CHUNK, count - done)
            width = _column_bytes(size)
            _, columns = _weighted(self._streams.read(width).reshape(TREES, LEAVES - 1, -1))
            told = np.frombuffer(message, np.uint8, TREES * width, at).reshape(TREES, 1, width)
            columns ^= told & chosen
            rows[done : done + size] = transpose(columns.reshape(WIDTH, width))[:size]
            at += TREES * width
        return SentBatch(self._hash, first, rows, self._secret)


class TransferReceiver:
    """Takes one of two values in each transfer and learns nothing about the other."""

    def __init__(self, session: bytes) -> None:
        self._hash = TweakedHash(derive_key(session, b"transfer-hash"))
        self._trees = TweakedHash(derive_key(session, b"transfer-trees"))
        self._base = BaseSender(session, WIDTH)
        self._stream_key = derive_key(session, b"transfer-streams")
        self._streams: SeedStreams | None = None
        self._sums = b""  # until they are sent
        self._indices = TweakCounter()

    def setup(self) -> bytes:
        """Return our message of the base transfers."""
        return self._base.message()

    def finish_setup(self, message: bytes) -> None:
        """Take the sender's message of the base transfers."""
        leaves, self._sums = grow(self._trees, self._base.receive(message))
        self._streams = SeedStreams(self._stream_key, leaves.reshape(-1, 2))

    def extend(self, choices: ArrayLike) -> tuple[bytes, ReceivedBatch]:
        """Return the message for the sender, and the receiver's side of one transfer per choice."""
        if self._streams is None:
            raise _not_set_up()
        bits = as_bits(choices)
        count = len(bits)
        first = self._indices.take(count)
        rows: Blocks = np.empty((count, 2), np.uint64)
        parts: list[bytes] = [_HEADER.pack(first, count), self._sums]
        self._sums = b""
        for done in range(0, count, _CHUNK):
            size = min(_CHUNK, count - done)
            width = _column_bytes(size)
            total, columns = _weighted(self._streams.read(width).reshape(TREES, LEAVES, -1))
            rows[done : done + size] = transpose(columns.reshape(WIDTH, width))[:size]
            total ^= _padded(bits[done : done + size], width)
            parts.append(total.tobytes())
        return b"".join(parts), ReceivedBatch(self._hash, first, rows, bits)


def message_bytes(count: int, *, is_first: bool = False) -> int:
    """Return the length of the receiver's message for `count` transfers; the first one is longer."""
    whole, rest = divmod(count, _CHUNK)
    columns = TREES * (whole * _column_bytes(_CHUNK) + _column_bytes(rest))
    return _HEADER.size + columns + (SUMS_BYTES if is_first else 0)


def _first(message: bytes, count: int, indices: TweakCounter, *, is_first: bool) -> int:
    expected, size = indices.take(0), message_bytes(max(count, 0), is_first=is_first)
    first, announced = _HEADER.unpack_from(message) if len(message) >= _HEADER.size else (expected, count)
    if first == expected and (count < 0 or len(message) != size):
        raise BadMessage(f"{count} transfers take a message of {size} bytes. Got {len(message)}.")
    if (first, announced) != (expected, count):
        raise BadMessage(
            f"the transfers {expected} to {expected + count - 1} come next. Got {announced} from {first} instead."
        )
    return indices.take(count)


def _column_bytes(count: int) -> int:
    return BLOCK_BYTES * -(-count // (8 * BLOCK_BYTES))


def _padded(bits: Bits, width: int) -> Bytes:
    packed = np.zeros(width, np.uint8)
    packed[: -(-len(bits) // 8)] = pack(bits)
    return packed


def _weighted(leaves: NDArray[np.uint64]) -> tuple[Bytes, Bytes]:
    """Return the sum of each tree's leaves, and for each digit the sum of those whose number has it.

    Of a tree with one leaf less, number 0 is lacking, and the first of the two means nothing.
    """
    columns = np.empty((TREES, DIGITS, leaves.shape[2]), np.uint64)
    lacking = LEAVES - leaves.shape[1]
    for digit in reversed(range(DIGITS)):
        half = 1 << digit
        low, high = leaves[:, : half - lacking], leaves[:, half - lacking : 2 * half - lacking]
        np.bitwise_xor.reduce(high, axis=1, out=columns[:, digit])
        low ^= high[:, lacking:]
    total = leaves[:, 0].copy()
    return total.view(np.uint8), columns.view(np.uint8)


def _not_set_up() -> ParameterError:
    return ParameterError("the transfers are not set up: exchange the setup messages first")
