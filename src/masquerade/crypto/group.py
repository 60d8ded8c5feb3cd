"""The prime-order group of curve25519, for blinding identifiers: (x^a)^b = (x^b)^a.

A point is 32 bytes, its Montgomery u-coordinate. Texts are hashed **to the curve** (Elligator, then times the
cofactor), never to an arbitrary u: half of those lie on the twist, and which side a point lies on survives every
blinding, so it would reveal one bit of the text's hash. Blinding is X25519, whose scalars are multiples of the
cofactor.

Cost on one core: about 30 µs to hash and 32 µs to blind a point. Both run on all cores.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from nacl import bindings
from nacl.exceptions import CryptoError
from numpy.typing import NDArray

from masquerade.crypto.hashing import random_bytes

Points = NDArray[np.uint8]  # one row of 32 bytes per point
OnDone = Callable[[int], None]  # called with the number of points just finished

POINT_BYTES = 32
_PRIME = 2**255 - 19
_CHUNK = 2048  # points that one thread takes at a time


class NotAPoint(ValueError):
    """Bytes that are not a point of the group."""


class Blinding:
    """A secret scalar, fresh for one session."""

    def __init__(self) -> None:
        self._scalar = random_bytes(POINT_BYTES)

    def blind(self, points: Points, on_done: OnDone | None = None) -> Points:
        """Raise each point to the power of the secret."""
        scalar = self._scalar

        def chunk(rows: Points) -> bytes:
            data = rows.tobytes()
            try:
                return b"".join(
                    bindings.crypto_scalarmult(scalar, data[at : at + POINT_BYTES])
                    for at in range(0, len(data), POINT_BYTES)
                )
            except (CryptoError, RuntimeError):
                raise NotAPoint("a point of small order, which no honest blinding gives") from None

        return _in_threads(chunk, [points[at : at + _CHUNK] for at in range(0, len(points), _CHUNK)], on_done)


def hash_texts(texts: Sequence[bytes], domain: bytes, on_done: OnDone | None = None) -> Points:
    """Hash each text to a point of the group. Different domains (one per session) give unrelated points."""
    prefix = hashlib.sha512(b"masquerade/align/1\0" + domain).digest()

    def chunk(part: Sequence[bytes]) -> bytes:
        edwards = [
            bindings.crypto_core_ed25519_from_uniform(hashlib.sha512(prefix + text).digest()[:POINT_BYTES])
            for text in part
        ]
        return montgomery(edwards)

    return _in_threads(chunk, [texts[at : at + _CHUNK] for at in range(0, len(texts), _CHUNK)], on_done)


def as_points(data: bytes) -> Points:
    """Decode a peer's bytes as points."""
    if len(data) % POINT_BYTES:
        raise NotAPoint(f"{len(data)} bytes are no whole number of points")
    return np.frombuffer(data, np.uint8).reshape(-1, POINT_BYTES)


def montgomery(edwards: Sequence[bytes]) -> bytes:
    """Return u = (1 + y) / (1 − y) of Edwards points, none of them neutral, with one inversion for all of them."""
    ys = [int.from_bytes(point, "little") & ((1 << 255) - 1) for point in edwards]
    products, product = [], 1
    for y in ys:
        products.append(product)
        product = product * (1 - y) % _PRIME
    inverse = pow(product, -1, _PRIME)
    us = [0] * len(ys)
    for at in range(len(ys) - 1, -1, -1):
        us[at] = (1 + ys[at]) * inverse * products[at] % _PRIME
        inverse = inverse * (1 - ys[at]) % _PRIME
    return b"".join(u.to_bytes(POINT_BYTES, "little") for u in us)


def _in_threads(work: Callable[..., bytes], parts: Sequence[Sized], on_done: OnDone | None) -> Points:
    # libsodium's functions run without the interpreter's lock, so threads use all cores.
    results = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part, result in zip(parts, pool.map(work, parts), strict=True):
            results.append(result)
            if on_done is not None:
                on_done(len(part))
    return as_points(b"".join(results))
