"""A few oblivious transfers of random keys by public-key cryptography: the seeds of OT extension.

The sender ends with two random 16-byte keys for each transfer, the receiver with the one of its choice; the
sender does not learn which, and the receiver learns nothing about the other.

This is the Diffie–Hellman instance of Masny, Rindal, "Endemic Oblivious Transfer" (CCS 2019): the receiver
with choice c draws b and a random point R_{1−c}, and sets R_c = b·G − H_c(R_{1−c}); the sender takes
B_j = R_j + H_j(R_{1−j}) and the keys KDF(a·B_j), and sends A = a·G. Neither message depends on the other, so both
are sent at once: one round, 64 bytes per transfer one way and 32 bytes in total back. We do not use the better-known
"simplest" protocol of Chou and Orlandi, whose proof has gaps under composition.

The group is the prime-order subgroup of edwards25519 in libsodium. H is an Elligator map times the cofactor. It reaches
half of the group, each point by as many texts on average as any other, which is enough: R_c is uniform whatever H is,
and the proof sets H_{1−c}(R_c) to a random multiple of its challenge minus R_{1−c}, of which it draws another until the
map reaches it. (R_{1−c} itself is a random multiple of G: a receiver's two points must be distributed alike.)

Keys are taken from the u-coordinates of the shared points on curve25519, whose multiplication takes a third of the time
(`_ladder`); a point is as hard to find up to its sign. About 0.15 ms per transfer for the sender, 0.1 for the receiver.

Points off the curve are refused. One that is a good point plus one of small order gives its sender the key of the good
point: secrets are read as multiples of the cofactor, so nothing of them shows.

What it does not protect against: a party that deviates may steer its own random keys ("endemic"); quantum
computers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from nacl import bindings
from nacl.exceptions import CryptoError
from numpy.typing import ArrayLike

from masquerade.crypto.bits import as_bits
from masquerade.crypto.group import montgomery
from masquerade.crypto.hashing import BLOCK_BYTES, Blocks, random_bytes
from masquerade.errors import BadMessage, ParameterError

POINT_BYTES = 32
_NEUTRAL = b"\x01" + bytes(POINT_BYTES - 1)


class NeedsBase:
    """Something that is set up by base transfers; both sides' messages may be sent at once."""

    _base: BaseSender | BaseReceiver

    def setup(self) -> bytes:
        """Return our message of the base transfers."""
        return self._base.message()


