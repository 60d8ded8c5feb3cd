"""Computing on shares: each result is what the numbers themselves give, and no message depends on them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import Elements, PowerOfTwo, Precision, scaled_logarithms
from masquerade.crypto.logarithm import SERIES_ERRORS, signed
from masquerade.crypto.shares import share
from masquerade.errors import ParameterError
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.learn import shared_numbers as arithmetic, shared_numbers as scaling
from masquerade.protocol.learn.shared_numbers import (
    logarithms,
    plain_weighted_logarithms,
    rough_logarithms,
    unscaled_logarithms,
    weighted_logarithms,
)
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


def test_a_logarithm_is_unscaled_on_shares() -> None:
    numbers, precision = [1, 2, 10, 8191], Precision(13, 4)
    found = computed(unscaled_logarithms, numbers, precision=precision, places=16)
    for got, number in zip(found, numbers, strict=True):
        assert abs(got / 2**16 - np.log(number)) <= SERIES_ERRORS[4] + 1.5 / 2**16


def test_a_rough_logarithm_on_shares_is_short_by_less_than_three_twentieths() -> None:
    numbers = [1, 2, 3, 10, 1000, 8191]
    found = computed(rough_logarithms, numbers, bits=13, ring=RING)
    for got, number in zip(found, numbers, strict=True):
        assert 0 <= np.log2(number) - got / 16 <= 0.148


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_records_that_both_mark_are_counted(marked: list[tuple[bool, bool]]) -> None:
    ours = np.array(marked, np.uint8).T
    found = both(lambda me: lambda pair: arithmetic.in_common(pair, ours[me], RING))
    assert int(RING.add(*found)[0]) == sum(one and other for one, other in marked)


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


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.integers(0, 2**30), min_size=1, max_size=6), st.fractions(0, 50, max_denominator=1000))
def test_scaling_by_a_fraction_errs_by_less_than_one_and_a_half(numbers: list[int], factor: Fraction) -> None:
    found = computed(scaling.scaled, numbers, factor=factor, ring=RING)
    assert all(abs(each - factor * x) < 1.5 for each, x in zip(found, numbers, strict=True))
    pair = scaling.shared_excessively(np.array(numbers, np.uint64), 2**30, RING)
    ours = [scaling.scaled_excessive(me, each, factor, RING) for me, each in enumerate(pair)]
    found = [int(each) for each in signed(RING.add(*ours), RING)]
    assert all(abs(each - factor * x) < 1.5 for each, x in zip(found, numbers, strict=True))


def test_excessive_shares_exceed_the_modulus_always() -> None:
    one, other = scaling.shared_excessively(np.zeros(1000, np.uint64), 100, PowerOfTwo(10))
    assert ((one + other) == 1 << 10).all()
    with pytest.raises(ParameterError, match="between 0 and 100"):
        scaling.shared_excessively(np.array([101], np.uint64), 100, RING)
