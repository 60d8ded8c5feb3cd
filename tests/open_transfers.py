"""Base oblivious transfers without public-key cryptography, for tests of what is built upon them.

Both sides derive both keys from the messages, which are as long as the real ones: nothing is oblivious, but each gets
the keys that are its own. The real ones take longer than the rest of a small session between parties; they have
tests of their own (tests/crypto), and run wherever messages are examined (tests/leakage) or programs work together.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.typing import ArrayLike

from masquerade.crypto import BLOCK_BYTES, Blocks, transfer_extension
from masquerade.crypto.base_transfer import POINT_BYTES
from masquerade.crypto.bits import as_bits
from masquerade.errors import BadMessage


def _keys(session: bytes, to_receiver: bytes, to_sender: bytes, count: int) -> Blocks:
    drawn = hashlib.shake_128(session + to_receiver + to_sender).digest(2 * count * BLOCK_BYTES)
    return np.frombuffer(drawn, np.uint64).reshape(count, 2, 2)


def _checked(message: bytes, points: int) -> bytes:
    if len(message) != POINT_BYTES * points:
        raise BadMessage(f"{points} points take {POINT_BYTES * points} bytes. Got {len(message)} instead.")
    return message


class OpenSender:
    """Gets both keys of every transfer."""

    def __init__(self, session: bytes, count: int) -> None:
        self._session, self._count, self._own = session, count, os.urandom(POINT_BYTES)

    def message(self) -> bytes:
        return self._own

    def receive(self, message: bytes) -> Blocks:
        return _keys(self._session, self._own, _checked(message, 2 * self._count), self._count)


class OpenReceiver:
    """Gets the key of its choice in every transfer."""

    def __init__(self, session: bytes, choices: ArrayLike) -> None:
        self._session, self._choices = session, as_bits(choices)
        self._own = os.urandom(2 * POINT_BYTES * len(self._choices))

    def message(self) -> bytes:
        return self._own

    def receive(self, message: bytes) -> Blocks:
        count = len(self._choices)
        keys = _keys(self._session, _checked(message, 1), self._own, count)
        return keys[np.arange(count), self._choices]


@contextmanager
def open_transfers() -> Iterator[None]:
    """Let sessions in this process begin with these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer_extension, "BaseSender", OpenSender)
        patch.setattr(transfer_extension, "BaseReceiver", OpenReceiver)
        yield
