"""Counts, against dictionaries; and that they add up over chunks of rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from examples import examples
from masquerade.engine import (
    distinct_rows,
    first_rows,
    group_rows,
    look_up,
    occurring,
    pair_counts,
    renumber,
    rows_by_rank,
    value_counts,
    weighted_counts,
    which_occur,
)

N_LABELS, N_CODES = 5, 4


@st.composite
def chunks(draw: st.DrawFn) -> list[tuple[NDArray[np.int64], NDArray[np.int32]]]:
    """A table's labels and codes in one or several chunks of rows, some of them empty."""
    row = st.tuples(st.integers(0, N_LABELS - 1), st.integers(0, N_CODES - 1))
    return [
        (np.array([label for label, _ in rows], np.int64), np.array([code for _, code in rows], np.int32))
        for rows in draw(st.lists(st.lists(row, max_size=12), min_size=1, max_size=4))
    ]


@given(chunks())
def test_they_add_up_over_chunks(parts: list[tuple[NDArray[np.int64], NDArray[np.int32]]]) -> None:
    labels = np.concatenate([each for each, _ in parts])
    codes = np.concatenate([each for _, each in parts])
    counts = sum(value_counts(each, N_CODES) for _, each in parts)
    pairs = sum(pair_counts(own, each, N_LABELS, N_CODES) for own, each in parts)
    weights = sum(weighted_counts(each, own, N_CODES) for own, each in parts)
    present = np.logical_or.reduce([which_occur(each, N_CODES) for _, each in parts])
    assert np.array_equal(counts, value_counts(codes, N_CODES))
    assert np.array_equal(pairs, pair_counts(labels, codes, N_LABELS, N_CODES))
    assert np.array_equal(weights, weighted_counts(codes, labels, N_CODES))
    assert np.array_equal(present, which_occur(codes, N_CODES))


@given(chunks())
def test_they_are_what_one_counts_by_hand(parts: list[tuple[NDArray[np.int64], NDArray[np.int32]]]) -> None:
    labels, codes = parts[0]
    by_hand = Counter(zip(labels.tolist(), codes.tolist(), strict=True))
    expected = [[by_hand[label, code] for code in range(N_CODES)] for label in range(N_LABELS)]
    assert pair_counts(labels, codes, N_LABELS, N_CODES).tolist() == expected
    assert value_counts(codes, N_CODES).tolist() == [sum(column) for column in zip(*expected, strict=True)]
    one_code = pair_counts(labels, np.zeros_like(codes), N_LABELS, 1)
    assert one_code.tolist() == [[sum(row)] for row in expected]
    sums = [sum(label * row[code] for label, row in enumerate(expected)) for code in range(N_CODES)]
    assert weighted_counts(codes, labels, N_CODES).tolist() == sums


# --- numbers of keys and of equal rows, against sorted sets ---


WIDTHS = [np.int8, np.int32, np.int64, np.uint8, np.uint32]


@st.composite
def coded(draw: st.DrawFn) -> tuple[list[tuple[np.ndarray, int]], int]:  # type: ignore[type-arg] # of any width
    """Columns of codes whose bounds reach from one value to far more than there are rows."""
    n_rows = draw(st.integers(0, 30))
    columns = []
    for bound in draw(st.lists(st.sampled_from([1, 2, 3, 100, 70_000, 2**31 - 1]), max_size=7)):
        width = draw(st.sampled_from([w for w in WIDTHS if bound - 1 <= np.iinfo(w).max]))
        few = draw(st.lists(st.integers(0, bound - 1), min_size=1, max_size=3))  # so that rows agree now and then
        codes = draw(st.lists(st.sampled_from(few), min_size=n_rows, max_size=n_rows))
        columns.append((np.array(codes, width), bound))
    return columns, n_rows


@given(coded())
@settings(max_examples=examples(300), deadline=None)
def test_numbered_in_lexicographic_order(case: tuple[list[tuple[np.ndarray, int]], int]) -> None:  # type: ignore[type-arg]
    columns, n_rows = case
    before = [codes.copy() for codes, _ in columns]
    labels, n_groups = group_rows(columns, n_rows)
    rows = [tuple(int(codes[row]) for codes, _ in columns) for row in range(n_rows)]
    number = {row: position for position, row in enumerate(sorted(set(rows)))}
    assert labels.dtype == np.int64
    assert labels.tolist() == [number[row] for row in rows]
    assert n_groups == len(number)
    assert all((old == codes).all() for old, (codes, _) in zip(before, columns, strict=True))


@pytest.mark.parametrize("bounds", [[20] * 14, [3000] * 6, [7, 40_000, 7, 40_000, 7], [2**31 - 1] * 4])
def test_many_rows(bounds: list[int]) -> None:
    rng = np.random.default_rng(3)
    n_rows = 30_000
    columns = [rng.integers(0, bound, 500)[rng.integers(0, 500, n_rows)] for bound in bounds]
    labels, n_groups = group_rows(zip(columns, bounds, strict=True), n_rows)
    distinct, expected = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    assert n_groups == len(distinct)
    assert (labels == expected.ravel()).all()


@pytest.mark.parametrize("bound", [6, 70_000, 2**40])  # by a table, and by sorting
@given(keys=st.lists(st.integers(0, 5), max_size=20))
def test_keys_that_occur(bound: int, keys: list[int]) -> None:
    rows = np.array(keys, np.int64)
    different = sorted(set(keys))
    found, sizes = occurring(rows, bound)
    assert found.tolist() == different
    assert sizes.tolist() == [keys.count(key) for key in different]
    numbers, key_of_number = renumber(rows, bound)
    assert key_of_number.tolist() == different
    assert numbers.tolist() == [different.index(key) for key in keys]
    assert look_up(rows, found, np.arange(found.size), bound).tolist() == numbers.tolist()
    assert first_rows(numbers, found.size).tolist() == [keys.index(key) for key in different]
    assert rows.tolist() == keys


@pytest.mark.parametrize("n_ranks", [200, 60_000, 3_000_000])
def test_rows_by_rank_keeps_the_order_of_equals(n_ranks: int) -> None:
    ranks = np.random.default_rng(5).integers(0, n_ranks, 20_000)
    ranks[::3] = ranks[0]
    assert np.array_equal(rows_by_rank(ranks, n_ranks), np.argsort(ranks, kind="stable"))


@pytest.mark.parametrize("columns", [1, 3])
def test_distinct_rows(columns: int) -> None:
    rows = np.random.default_rng(2).integers(0, 3, (50, columns)).astype(np.uint64)
    found, times = distinct_rows(rows)
    listed = [tuple(row) for row in rows.tolist()]
    assert [tuple(row) for row in found.tolist()] == sorted(set(listed))
    assert times.tolist() == [listed.count(row) for row in sorted(set(listed))]
    assert found.shape[1] == columns
