"""Computing on shares, of two parties and of n: results are what the numbers give; no message depends on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from crypto.two_parties import share
from examples import examples
from masquerade.crypto import Elements, PowerOfTwo, Precision, scaled_logarithms
from masquerade.crypto.logarithm import signed
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.learn import shared_numbers as arithmetic
from masquerade.protocol.learn.shared_numbers import (
    SharedNumbers,
    logarithms,
    plain_weighted_logarithms,
    prepare_shared_numbers,
    weighted_logarithms,
)
from masquerade.protocol.learn.sums import largest, smallest
from masquerade.protocol.pairs import Pair, prepare_pair
from protocol.tampering import cut_short

NAMES = ("anna", "berta")
RING = PowerOfTwo(64)
SMALL = st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=6)

Part = Callable[[Pair], Script[Any]]


def both(part: Callable[[int], Part]) -> list[Any]:
    def whole(me: int) -> Script[Any]:
        pair = yield from prepare_pair(me, NAMES, b"test")
        return (yield from part(me)(pair))

    results = run_together({name: whole(me) for me, name in enumerate(NAMES)})
    return [results[name] for name in NAMES]


def computed(function: Callable[..., Script[Elements]], *shared: list[int], **others: Any) -> list[int]:
    """What a function of shared numbers gives, put together."""
    shares = [share(np.array(each, np.int64), 2, RING) for each in shared]
    found = both(lambda me: lambda pair: function(pair, *(each[me] for each in shares), **others))
    return [int(each) for each in signed(RING.add(*found))]


@settings(max_examples=examples(8), deadline=None)
@given(SMALL)
def test_products_and_quotients_are_exact(numbers: list[int]) -> None:
    others = numbers[::-1]
    assert computed(arithmetic.multiplied, numbers, others) == [x * y for x, y in zip(numbers, others, strict=True)]
    assert computed(arithmetic.halved, numbers, times=7) == [x >> 7 for x in numbers]


def test_shares_of_small_numbers_are_lifted_into_the_ring() -> None:
    numbers = np.array([[0, 1, 5], [1000, 1023, 512]])
    shares = [each.astype(np.uint16) for each in share(numbers, 2, PowerOfTwo(16))]
    found = both(lambda me: lambda pair: arithmetic.lifted(pair, shares[me], 10))
    assert (RING.add(*found) == numbers).all()


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.integers(-100, 100), min_size=4, max_size=4), st.lists(st.integers(-50, 50), min_size=1))
def test_a_polynomial_is_evaluated_where_only_the_other_party_knows(polynomial: list[int], points: list[int]) -> None:
    coefficients = [RING.elements(np.full(len(points), each)) for each in polynomial]
    where = RING.elements(np.array(points))
    found = both(lambda me: lambda pair: arithmetic.evaluated(pair, coefficients if me == 0 else where, 3))
    expected = [sum(c * y**i for i, c in enumerate(polynomial)) for y in points]
    assert signed(RING.add(*found)).tolist() == expected


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.integers(1, 2**13 - 1), min_size=1, max_size=8), st.integers(2, 4))
def test_logarithms_on_shares_are_those_of_the_numbers(numbers: list[int], terms: int) -> None:
    precision = Precision(13, terms)
    assert (
        computed(logarithms, numbers, precision=precision) == scaled_logarithms(np.array(numbers), precision).tolist()
    )


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.integers(0, 2**17 - 1), min_size=1, max_size=8))
def test_weighted_logarithms_are_those_of_the_numbers(numbers: list[int]) -> None:
    precision = Precision(17, 3)
    found = computed(weighted_logarithms, numbers, precision=precision)
    assert found == plain_weighted_logarithms(np.array(numbers), precision).tolist()
    assert all(each == 0 for each, x in zip(found, numbers, strict=True) if x < 2)


# Shares of n sites.

SITES = ("anna", "berta", "carla", "dora")


def together(n_sites: int, part: Callable[[int, SharedNumbers], Script[Any]]) -> list[Any]:
    names = SITES[:n_sites]
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

    names = SITES[:3]
    scripts = {name: site(me, names, part) for me, name in enumerate(names)}
    with pytest.raises(PeerBrokeProtocol, match="berta"):
        run_together(scripts | {"berta": cut_short(scripts["berta"], kind)})
