"""Circuits on the distribution of shared counts, against plain arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import Builder, Circuit, count_circuits as circuits, count_circuits as fixed_log, to_bits, words
from masquerade.crypto.circuit import evaluate

WIDTH = 7
histograms = st.lists(st.lists(st.integers(0, 25), min_size=4, max_size=4), min_size=1, max_size=40)


def judged(circuit: Circuit, rows: list[list[int]], whole: list[int] | None = None) -> list[bool]:
    """Judge rows whose cells are split with pseudorandom masks."""
    cells = np.array(rows)
    left = np.random.default_rng(len(rows)).integers(0, 1 << WIDTH, cells.shape)
    inputs = {
        f"row {party}": np.concatenate([to_bits(share[:, at], WIDTH) for at in range(cells.shape[1])])
        for party, share in enumerate((left, (cells - left) % (1 << WIDTH)))
    }
    if whole is not None:
        word = to_bits(whole, sum(whole).bit_length()).T.reshape(-1, 1)
        inputs["whole"] = np.repeat(word, len(rows), axis=1)
    return [bool(bit) for bit in evaluate(circuit, inputs)["good"][0]]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=200))
def test_logarithms_are_near_enough(numbers: list[int]) -> None:
    found = fixed_log.log2(np.array(numbers))
    for number, log in zip(numbers, found.tolist(), strict=True):
        assert abs(log / 2**32 - math.log2(number)) < 2**-31


def test_logarithms_of_small_numbers_are_near_enough_and_in_order() -> None:
    numbers = np.arange(1, 20_000)
    logs = fixed_log.log2(numbers)
    assert np.abs(logs / 2**32 - np.log2(numbers)).max() < 2**-31
    assert (np.diff(logs) > 0).all()


@pytest.mark.parametrize("width", [1, 4, 9, 15])
@pytest.mark.parametrize("shallow", [False, True], ids=["small", "shallow"])
def test_logarithms_in_gates_are_those_in_numbers(width: int, shallow: bool) -> None:
    build = Builder()
    build.output("log", fixed_log.log2_word(build, build.input("x", width), shallow=shallow))
    numbers = np.unique(np.random.default_rng(1).integers(1, 1 << width, 300))
    bits = evaluate(build.build(), {"x": to_bits(numbers, width)})["log"].astype(np.int64)
    assert ((bits << np.arange(len(bits))[:, None]).sum(axis=0) == fixed_log.log2(numbers)).all()


def test_a_public_logarithm_is_rounded_down() -> None:
    assert fixed_log.public_log2(Fraction(8)) in (3 << 32, (3 << 32) - 1)
    assert fixed_log.public_log2(Fraction(3)) == math.floor(math.log2(3) * 2**32)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 63)), min_size=1), st.booleans())
def test_products(pairs: list[tuple[int, int]], shallow: bool) -> None:
    build = Builder()
    x, y = build.input("x", 12), build.input("y", 6)
    build.output("product", words.times(build, x, y, shallow=shallow))
    left, right = zip(*pairs, strict=True)
    bits = evaluate(build.build(), {"x": to_bits(left, 12), "y": to_bits(right, 6)})["product"]
    found = (bits.astype(np.int64) << np.arange(12)[:, None]).sum(axis=0)
    assert found.tolist() == [a * b % 4096 for a, b in pairs]


@settings(max_examples=examples(10), deadline=None)
@given(histograms, st.sampled_from([1.0, 1.7, 2.0, 2.5, 3.9, 4.0, 1e30]))
def test_entropy(rows: list[list[int]], least: float) -> None:
    circuit = circuits.row_mixed(4, WIDTH, fixed_log.public_log2(Fraction(least) * (1 - Fraction(1, 10**9))))
    expected = []
    for row in rows:
        n = sum(row)
        entropy = math.fsum(-h / n * math.log2(h / n) for h in row if h)
        expected.append(n == 0 or entropy >= math.log2(least) - 1e-9)
    assert judged(circuit, rows) == expected


@settings(max_examples=examples(40), deadline=None)
@given(histograms, st.integers(1, 6), st.integers(0, 9), st.integers(1, 9))
def test_the_most_frequent_against_the_rarer(rows: list[list[int]], rank: int, top: int, bottom: int) -> None:
    expected = []
    for row in rows:
        ranked = sorted(row, reverse=True)
        tail = sum(ranked[rank - 1 :])
        expected.append(not any(row) or (tail > 0 and ranked[0] * bottom <= top * tail))
    assert judged(circuits.row_recursive(4, WIDTH, (top, bottom), rank), rows) == expected


@settings(max_examples=examples(40), deadline=None)
@given(histograms, st.fractions(0, 1, max_denominator=20), st.booleans(), st.data())
def test_the_distance_from_the_whole(rows: list[list[int]], t: Fraction, ordered: bool, data: st.DataObject) -> None:
    whole = data.draw(st.lists(st.integers(1, 30), min_size=4, max_size=4))
    size = sum(whole)
    most = t * size * (3 if ordered else 1)
    circuit = circuits.row_close(4, WIDTH, (most.numerator, most.denominator), size, ordered=ordered)
    expected = []
    for row in rows:
        n = max(sum(row), 1)
        away = [Fraction(h, n) - Fraction(w, size) for h, w in zip(row, whole, strict=True)]
        if ordered:
            distance = sum((abs(sum(away[:at], Fraction(0))) for at in range(1, 4)), Fraction(0)) / 3
        else:
            distance = sum((max(each, Fraction(0)) for each in away), Fraction(0))
        expected.append(not any(row) or distance <= t)
    assert judged(circuit, rows, whole) == expected
