"""Millions of oblivious transfers from 128: the extension of Ishai, Kilian, Nissim, Petrank (CRYPTO 2003).

    receiver (choices r): t_i = G(k_i⁰),  u_i = t_i ⊕ G(k_i¹) ⊕ r            for the columns i = 1 … 128
    sender   (secret s):  q_i = s_i·u_i ⊕ G(k_i^{s_i}) = t_i ⊕ s_i·r;   by rows: q_j = t_j ⊕ r_j·s

The parties run the base transfers once with exchanged roles (`setup`, `finish_setup`; both messages may be sent at
once). Then every `extend` is one message from the receiver, 16 bytes per transfer, in the order of its calls, and
yields a batch (`transfer_batches`) that becomes random, correlated or chosen transfers.

One setup serves one direction of one session: `session` is a text that names the session, the sender and the
receiver, the same on both sides. Columns are read from their streams once, so a batch can neither be replayed
nor repeated.

Semi-honest: a receiver that sends inconsistent columns could learn bits of s (KOS 2015 checks for that; we do
not). Random-oracle-like use of the hash is the correlation robustness of `hashing`.
"""

from __future__ import annotations

import os
import struct

import numpy as np
from numpy.typing import ArrayLike, NDArray

from masquerade.crypto import BadMessage
from masquerade.crypto.base_transfer import BaseReceiver, BaseSender
from masquerade.crypto.bits import WIDTH, Bits, as_bits, pack, transpose
from masquerade.crypto.hashing import Blocks, Bytes, Stream, TweakCounter, TweakedHash, derive_key
from masquerade.crypto.transfer_batches import ReceivedBatch, SentBatch
from masquerade.errors import ParameterError

_HEADER = struct.Struct("<QQ")  # number of the first transfer, how many
_CHUNK = 1 << 16  # transfers at a time: 8 kB of each column


class TransferSender:
    """Offers two values in each transfer and does not learn which one was taken."""

    def __init__(self, session: bytes) -> None:
        secret = np.frombuffer(os.urandom(WIDTH // 8), np.uint8)
        self._secret = secret.view(np.uint64)
        self._digits = np.unpackbits(secret, bitorder="little")
        self._hash = TweakedHash(derive_key(session, b"transfer-hash"))
        self._base = BaseReceiver(session, self._digits)
        self._columns: list[Stream] = []
        self._indices = TweakCounter()

    def setup(self) -> bytes:
        """Return our message of the base transfers."""
        return self._base.message()

    def finish_setup(self, message: bytes) -> None:
        """Take the receiver's message of the base transfers."""
        self._columns = [Stream(key.tobytes()) for key in self._base.receive(message)]

    def extend(self, message: bytes, count: int) -> SentBatch:
        """Return the sender's side of `count` transfers, from the receiver's message."""
        _must_be_set_up(self._columns)
        first = _first(message, count, self._indices)
        rows: Blocks = np.empty((count, 2), np.uint64)
        at = _HEADER.size
        mask = (np.uint8(0) - self._digits)[:, None]
        for done in range(0, count, _CHUNK):
            size = min(_CHUNK, count - done)
            width = _column_bytes(size)
            columns = _read(self._columns, width)
            columns ^= np.frombuffer(message, np.uint8, WIDTH * width, at).reshape(WIDTH, width) & mask
            rows[done : done + size] = transpose(columns)[:size]
            at += WIDTH * width
        return SentBatch(self._hash, first, rows, self._secret)


class TransferReceiver:
    """Takes one of two values in each transfer and learns nothing about the other."""

    def __init__(self, session: bytes) -> None:
        self._hash = TweakedHash(derive_key(session, b"transfer-hash"))
        self._base = BaseSender(session, WIDTH)
        self._zeros: list[Stream] = []
        self._ones: list[Stream] = []
        self._indices = TweakCounter()

    def setup(self) -> bytes:
        """Return our message of the base transfers."""
        return self._base.message()

    def finish_setup(self, message: bytes) -> None:
        """Take the sender's message of the base transfers."""
        keys = self._base.receive(message)
        self._zeros = [Stream(pair[0].tobytes()) for pair in keys]
        self._ones = [Stream(pair[1].tobytes()) for pair in keys]

    def extend(self, choices: ArrayLike) -> tuple[bytes, ReceivedBatch]:
        """Return the message for the sender, and the receiver's side of one transfer per choice."""
        _must_be_set_up(self._zeros)
        bits = as_bits(choices)
        count = len(bits)
        first = self._indices.take(count)
        rows: Blocks = np.empty((count, 2), np.uint64)
        parts: list[bytes] = [_HEADER.pack(first, count)]
        for done in range(0, count, _CHUNK):
            size = min(_CHUNK, count - done)
            width = _column_bytes(size)
            zeros = _read(self._zeros, width)
            rows[done : done + size] = transpose(zeros)[:size]
            zeros ^= _read(self._ones, width)
            zeros ^= _padded(bits[done : done + size], width)
            parts.append(zeros.tobytes())
        return b"".join(parts), ReceivedBatch(self._hash, first, rows, bits)


def message_bytes(count: int) -> int:
    """Return the length of the receiver's message for `count` transfers."""
    whole, rest = divmod(count, _CHUNK)
    return _HEADER.size + WIDTH * (whole * _column_bytes(_CHUNK) + _column_bytes(rest))


def _first(message: bytes, count: int, indices: TweakCounter) -> int:
    if count < 0 or len(message) != message_bytes(count):
        raise BadMessage(
            f"{count} transfers take a message of {message_bytes(max(count, 0))} bytes. Got {len(message)}."
        )
    first, announced = _HEADER.unpack_from(message)
    expected = indices.take(0)
    if (first, announced) != (expected, count):
        raise BadMessage(
            f"the transfers {expected} to {expected + count - 1} come next. Got {announced} from {first} instead."
        )
    return indices.take(count)


def _column_bytes(count: int) -> int:
    return 8 * -(-count // 64)


def _padded(bits: Bits, width: int) -> Bytes:
    packed = np.zeros(width, np.uint8)
    packed[: -(-len(bits) // 8)] = pack(bits)
    return packed


def _read(streams: list[Stream], width: int) -> NDArray[np.uint8]:
    columns = np.empty((WIDTH, width), np.uint8)
    for column, stream in zip(columns, streams, strict=True):
        column[:] = stream.read(width)
    return columns


def _must_be_set_up(streams: list[Stream]) -> None:
    if not streams:
        raise ParameterError("the transfers are not set up: exchange the setup messages first")
