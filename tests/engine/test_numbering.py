"""Numbers of keys and of equal rows, against sorted sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.engine import distinct_rows, first_rows, group_rows, look_up, occurring, renumber, rows_by_rank

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
