"""Counts, against dictionaries; and that they add up over chunks of rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from masquerade.engine import pair_counts, value_counts, weighted_counts, which_occur

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