class BaseSender:
    """Gets both keys of every transfer. `session` is the same text on both sides, unique to one run."""

    def __init__(self, session: bytes, count: int) -> None:
        self._session = session
        self._count = count
        self._secret: bytes | None
        self._secret, self._public = _random_point()

    def message(self) -> bytes:
        """Return the message to the receiver: one point."""
        return self._public

    def receive(self, message: bytes) -> Blocks:
        """Return the keys, uint64[count, 2, 2]: for each transfer the key of choice 0, then that of choice 1."""
        if self._secret is None:
            raise ParameterError("these base transfers are done: every setup needs fresh ones")
        points = _split(message, 2 * self._count)
        secret, self._secret = self._secret, None
        sums = [self._sum(points, at) for at in range(2 * self._count)]
        keys = []
        for at, shared in enumerate(_ladder([secret] * len(sums), sums)):
            pair = points[at & ~1], points[at | 1]
            keys.append(_key(self._session, at // 2, at % 2, self._public, pair, shared))
        return np.frombuffer(b"".join(keys), np.uint64).reshape(self._count, 2, 2)

    def _sum(self, points: Sequence[bytes], at: int) -> bytes:
        """Return B_j of a transfer; BadMessage if a point is not on the curve, or the sum has no multiples."""
        try:
            hashed = _hash_to_group(self._session, at // 2, at % 2, points[at ^ 1])
            total = bindings.crypto_core_ed25519_add(points[at], hashed)
        except (CryptoError, RuntimeError):
            raise _outside(at) from None
        if total == _NEUTRAL:
            raise _outside(at)
        return total


class BaseReceiver:
    """Gets the key of its choice in every transfer."""

    def __init__(self, session: bytes, choices: ArrayLike) -> None:
        self._session = session
        self._choices = [int(choice) for choice in as_bits(choices)]
        drawn = [_random_point() for _ in self._choices]
        self._secrets = [secret for secret, _ in drawn]
        self._pairs = [
            _pair(session, at, choice, point)
            for at, (choice, (_, point)) in enumerate(zip(self._choices, drawn, strict=True))
        ]
        self._done = False

    def message(self) -> bytes:
        """Return the message to the sender: two points per transfer, distributed the same for both choices."""
        return b"".join(first + second for first, second in self._pairs)

    def receive(self, message: bytes) -> Blocks:
        """Return the chosen keys, uint64[count, 2]."""
        if self._done:
            raise ParameterError("these base transfers are done: every setup needs fresh ones")
        (public,) = _split(message, 1)
        # A point outside the prime-order group would reveal a secret's remainder modulo its small order.
        if not bindings.crypto_core_ed25519_is_valid_point(public):
            raise _outside(0)
        self._done = True
        shared = _ladder(self._secrets, [public] * len(self._secrets))
        keys = [
            _key(self._session, at, choice, public, pair, each)
            for at, (choice, pair, each) in enumerate(zip(self._choices, self._pairs, shared, strict=True))
        ]
        return np.frombuffer(b"".join(keys), np.uint64).reshape(len(keys), 2)


def _pair(session: bytes, at: int, choice: int, own: bytes) -> tuple[bytes, bytes]:
    _, other = _random_point()
    chosen = bindings.crypto_core_ed25519_sub(own, _hash_to_group(session, at, choice, other))
    return (other, chosen) if choice else (chosen, other)


def _hash_to_group(session: bytes, at: int, choice: int, point: bytes) -> bytes:
    label = b"masquerade/base-transfer/point/2\0" + _place(session, at, choice)
    return bindings.crypto_core_ed25519_from_uniform(hashlib.sha512(label + point).digest()[:POINT_BYTES])


def _key(session: bytes, at: int, choice: int, public: bytes, pair: tuple[bytes, bytes], shared: bytes) -> bytes:
    label = b"masquerade/base-transfer/key/2\0" + _place(session, at, choice)
    return hashlib.sha256(label + public + pair[0] + pair[1] + shared).digest()[:BLOCK_BYTES]


def _place(session: bytes, at: int, choice: int) -> bytes:
    return hashlib.sha256(session).digest() + at.to_bytes(4, "big") + bytes([choice])


def _split(message: bytes, count: int) -> list[bytes]:
    if len(message) != POINT_BYTES * count:
        raise BadMessage(f"{count} points take {POINT_BYTES * count} bytes. Got {len(message)} instead.")
    return [message[at : at + POINT_BYTES] for at in range(0, len(message), POINT_BYTES)]


def _outside(at: int) -> BadMessage:
    return BadMessage(f"point {at} is no point of the prime-order group")


def _ladder(secrets: Sequence[bytes], points: Sequence[bytes]) -> list[bytes]:
    """Return the u-coordinate of each secret's multiple of its point; BadMessage for points of small order."""
    us = montgomery(points)
    found = []
    for at, secret in enumerate(secrets):
        try:
            found.append(bindings.crypto_scalarmult(secret, us[POINT_BYTES * at : POINT_BYTES * (at + 1)]))
        except (CryptoError, RuntimeError):
            raise _outside(at) from None
    return found


def _random_point() -> tuple[bytes, bytes]:
    """Return a secret, and a uniform point whose multiple of the base is the secret's up to its sign.

    X25519 reads a secret as 8·k for k from 2^251 to 2^252: with either sign, all numbers below the group's order but
    one in 2^127.
    """
    secret, sign = random_bytes(POINT_BYTES), random_bytes(1)[0] & 0x80
    point = bindings.crypto_scalarmult_ed25519_base(secret)
    return secret, point[:-1] + bytes([point[-1] ^ sign])
