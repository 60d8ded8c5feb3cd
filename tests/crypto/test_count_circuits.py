"""Circuits on shared counts, against plain arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.crypto import Circuit, count_circuits as circuits, to_bits
from masquerade.crypto.circuit import evaluate
from masquerade.errors import ParameterError
from masquerade.protocol.sensitive.verdict import row_inputs

WIDTH = 8
rows_of_counts = st.lists(st.integers(0, 25), min_size=1, max_size=6)


def judged(circuit: Circuit, row: list[int], masks: int) -> int:
    """The circuit on a row whose cells are split with pseudorandom masks."""
    rng = np.random.default_rng(masks)
    left = rng.integers(0, 1 << WIDTH, len(row))
    right = [(cell - int(mask)) % (1 << WIDTH) for cell, mask in zip(row, left, strict=True)]
    shares = [to_bits(side, WIDTH).T.reshape(-1, 1) for side in (left, np.array(right))]
    inputs = row_inputs(circuit, 0, shares[0]) | row_inputs(circuit, 1, shares[1])
    (out,) = evaluate(circuit, inputs)["good"][:, 0]
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
    for made in (circuits.row_distinct, circuits.row_different):
        circuit = made(len(row), WIDTH, least)
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
    for made in (circuits.row_distinct, circuits.row_different):
        judge = made(len(row), WIDTH, values)
        expected = allowed and bool(judged(judge, row, masks))
        assert judged(circuits.sized(judge, WIDTH, least), row, masks) == expected


def test_what_both_parts_of_a_sized_circuit_need_is_built_once() -> None:
    """A row's cells are added up once, and the total of a bound on shares is not added up again."""
    distinct, bounded = circuits.row_distinct(9, WIDTH, 3), circuits.row_bounded(9, WIDTH, (1, 2))
    assert circuits.sized(distinct, WIDTH, 20).n_and <= distinct.n_and + 10 * WIDTH + 2
    assert circuits.sized(bounded, WIDTH, 20).n_and <= bounded.n_and + 2 * WIDTH + 2


def test_prepared_words_take_less_than_half_of_the_gates() -> None:
    small, large = (
        circuits.sized(made(14, WIDTH, 3), WIDTH, 20) for made in (circuits.row_different, circuits.row_distinct)
    )
    assert small.n_and < large.n_and / 2
