"""The group that blinds identifiers: commutative, on the curve and never on its twist."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from nacl import bindings

from examples import examples
from masquerade.crypto import POINT_BYTES, Blinding, NotAPoint, as_points, hash_texts

PRIME = 2**255 - 19
TEXTS = [str(number).encode() for number in range(300)]


def on_the_curve(point: bytes) -> bool:
    """v² = u³ + 486662 u² + u has a solution: otherwise the point lies on the twist."""
    u = int.from_bytes(point, "little")
    return pow(u**3 + 486662 * u**2 + u, (PRIME - 1) // 2, PRIME) == 1


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=10))
def test_blinding_commutes(texts: list[bytes]) -> None:
    one, other = Blinding(), Blinding()
    points = hash_texts(texts, b"session")
    assert np.array_equal(one.blind(other.blind(points)), other.blind(one.blind(points)))


def test_every_hash_lies_on_the_curve_and_stays_there() -> None:
    """A point of the twist would show one bit of its text's hash through every blinding."""
    points = hash_texts(TEXTS, b"session")
    assert all(on_the_curve(bytes(point)) for point in points)
    assert all(on_the_curve(bytes(point)) for point in Blinding().blind(points))
    arbitrary = [hashlib.sha256(text).digest()[:31] + b"\0" for text in TEXTS]
    assert 0.3 < np.mean([on_the_curve(point) for point in arbitrary]) < 0.7  # the test can fail


def test_the_batched_conversion_is_libsodiums() -> None:
    from masquerade.crypto.group import montgomery

    edwards = [bindings.crypto_core_ed25519_from_uniform(hashlib.sha256(text).digest()) for text in TEXTS[:50]]
    converted = [bindings.crypto_sign_ed25519_pk_to_curve25519(point) for point in edwards]
    assert montgomery(edwards) == b"".join(converted)


def test_equal_texts_are_equal_points_in_one_session_only() -> None:
    points = hash_texts([b"a", b"b", b"a"], b"one")
    assert np.array_equal(points[0], points[2])
    assert not np.array_equal(points[0], points[1])
    assert not np.array_equal(points, hash_texts([b"a", b"b", b"a"], b"another"))


def test_every_session_has_a_secret_of_its_own() -> None:
    points = hash_texts(TEXTS[:3], b"session")
    assert not np.array_equal(Blinding().blind(points), Blinding().blind(points))


@pytest.mark.parametrize("u", [0, 1, PRIME - 1])
def test_points_of_small_order_are_refused(u: int) -> None:
    """They would come out the same whatever the secret is."""
    with pytest.raises(NotAPoint):
        Blinding().blind(as_points(u.to_bytes(POINT_BYTES, "little")))


def test_bytes_that_are_no_points_are_refused() -> None:
    with pytest.raises(NotAPoint, match="33 bytes"):
        as_points(bytes(33))


def test_many_threads_keep_the_order_and_tell_how_far_they_are() -> None:
    texts = [str(number).encode() for number in range(5000)]
    told: list[int] = []
    points = hash_texts(texts, b"session", told.append)
    assert sum(told) == 5000
    assert len(told) > 1
    assert np.array_equal(points[4321], hash_texts([texts[4321]], b"session")[0])
