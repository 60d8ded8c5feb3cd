"""Computing on shares: each result is what the numbers themselves give, and no message depends on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from crypto.two_parties import share
from examples import examples
from masquerade.crypto import Elements, PowerOfTwo, Precision, scaled_logarithms
from masquerade.crypto.logarithm import signed
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.learn import shared_numbers as arithmetic
from masquerade.protocol.learn.shared_numbers import logarithms, plain_weighted_logarithms, weighted_logarithms
from masquerade.protocol.pairs import Pair, prepare_pair

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
    return [int(each) for each in signed(RING.add(*found), RING)]


@settings(max_examples=examples(8), deadline=None)
@given(SMALL)
def test_products_and_quotients_are_exact(numbers: list[int]) -> None:
    others = numbers[::-1]
    assert computed(arithmetic.multiplied, numbers, others, ring=RING) == [
        x * y for x, y in zip(numbers, others, strict=True)
    ]
    assert computed(arithmetic.halved, numbers, times=7, ring=RING) == [x >> 7 for x in numbers]


@settings(max_examples=examples(8), deadline=None)
@given(SMALL)
def test_the_lowest_is_found_and_nothing_else(numbers: list[int]) -> None:
    shares = share(np.array(numbers, np.int64), 2, RING)
    columns = [np.stack([each, each[::-1]], axis=1) for each in shares]
    found = both(lambda me: lambda pair: arithmetic.lowest(pair, columns[me], RING))
    backwards = numbers[::-1]
    expected = [numbers.index(min(numbers)), backwards.index(min(numbers))]
    assert [each.tolist() for each in found] == [expected] * 2


def test_shares_of_small_numbers_are_lifted_into_the_ring() -> None:
    numbers = np.array([[0, 1, 5], [1000, 1023, 512]])
    shares = [each.astype(np.uint16) for each in share(numbers, 2, PowerOfTwo(16))]
    found = both(lambda me: lambda pair: arithmetic.lifted(pair, shares[me], 10, RING))
    assert (RING.add(*found) == numbers).all()


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.integers(-100, 100), min_size=4, max_size=4), st.lists(st.integers(-50, 50), min_size=1))
def test_a_polynomial_is_evaluated_where_only_the_other_party_knows(polynomial: list[int], points: list[int]) -> None:
    coefficients = [RING.elements(np.full(len(points), each)) for each in polynomial]
    where = RING.elements(np.array(points))
    found = both(lambda me: lambda pair: arithmetic.evaluated(pair, coefficients if me == 0 else where, 3, RING))
    expected = [sum(c * y**i for i, c in enumerate(polynomial)) for y in points]
    assert signed(RING.add(*found), RING).tolist() == expected


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
