"""Computing on shares of n sites: each result is what the numbers give, and a message that does not fit is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.learn.shared_numbers import SharedNumbers, prepare_shared_numbers
from masquerade.protocol.learn.sums import largest, smallest
from protocol.tampering import cut_short

NAMES = ("anna", "berta", "carla", "dora")


def together(n_sites: int, part: Callable[[int, SharedNumbers], Script[Any]]) -> list[Any]:
    names = NAMES[:n_sites]
    found = run_together({name: site(me, names, part) for me, name in enumerate(names)})
    return [found[name] for name in names]


def site(me: int, names: Sequence[str], part: Callable[[int, SharedNumbers], Script[Any]]) -> Script[Any]:
    shared = yield from prepare_shared_numbers(me, names, b"test")
    return (yield from part(me, shared))


@settings(max_examples=examples(3), deadline=None)
@given(st.integers(0, 1000), st.integers(2, 4))
def test_products_sums_and_digits_are_exact(seed: int, n_sites: int) -> None:
    random = np.random.default_rng(seed)
    numbers = random.integers(-(2**20), 2**20, (n_sites, 5))
    rows = random.integers(-(2**20), 2**20, (n_sites, 5, 3))
    bits = random.integers(0, 2, (n_sites, 4, 5)).astype(np.uint8)

    def part(me: int, shared: SharedNumbers) -> Script[Any]:
        products = yield from shared.products(numbers[me].view(np.uint64), rows[me].view(np.uint64))
        gram = yield from shared.gram(rows[me].view(np.uint64))
        digits = yield from shared.from_digits(bits[me])
        opened = yield from shared.opened(gram, 3)
        return products, gram, digits, opened

    found = together(n_sites, part)
    products, gram, digits = (
        np.sum([each[at] for each in found], axis=0, dtype=np.uint64).view(np.int64) for at in range(3)
    )
    whole = rows.sum(axis=0)
    np.testing.assert_array_equal(products, numbers.sum(axis=0)[:, None] * whole)
    np.testing.assert_array_equal(gram, whole.T @ whole)
    np.testing.assert_array_equal(digits, np.bitwise_xor.reduce(bits, axis=0))
    for each in found:
        np.testing.assert_array_equal(each[3], (whole.T @ whole) >> 3)


@settings(max_examples=examples(3), deadline=None)
@given(st.lists(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=2), min_size=2, max_size=4))
def test_the_largest_and_the_smallest_of_any_numbers(rows: list[list[float]]) -> None:
    own = np.array(rows)

    def part(me: int, shared: SharedNumbers) -> Script[Any]:
        high = yield from largest(shared.bits, own[me])
        low = yield from smallest(shared.bits, own[me])
        return high.tolist(), low.tolist()

    expected = (own.max(axis=0).tolist(), own.min(axis=0).tolist())
    assert together(len(rows), part) == [expected] * len(rows)


@pytest.mark.parametrize("kind", ["learn-factors", "learn-products"])
def test_a_short_message_is_its_senders_fault(kind: str) -> None:
    ones = np.ones((3, 2), np.uint64)

    def part(_: int, shared: SharedNumbers) -> Script[Any]:
        return (yield from shared.products(ones[:, 0], ones))

    names = NAMES[:3]
    scripts = {name: site(me, names, part) for me, name in enumerate(names)}
    with pytest.raises(PeerBrokeProtocol, match="berta"):
        run_together(scripts | {"berta": cut_short(scripts["berta"], kind)})
