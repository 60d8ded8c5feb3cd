"""Base transfers: the right key and only that one, choices that do not show, and points that are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from nacl import bindings

from crypto.two_parties import balanced
from examples import examples
from masquerade.crypto.base_transfer import POINT_BYTES, BaseReceiver, BaseSender, _hash_to_group, _ladder
from masquerade.errors import ParameterError


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.integers(0, 1), min_size=1, max_size=12))
def test_the_receiver_gets_the_key_of_its_choice_and_no_other(choices: list[int]) -> None:
    sender, receiver = BaseSender(b"session", len(choices)), BaseReceiver(b"session", choices)
    taken, keys = receiver.receive(sender.message()), sender.receive(receiver.message())
    at = np.arange(len(choices))
    assert np.array_equal(keys[at, choices], taken)
    assert (keys[at, 1 - np.array(choices)] != taken).any(axis=1).all()
    assert len({key.tobytes() for key in keys.reshape(-1, 2)}) == 2 * len(choices)


def test_another_session_gives_other_keys() -> None:
    sender, receiver = BaseSender(b"one", 3), BaseReceiver(b"other", [0, 1, 0])
    taken, keys = receiver.receive(sender.message()), sender.receive(receiver.message())
    assert not any(np.array_equal(key, mine) for pair, mine in zip(keys, taken, strict=True) for key in pair)


def test_a_message_does_not_show_the_choices() -> None:
    """Both points of a transfer are spread alike over the group, whichever was chosen."""
    for choice in (0, 1):
        message = BaseReceiver(b"session", [choice] * 400).message()
        points = np.frombuffer(message, np.uint8).reshape(400, 2, POINT_BYTES)
        bits = np.unpackbits(points, axis=2, bitorder="little")[:, :, :254]
        for side in (0, 1):
            assert balanced(bits[:, side])
            assert all(balanced(bits[:, side, place]) for place in range(254))
        assert all(bindings.crypto_core_ed25519_is_valid_point(point.tobytes()) for point in points.reshape(-1, 32))


def test_base_transfers_serve_once() -> None:
    sender, receiver = BaseSender(b"session", 1), BaseReceiver(b"session", [1])
    receiver.receive(sender.message())
    sender.receive(receiver.message())
    with pytest.raises(ParameterError, match="every setup needs fresh ones"):
        sender.receive(receiver.message())
    with pytest.raises(ParameterError, match="every setup needs fresh ones"):
        receiver.receive(sender.message())


def small_order_points() -> list[bytes]:
    """The neutral point, the one of order 2, and one of order 4."""
    prime = 2**255 - 19
    return [(1).to_bytes(32, "little"), (prime - 1).to_bytes(32, "little"), bytes(32)]


def mixed_order_point() -> bytes:
    """On the curve, but a good point plus the one of order 2: (x, y) becomes (−x, −y)."""
    good = bindings.crypto_scalarmult_ed25519_base_noclamp((5).to_bytes(32, "little"))
    y = int.from_bytes(good, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    return ((2**255 - 19 - y) | ((1 - sign) << 255)).to_bytes(32, "little")


OFF_CURVE = b"\x02" + bytes(31)


@pytest.mark.parametrize("point", [*small_order_points(), mixed_order_point(), OFF_CURVE, b"\xff" * 32])
def test_a_sender_outside_the_group_is_refused(point: bytes) -> None:
    with pytest.raises(ParameterError, match="point 0 is no point of the prime-order group"):
        BaseReceiver(b"session", [0]).receive(point)


def test_a_receiver_off_the_curve_is_refused() -> None:
    good = bindings.crypto_scalarmult_ed25519_base_noclamp((7).to_bytes(32, "little"))
    with pytest.raises(ParameterError, match="point 1 is no point of the prime-order group"):
        BaseSender(b"session", 1).receive(good + OFF_CURVE)


def test_a_receiver_whose_points_cancel_is_refused() -> None:
    """A sum that is neutral would give a key that is nobody's secret."""
    other = bindings.crypto_scalarmult_ed25519_base_noclamp((7).to_bytes(32, "little"))
    hashed = _hash_to_group(b"session", 0, 0, other)
    opposite = hashed[:-1] + bytes([hashed[-1] ^ 0x80])
    with pytest.raises(ParameterError, match="point 0 is no point of the prime-order group"):
        BaseSender(b"session", 1).receive(opposite + other)


def test_a_small_part_of_a_point_shows_nothing_of_a_secret() -> None:
    """A good point and the same plus one of order 2 have one multiple, whatever the secret's remainder is."""
    good = bindings.crypto_scalarmult_ed25519_base_noclamp((5).to_bytes(32, "little"))
    for secret in (bytes([remainder]) + b"\x5a" * 31 for remainder in range(8)):
        assert len(set(_ladder([secret] * 2, [good, mixed_order_point()]))) == 1


def test_a_cut_message_is_refused() -> None:
    sender, receiver = BaseSender(b"session", 2), BaseReceiver(b"session", [0, 1])
    with pytest.raises(ParameterError, match=r"4 points take 128 bytes\. Got 127"):
        sender.receive(receiver.message()[:-1])
    with pytest.raises(ParameterError, match=r"1 points take 32 bytes\. Got 64"):
        receiver.receive(sender.message() * 2)
    taken, keys = (receiver.receive(sender.message()), sender.receive(receiver.message()))  # the right ones still serve
    assert np.array_equal(keys[[0, 1], [0, 1]], taken)
