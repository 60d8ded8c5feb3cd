"""Scores against the checked example, Table 1 of the data-integration paper, and entropies by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from examples import examples
from masquerade.errors import ParameterError
from masquerade.utility import FIXED_ONE, SCORES, entropy_sum, fixed, info_gain, score_named
from masquerade.utility.scores import split_info

# Class counts (Y, N) of the children, from Table 1.
SALARY_AT_37 = [[2, 10], [19, 3]]
JOB = [[5, 11], [16, 2]]
BLUE_COLLAR = [[0, 7], [5, 4]]
LOW_SALARY_AT_35 = [[0, 7], [2, 3]]
HIGH_SALARY_AT_44 = [[7, 3], [12, 0]]
SEX = [[7, 10], [14, 3]]
WHITE_COLLAR = [[7, 2], [9, 0]]
TECHNICAL = [[2, 3], [3, 1]]

SALARIES = [(30, 0, 3), (32, 0, 4), (35, 2, 3), (37, 3, 1), (42, 4, 2), (44, 12, 0)]  # value, Y, N


def counts(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    return np.array(rows, np.int64)


def entropy(sizes: Sequence[int]) -> float:
    total = sum(sizes)
    return -sum(size / total * math.log2(size / total) for size in sizes if size)


def gain(rows: Sequence[Sequence[int]]) -> float:
    total = sum(map(sum, rows))
    before = entropy([sum(column) for column in zip(*rows, strict=True)])
    return before - sum(sum(row) / total * entropy(row) for row in rows if sum(row))


children = (
    st.integers(1, 4)
    .flatmap(
        lambda width: st.lists(st.lists(st.integers(0, 50), min_size=width, max_size=width), min_size=1, max_size=5)
    )
    .filter(lambda rows: sum(map(sum, rows)) > 0)
)


def test_information_gain_and_split_information_of_the_checked_example_and_of_nobody() -> None:
    assert info_gain(counts(JOB)) == pytest.approx(0.272, abs=5e-4)
    assert split_info(counts(JOB)) == pytest.approx(0.998, abs=5e-4)
    assert info_gain(counts(SALARY_AT_37)) == pytest.approx(0.3584, abs=5e-5)
    nothing = counts([[0, 0], [0, 0]])
    assert info_gain(nothing) == split_info(nothing) == 0


@pytest.mark.parametrize(
    ("rows", "score"),
    [
        pytest.param(SALARY_AT_37, 0.3827, id="salary at 37"),
        pytest.param(JOB, 0.2723, id="any job"),
        pytest.param(BLUE_COLLAR, 0.3424, id="blue-collar"),
        pytest.param(LOW_SALARY_AT_35, 0.2505, id="low salary at 35"),
        pytest.param(HIGH_SALARY_AT_44, 0.1751, id="high salary at 44"),
        pytest.param(SEX, 0.1348, id="any sex"),
        pytest.param(WHITE_COLLAR, 0.1212, id="white-collar"),
        pytest.param(TECHNICAL, 0.0919, id="technical"),
    ],
)
def test_gain_ratio_of_the_checked_example(rows: list[list[int]], score: float) -> None:
    ratio = SCORES["gain-ratio"]
    rated = ratio.rate(ratio.base(counts(rows)), anonymity_loss=3.0)  # which this score ignores
    assert rated / FIXED_ONE == pytest.approx(score, abs=5e-5)


def test_the_best_split_of_salary_is_at_37() -> None:
    table = counts([row[1:] for row in SALARIES])
    left = np.cumsum(table, axis=0)[:-1]
    gains = SCORES["gain-ratio"].split_gains(left, table.sum(axis=0) - left)
    assert SALARIES[int(np.argmax(gains)) + 1][0] == 37
    assert gains.max() / FIXED_ONE == pytest.approx(0.3584, abs=5e-5)


def test_fixed_point_is_the_nearest_multiple_of_two_to_the_minus_32() -> None:
    unit = 2.0**-32
    assert fixed(0.0) == 0
    assert fixed(1.0) == 2**32
    assert fixed(0.4 * unit) == 0
    assert fixed(0.6 * unit) == 1
    assert fixed(-0.6 * unit) == -1
    assert fixed(-1e-17) == 0  # what rounding leaves of a gain of nothing
    assert fixed(0.1 + 0.2) == fixed(0.3)


def test_of_equal_split_gains_the_first_wins() -> None:
    # Y N N Y: cutting off the first or the last record gains the same.
    table = counts([[1, 0], [0, 1], [0, 1], [1, 0]])
    left = np.cumsum(table, axis=0)[:-1]
    right = table.sum(axis=0) - left
    for score in SCORES.values():
        gains = score.split_gains(left, right, np.array([[3, 1], [2, 2], [1, 3]]))
        assert gains[0] == gains[2]
    assert int(np.argmax(SCORES["gain-ratio"].split_gains(left, right))) == 0


def test_without_split_information_the_gain_ratio_is_the_gain() -> None:
    one_child = counts([[4, 6], [0, 0]])
    assert split_info(one_child) == 0
    ratio = SCORES["gain-ratio"]
    assert ratio.rate(ratio.base(one_child), 0.0) == fixed(info_gain(one_child)) == 0


def test_gain_for_each_unit_of_anonymity_lost() -> None:
    score = SCORES["info-gain-per-anonymity-loss"]
    base = score.base(counts(SALARY_AT_37))
    assert score.weighs_anonymity
    assert score.rate(base, 0.0) == SCORES["info-gain"].rate(base, 0.0)
    assert score.rate(base, 2.5) / FIXED_ONE == pytest.approx(gain(SALARY_AT_37) / 3.5, abs=1e-9)


def test_discernibility_counts_the_pairs_that_are_told_apart() -> None:
    score = SCORES["discernibility"]
    assert score.base(counts([[2, 10], [19, 3]])) == 34**2 - 12**2 - 22**2
    assert score.rate(3, 0.0) == 3 * FIXED_ONE
    # A billion records: no floating point may round here.
    huge = counts([[10**9], [10**9 + 1]])
    assert score.rate(score.base(huge), 0.0) == 2 * 10**9 * (10**9 + 1) * FIXED_ONE


def test_discernibility_splits_in_the_middle() -> None:
    table = counts([[1]] * 6)
    left = np.cumsum(table, axis=0)[:-1]
    gains = SCORES["discernibility"].split_gains(left, 6 - left)
    assert gains.tolist() == [36 - 1 - 25, 36 - 4 - 16, 36 - 9 - 9, 36 - 16 - 4, 36 - 25 - 1]


@pytest.mark.parametrize(
    ("rows", "by_class", "by_discernibility"),
    [
        pytest.param([[3, 0], [2, 0]], False, True, id="one class"),
        pytest.param([[3, 1], [0, 0]], True, False, id="one child"),
        pytest.param([[3, 0], [0, 1]], True, True, id="two of each"),
        pytest.param([[0, 0], [0, 0]], False, False, id="nobody"),
    ],
)
def test_when_a_specialization_is_beneficial(rows: list[list[int]], by_class: bool, by_discernibility: bool) -> None:
    assert SCORES["gain-ratio"].beneficial(counts(rows)) is by_class
    assert SCORES["discernibility"].beneficial(counts(rows)) is by_discernibility


@given(children)
@settings(deadline=None, max_examples=examples(80))
def test_entropies_by_hand(rows: list[list[int]]) -> None:
    table = counts(rows)
    assert info_gain(table) == pytest.approx(gain(rows), abs=1e-9)
    assert split_info(table) == pytest.approx(entropy([sum(row) for row in rows]), abs=1e-9)
    sums = [sum(row) * entropy(row) if sum(row) else 0.0 for row in rows]
    assert entropy_sum(table) == pytest.approx(sums, abs=1e-9)


@given(children, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=examples(80))
def test_the_order_of_children_and_classes_decides_nothing(rows: list[list[int]], random: Random) -> None:
    shuffled = [(row, 7 * at) for at, row in enumerate(rows)]  # each child with its relief
    random.shuffle(shuffled)
    order = list(range(len(rows[0])))
    random.shuffle(order)
    other = counts([row for row, _ in shuffled])[:, order]
    relief, moved = 7 * np.arange(len(rows)), np.array([each for _, each in shuffled])
    for score in SCORES.values():
        before, after = score.base(counts(rows), relief), score.base(other, moved)
        assert score.rate(before, 1.5) == score.rate(after, 1.5)
        assert score.beneficial(counts(rows)) == score.beneficial(other)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=8))
@settings(deadline=None, max_examples=examples(80))
def test_split_gains_are_those_of_two_children(values: list[tuple[int, int]]) -> None:
    values[0] = (values[0][0] + 1, values[0][1])  # records on both sides
    values[-1] = (values[-1][0], values[-1][1] + 1)
    table = counts(values)
    left = np.cumsum(table, axis=0)[:-1]
    right = table.sum(axis=0) - left
    gains = SCORES["info-gain"].split_gains(left, right)
    pairs = SCORES["discernibility"].split_gains(left, right)
    relief = np.arange(2 * len(left)).reshape(-1, 2)
    saved = SCORES["certainty"].split_gains(left, right, relief)
    for position, halves in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        assert gains[position] / FIXED_ONE == pytest.approx(gain(halves), abs=1e-9)
        sizes = [sum(half) for half in halves]
        assert pairs[position] == sum(sizes) ** 2 - sizes[0] ** 2 - sizes[1] ** 2
        assert saved[position] == SCORES["certainty"].base(counts(halves), relief[position])


def test_certainty_is_the_penalty_that_records_save() -> None:
    """Ten records under a value of 4 of 8 leaves: 6 go to a leaf, 4 to a value of 3 leaves."""
    score = SCORES["certainty"]
    half, three = FIXED_ONE // 2, 3 * FIXED_ONE // 8
    base = score.base(counts([[2, 4], [1, 3]]), np.array([half - 0, half - three]))
    assert score.rate(base, anonymity_loss=5.0) == 6 * half + 4 * (half - three) == int(3.5 * FIXED_ONE)
    assert not score.recomputable
    assert all(each.recomputable for each in SCORES.values() if each is not score)


def test_certainty_outweighs_suppressed_records_that_cost_no_more() -> None:
    score = SCORES["certainty"]
    assert score.worth(6 * FIXED_ONE, left_out=3, n_attributes=2)
    assert not score.worth(6 * FIXED_ONE - 1, left_out=3, n_attributes=2)
    assert SCORES["gain-ratio"].worth(0.0, left_out=3, n_attributes=2)


def test_a_score_by_its_name() -> None:
    assert score_named("info-gain", has_class=True).name == "info-gain"
    assert score_named(None, has_class=True).name == "gain-ratio"
    assert score_named(None, has_class=False).name == "discernibility"
    assert score_named("discernibility", has_class=True).name == "discernibility"
    with pytest.raises(ParameterError, match=r'no score "gain_ratio" .did you mean "gain-ratio"') as caught:
        score_named("gain_ratio", has_class=True)
    assert all(name in str(caught.value) for name in SCORES)


@pytest.mark.parametrize("name", ["gain-ratio", "info-gain", "info-gain-per-anonymity-loss"])
def test_scores_that_need_a_class_say_so(name: str) -> None:
    with pytest.raises(ParameterError, match=f'"{name}" needs a class attribute'):
        score_named(name, has_class=False)
