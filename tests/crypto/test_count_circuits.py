"""Circuits on shared counts, against plain arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import Builder, Circuit, count_circuits as circuits, to_bits, words
from masquerade.crypto.circuit import evaluate
from masquerade.errors import ParameterError

WIDTH = 8
rows_of_counts = st.lists(st.integers(0, 25), min_size=1, max_size=6)


def judged(circuit: Circuit, row: list[int], masks: int) -> int:
    """The circuit on a row whose cells are split with pseudorandom masks."""
    rng = np.random.default_rng(masks)
    left = rng.integers(0, 1 << WIDTH, len(row))
    right = [(cell - int(mask)) % (1 << WIDTH) for cell, mask in zip(row, left, strict=True)]
    sides = (left, np.array(right))
    inputs = {f"row {party}": to_bits(side, WIDTH).T.reshape(-1, 1) for party, side in enumerate(sides)}
    if "told" in circuit.outputs:
        inputs |= {f"total {party}": to_bits([side.sum() % (1 << WIDTH)], WIDTH) for party, side in enumerate(sides)}
    found = evaluate(circuit, inputs)
    if "told" in circuit.outputs:
        assert np.array_equal(found["told"][:, 0], to_bits([*row, sum(row)], WIDTH).T.ravel())
    (out,) = found["good"][:, 0]
    return int(out)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 127))
def test_reached_is_the_sign(count: int, k: int, mask: int) -> None:
    inputs = {"share 0": to_bits([mask], 7), "share 1": to_bits([count - k - mask], 7)}
    assert evaluate(circuits.reached(7), inputs)["reached"][0, 0] == (count >= k)
    assert circuits.reached(7).n_and == 6


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.lists(st.booleans(), min_size=20, max_size=20))
def test_equality(left: list[bool], right: list[bool]) -> None:
    other = right[: len(left)]
    inputs = {f"bits {at}": np.array(side, np.uint8)[:, None] for at, side in enumerate((left, other))}
    assert evaluate(circuits.all_equal(len(left)), inputs)["holds"][0, 0] == (left == other)


@settings(max_examples=examples(60), deadline=None)
@given(rows_of_counts, st.integers(1, 7), st.integers(0, 99))
def test_distinct_values(row: list[int], least: int, masks: int) -> None:
    different = sum(cell > 0 for cell in row)
    circuit = circuits.row_distinct(len(row), WIDTH, least)
    assert judged(circuit, row, masks) == (different == 0 or different >= least)


@settings(max_examples=examples(80), deadline=None)
@given(rows_of_counts, st.integers(0, 50), st.integers(1, 50), st.integers(1, 30), st.integers(0, 99), st.data())
def test_bounded_shares(row: list[int], top: int, bottom: int, k: int, masks: int, data: st.DataObject) -> None:
    top = min(top, bottom)
    which = data.draw(st.none() | st.sets(st.integers(0, len(row) - 1), min_size=1).map(tuple))
    circuit = circuits.row_bounded(len(row), WIDTH, (top, bottom), which, k)
    total, bounded = sum(row), row if which is None else [row[at] for at in which]
    small = all(Fraction(cell, total or 1) <= Fraction(top, bottom) for cell in bounded)
    assert judged(circuit, row, masks) == (total == 0 or (total >= k and small))


def test_a_bound_is_a_fraction() -> None:
    with pytest.raises(ParameterError, match=r"between 0 and 1. Got 3/2"):
        circuits.row_bounded(3, WIDTH, (3, 2))


@settings(max_examples=examples(60), deadline=None)
@given(rows_of_counts, st.integers(1, 7), st.integers(0, 60), st.integers(0, 99))
def test_rows_that_are_too_small_are_refused(row: list[int], values: int, least: int, masks: int) -> None:
    allowed = sum(row) == 0 or sum(row) >= least
    judge = circuits.row_distinct(len(row), WIDTH, values)
    expected = allowed and bool(judged(judge, row, masks))
    for tells in (False, True):
        assert judged(circuits.sized(judge, WIDTH, least, tells=tells), row, masks) == expected


def test_what_both_parts_of_a_sized_circuit_need_is_built_once() -> None:
    """A row's cells are added up once, and the total of a bound on shares is not added up again."""
    distinct, bounded = circuits.row_distinct(9, WIDTH, 3), circuits.row_bounded(9, WIDTH, (1, 2))
    assert circuits.sized(distinct, WIDTH, 20).n_and <= distinct.n_and + 10 * WIDTH + 2
    assert circuits.sized(bounded, WIDTH, 20).n_and <= bounded.n_and + 2 * WIDTH + 2


