"""Gilboa's products: against plain arithmetic, what each side sees, and misuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import Transfers, looks_random, set_up
from examples import examples
from masquerade.crypto import PowerOfTwo, ProductReceiver, ProductSender
from masquerade.crypto.transfer_extension import message_bytes
from masquerade.errors import BadMessage, ParameterError

RINGS = [PowerOfTwo(1), PowerOfTwo(20), PowerOfTwo(64)]


@st.composite
def factors(draw: st.DrawFn) -> tuple[PowerOfTwo, int | None, list[int], list[int]]:
    ring = draw(st.sampled_from(RINGS))
    places = draw(st.one_of(st.none(), st.integers(1, ring.bits)))
    largest = min(ring.modulus, 1 << (places or 64)) - 1
    pairs = draw(st.lists(st.tuples(st.integers(0, ring.modulus - 1), st.integers(0, largest)), max_size=6))
    return ring, places, [x for x, _ in pairs], [y for _, y in pairs]


@settings(max_examples=examples(40), deadline=None)
@given(factors())
def test_products(transfers: Transfers, case: tuple[PowerOfTwo, int | None, list[int], list[int]]) -> None:
    ring, places, x, y = case
    sender, receiver = ProductSender(transfers[0], ring, places), ProductReceiver(transfers[1], ring, places)
    ours, answer = sender.multiply(receiver.ask(np.array(y, np.uint64)), np.array(x, np.uint64))
    theirs = receiver.multiply(answer)
    expected = [a * b % ring.modulus for a, b in zip(x, y, strict=True)]
    assert ring.add(ours, theirs).tolist() == expected


@pytest.mark.parametrize("factor", [0, 2**32 - 1])
def test_neither_side_sees_the_others_factor(factor: int) -> None:
    """Both messages and both shares look random whether the other's factors are all 0 or all ones."""
    ring = PowerOfTwo(32)
    sender, receiver = set_up()
    x = y = np.full(3000, factor, np.uint64)
    asking = ProductReceiver(receiver, ring)
    message = asking.ask(y)
    ours, answer = ProductSender(sender, ring).multiply(message, x)
    theirs = asking.multiply(answer)
    assert looks_random(message[16:])
    # Digit 0 takes 32 bits, digit 31 one bit in a byte of its own: look at the whole bytes of the first eight.
    assert looks_random(answer[: 3000 * 4])
    for shares in (ours, theirs):
        assert looks_random(shares.astype(np.uint32).tobytes())


def test_shorter_factors_cost_less(transfers: Transfers) -> None:
    ring = PowerOfTwo(64)
    transfers[0].extend(transfers[1].extend([0])[0], 1)  # the first message of a setup is longer
    receiver = ProductReceiver(transfers[1], ring, places=4)
    message = receiver.ask([15] * 64)
    assert len(message) == message_bytes(4 * 64)
    ours, answer = ProductSender(transfers[0], ring, places=4).multiply(message, [-3] * 64)
    assert len(answer) == 4 * 64 * 8
    assert ring.add(ours, receiver.multiply(answer)).tolist() == [2**64 - 45] * 64


def test_products_misused() -> None:
    transfers = set_up()
    ring = PowerOfTwo(8)
    sender, receiver = ProductSender(transfers[0], ring), ProductReceiver(transfers[1], ring)
    with pytest.raises(ParameterError, match="no products were asked for"):
        receiver.multiply(b"")
    with pytest.raises(ParameterError, match="between 1 and 8"):
        ProductReceiver(transfers[1], ring, places=9)
    with pytest.raises(ParameterError, match="at most 3 binary digits"):
        ProductReceiver(transfers[1], ring, places=3).ask([8])
    message = receiver.ask([1, 2])
    with pytest.raises(ParameterError, match="not received yet"):
        receiver.ask([1, 2])
    with pytest.raises(BadMessage, match="take a message of"):
        sender.multiply(message[:-1], [3, 4])
    ours, answer = sender.multiply(message, [3, 4])
    with pytest.raises(BadMessage, match="come next"):
        sender.multiply(message, [3, 4])
    with pytest.raises(BadMessage, match=r"2 products take 16 bytes\. Got 15"):
        receiver.multiply(answer[:-1])
    assert ring.add(ours, receiver.multiply(answer)).tolist() == [3, 8]
