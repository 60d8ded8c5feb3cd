"""A few oblivious transfers of random keys by public-key cryptography: the seeds of OT extension.

The sender ends with two random 16-byte keys for each transfer, the receiver with the one of its choice; the
sender does not learn which, and the receiver learns nothing about the other.

This is the Diffie–Hellman instance of Masny, Rindal, "Endemic Oblivious Transfer" (CCS 2019): the receiver
with choice c draws b and a random point R_{1−c}, and sets R_c = b·G − H_c(R_{1−c}); the sender takes
B_j = R_j + H_j(R_{1−j}) and the keys KDF(a·B_j), and sends A = a·G. Neither message depends on the other, so both
are sent at once: one round, 64 bytes per transfer one way and 32 bytes in total back. We do not use the better-known
"simplest" protocol of Chou and Orlandi, whose proof has gaps under composition.

The group is the prime-order subgroup of edwards25519 in libsodium. H is the sum of two Elligator maps, each
times the cofactor: one map alone is not uniform on the group. For the same reason R_{1−c} is a random multiple of G
and not an Elligator output; otherwise a receiver's two points would be distributed differently. About 0.3 ms per
transfer for each party.

What it does not protect against: a party that deviates may steer its own random keys ("endemic"); quantum
computers.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from nacl import bindings
from nacl.exceptions import CryptoError
from numpy.typing import ArrayLike

from masquerade.crypto import BadMessage
from masquerade.crypto.bits import as_bits
from masquerade.crypto.hashing import BLOCK_BYTES, Blocks
from masquerade.errors import ParameterError

POINT_BYTES = 32


class BaseSender:
    """Gets both keys of every transfer. `session` is the same text on both sides, unique to one run."""

    def __init__(self, session: bytes, count: int) -> None:
        self._session = session
        self._count = count
        self._secret: bytes | None = _random_scalar()
        self._public = bindings.crypto_scalarmult_ed25519_base_noclamp(self._secret)

    def message(self) -> bytes:
        """Return the message to the receiver: one point."""
        return self._public

    def receive(self, message: bytes) -> Blocks:
        """Return the keys, uint64[count, 2, 2]: for each transfer the key of choice 0, then that of choice 1."""
        if self._secret is None:
            raise ParameterError("these base transfers are done: every setup needs fresh ones")
        points = _points(message, 2 * self._count)
        secret, self._secret = self._secret, None
        keys = []
        for at in range(self._count):
            pair = points[2 * at], points[2 * at + 1]
            for choice in (0, 1):
                theirs = bindings.crypto_core_ed25519_add(
                    pair[choice], _hash_to_group(self._session, at, choice, pair[1 - choice])
                )
                keys.append(_key(self._session, at, choice, self._public, pair, _multiply(secret, theirs)))
        return np.frombuffer(b"".join(keys), np.uint64).reshape(self._count, 2, 2)


class BaseReceiver:
    """Gets the key of its choice in every transfer."""

    def __init__(self, session: bytes, choices: ArrayLike) -> None:
        self._session = session
        self._choices = [int(choice) for choice in as_bits(choices)]
        self._secrets = [_random_scalar() for _ in self._choices]
        self._pairs = [
            _pair(session, at, choice, secret)
            for at, (choice, secret) in enumerate(zip(self._choices, self._secrets, strict=True))
        ]
        self._done = False

    def message(self) -> bytes:
        """Return the message to the sender: two points per transfer, distributed the same for both choices."""
        return b"".join(first + second for first, second in self._pairs)

    def receive(self, message: bytes) -> Blocks:
        """Return the chosen keys, uint64[count, 2]."""
        if self._done:
            raise ParameterError("these base transfers are done: every setup needs fresh ones")
        (public,) = _points(message, 1)
        self._done = True
        keys = [
            _key(self._session, at, choice, public, pair, _multiply(secret, public))
            for at, (choice, secret, pair) in enumerate(
                zip(self._choices, self._secrets, self._pairs, strict=True)
            )
        ]
        return np.frombuffer(b"".join(keys), np.uint64).reshape(len(keys), 2)


def _pair(session: bytes, at: int, choice: int, secret: bytes) -> tuple[bytes, bytes]:
    other = bindings.crypto_scalarmult_ed25519_base_noclamp(_random_scalar())
    chosen = bindings.crypto_core_ed25519_sub(
        bindings.crypto_scalarmult_ed25519_base_noclamp(secret), _hash_to_group(session, at, choice, other)
    )
    return (other, chosen) if choice else (chosen, other)


def _hash_to_group(session: bytes, at: int, choice: int, point: bytes) -> bytes:
    label = b"masquerade/base-transfer/point/1\0" + _place(session, at, choice)
    digest = hashlib.sha512(label + point).digest()
    return bindings.crypto_core_ed25519_add(
        bindings.crypto_core_ed25519_from_uniform(digest[:POINT_BYTES]),
        bindings.crypto_core_ed25519_from_uniform(digest[POINT_BYTES:]),
    )


def _key(
    session: bytes, at: int, choice: int, public: bytes, pair: tuple[bytes, bytes], shared: bytes
) -> bytes:
    label = b"masquerade/base-transfer/key/1\0" + _place(session, at, choice)
    return hashlib.sha256(label + public + pair[0] + pair[1] + shared).digest()[:BLOCK_BYTES]


def _place(session: bytes, at: int, choice: int) -> bytes:
    return hashlib.sha256(session).digest() + at.to_bytes(4, "big") + bytes([choice])


def _points(message: bytes, count: int) -> list[bytes]:
    if len(message) != POINT_BYTES * count:
        raise BadMessage(f"{count} points take {POINT_BYTES * count} bytes. Got {len(message)} instead.")
    points = [message[at : at + POINT_BYTES] for at in range(0, len(message), POINT_BYTES)]
    for at, point in enumerate(points):
        # A point outside the prime-order group would reveal the secret's remainder modulo its small order.
        if not bindings.crypto_core_ed25519_is_valid_point(point):
            raise BadMessage(f"point {at} is no point of the prime-order group")
    return points


def _multiply(scalar: bytes, point: bytes) -> bytes:
    try:
        return bindings.crypto_scalarmult_ed25519_noclamp(scalar, point)
    except (CryptoError, RuntimeError):
        raise BadMessage("a point's multiple is no point of the prime-order group") from None


def _random_scalar() -> bytes:
    return bindings.crypto_core_ed25519_scalar_reduce(os.urandom(64))