def test_a_circuit_that_tells_what_it_judged_adds_no_total_up() -> None:
    silent, telling = (circuits.sized(circuits.row_distinct(14, WIDTH, 3), WIDTH, 20, tells=tells) for tells in (0, 1))
    assert telling.n_and <= silent.n_and - 10 * WIDTH


# How counts are distributed: entropy, the most frequent value, distance from a whole.

histograms = st.lists(st.lists(st.integers(0, 25), min_size=4, max_size=4), min_size=1, max_size=40)


def all_judged(circuit: Circuit, rows: list[list[int]], whole: list[int] | None = None) -> list[bool]:
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
    found = circuits.log2(np.array(numbers))
    for number, log in zip(numbers, found.tolist(), strict=True):
        assert abs(log / 2**32 - math.log2(number)) < 2**-31


def test_logarithms_of_small_numbers_are_near_enough_and_in_order() -> None:
    numbers = np.arange(1, 20_000)
    logs = circuits.log2(numbers)
    assert np.abs(logs / 2**32 - np.log2(numbers)).max() < 2**-31
    assert (np.diff(logs) > 0).all()


@pytest.mark.parametrize("width", [1, 4, 9, 15])
@pytest.mark.parametrize("shallow", [False, True], ids=["small", "shallow"])
def test_logarithms_in_gates_are_those_in_numbers(width: int, shallow: bool) -> None:
    build = Builder()
    build.output("log", circuits.log2_word(build, build.input("x", width), shallow=shallow))
    numbers = np.unique(np.random.default_rng(1).integers(1, 1 << width, 300))
    bits = evaluate(build.build(), {"x": to_bits(numbers, width)})["log"].astype(np.int64)
    assert ((bits << np.arange(len(bits))[:, None]).sum(axis=0) == circuits.log2(numbers)).all()


def test_a_public_logarithm_is_rounded_down() -> None:
    assert circuits.public_log2(Fraction(8)) in (3 << 32, (3 << 32) - 1)
    assert circuits.public_log2(Fraction(3)) == math.floor(math.log2(3) * 2**32)


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
    circuit = circuits.row_mixed(4, WIDTH, circuits.public_log2(Fraction(least) * (1 - Fraction(1, 10**9))))
    expected = []
    for row in rows:
        n = sum(row)
        entropy = math.fsum(-h / n * math.log2(h / n) for h in row if h)
        expected.append(n == 0 or entropy >= math.log2(least) - 1e-9)
    assert all_judged(circuit, rows) == expected


@settings(max_examples=examples(40), deadline=None)
@given(histograms, st.integers(1, 6), st.integers(0, 9), st.integers(1, 9))
def test_the_most_frequent_against_the_rarer(rows: list[list[int]], rank: int, top: int, bottom: int) -> None:
    expected = []
    for row in rows:
        ranked = sorted(row, reverse=True)
        tail = sum(ranked[rank - 1 :])
        expected.append(not any(row) or (tail > 0 and ranked[0] * bottom <= top * tail))
    assert all_judged(circuits.row_recursive(4, WIDTH, (top, bottom), rank), rows) == expected


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
    assert all_judged(circuit, rows, whole) == expected
