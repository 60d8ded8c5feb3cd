"""Keys, against every set of columns and every pair of rows."""

from __future__ import annotations

import math
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import masquerade as mq
from masquerade.errors import AnswerIsNo, ParameterError
from masquerade.risk.sampling import pairs_for_beta, pairs_for_key, tuples_for_key
from risk import brute_force as by_definition
from strategies import column

TABLE_1 = {
    "age": ["20", "30", "40", "20", "40"],
    "sex": ["Female", "Female", "Female", "Male", "Male"],
    "state": ["CA", "CA", "TX", "NY", "CA"],
}
MEASURES = st.sampled_from(["distinct", "separation"])
BETAS = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9, 1.0])


@st.composite
def cells(draw: st.DrawFn, most_rows: int = 9) -> by_definition.Cells:
    n = draw(st.integers(1, most_rows))
    return {name: draw(column(["x", "y", "z"], n)) for name in "abcd"[: draw(st.integers(1, 4))]}


@pytest.mark.parametrize(
    ("columns", "distinct", "separation"),
    [(["age"], 0.6, 0.8), (["sex", "state"], 0.8, 0.9), (["age", "state"], 1, 1), (["age", "sex"], 1, 1)],
)
def test_the_ratios_of_table_1(columns: list[str], distinct: float, separation: float) -> None:
    assert mq.ratios(pa.table(TABLE_1), columns) == {"distinct": distinct, "separation": separation}


def test_the_minimum_keys_of_table_1() -> None:
    table = pa.table(TABLE_1)
    assert mq.keys(table).key == mq.keys(table, exact=True).key == ("age", "sex")
    listed = mq.keys(table, all=True, beta=1.0).keys
    assert listed == ((("age", "sex"), 1.0), (("age", "state"), 1.0))


@given(cells(), MEASURES)
def test_ratios_are_the_definitions(table: by_definition.Cells, measure: str) -> None:
    found = mq.ratios(pa.table(table), list(table))
    assert found[measure] == pytest.approx(float(by_definition.ratio(table, list(table), measure)))  # type: ignore[index]


@given(cells(), st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.5]), min_size=4, max_size=4))
def test_the_exact_key_is_the_lightest_and_the_greedy_one_is_minimal(
    table: by_definition.Cells, drawn: list[float]
) -> None:
    weights = dict(zip(table, drawn, strict=False))
    exact = mq.keys(pa.table(table), exact=True, weights=weights)
    assert by_definition.is_key(table, exact.key)
    assert sum(weights[name] for name in exact.key) == by_definition.smallest_weight(table, weights)
    rows = by_definition.rows_of(table, tuple(table))
    assert exact.duplicates == len(rows) - len(set(rows))
    greedy = mq.keys(pa.table(table), weights=weights).key
    assert by_definition.is_key(table, greedy)
    assert not any(by_definition.is_key(table, [each for each in greedy if each != name]) for name in greedy)


@given(cells(), MEASURES, BETAS, st.integers(1, 4))
def test_all_minimal_quasi_identifiers(table: by_definition.Cells, measure: str, beta: float, most: int) -> None:
    expected = by_definition.minimal(table, measure, Fraction(str(beta)), most)
    if not expected:
        with pytest.raises(AnswerIsNo, match="or fewer reach"):
            mq.keys(pa.table(table), measure=measure, all=True, beta=beta, max_size=most)  # type: ignore[arg-type]
        return
    found = mq.keys(pa.table(table), measure=measure, all=True, beta=beta, max_size=most)  # type: ignore[arg-type]
    assert found.keys is not None
    assert {key for key, _ in found.keys} == expected
    assert [len(key) for key, _ in found.keys] == sorted(len(key) for key, _ in found.keys)
    for key, ratio in found.keys:
        assert ratio == pytest.approx(float(by_definition.ratio(table, key, measure)))


@given(cells(), MEASURES, BETAS)
def test_a_set_that_reaches_beta(table: by_definition.Cells, measure: str, beta: float) -> None:
    best = by_definition.ratio(table, list(table), measure)
    if best < Fraction(str(beta)):
        with pytest.raises(AnswerIsNo, match="all together have"):
            mq.keys(pa.table(table), measure=measure, beta=beta)  # type: ignore[arg-type]
    else:
        found = mq.keys(pa.table(table), measure=measure, beta=beta)  # type: ignore[arg-type]
        assert by_definition.ratio(table, found.key, measure) >= Fraction(str(beta))


def test_the_sample_sizes_of_the_paper() -> None:
    assert pairs_for_key(54, 0.001, 0.01) == math.ceil(math.log(2**54 / 0.01) / math.log(1 / 0.999))
    needed = math.sqrt(2 * 0.9 / 0.1 * 581_012 * math.log(2**54 / 0.01))
    assert tuples_for_key(54, 581_012, 0.1, 0.01) == math.ceil(needed)
    assert pairs_for_beta(10, 0.9, 0.1, 0.01) == math.ceil(16 / (0.9 * 0.01) * math.log(2**10 / 0.01))


def test_a_sampled_key_is_nearly_one() -> None:
    n = 20_000
    table = pa.table({"row": list(range(n)), "half": [at // 2 for at in range(n)], "few": [at % 3 for at in range(n)]})
    by_rows = mq.keys(table, epsilon=0.1, delta=0.01)
    assert by_rows.sampled == tuples_for_key(3, n, 0.1, 0.01) < n
    assert by_rows.ratio >= 0.9
    by_pairs = mq.keys(table, measure="separation", epsilon=0.01, delta=0.01)
    assert by_pairs.sampled == pairs_for_key(3, 0.01, 0.01)
    assert len(by_pairs.key) == 1
    assert by_pairs.ratio >= 0.99
    few = mq.keys(table, measure="separation", beta=0.6, epsilon=0.2, delta=0.1, weights={"few": 0.1})
    assert (few.key, few.sampled) == (("few",), pairs_for_beta(3, 0.6, 0.2, 0.1))


def test_a_sample_that_would_be_larger_than_the_table_is_the_table() -> None:
    found = mq.keys(pa.table(TABLE_1), epsilon=0.1, delta=0.01)
    assert found.sampled is None
    assert found.key == ("age", "sex")


def test_cells_that_differ_in_space_alone_are_one_value() -> None:
    table = pa.table({"a": ["x", " x", "y"], "b": [None, "", "?"]})
    assert mq.ratios(table, ["a"])["distinct"] == pytest.approx(2 / 3)
    assert mq.ratios(table, ["b"])["distinct"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0.1}, "belong together"),
        ({"epsilon": 0, "delta": 0.1}, "epsilon must be above 0"),
        ({"epsilon": 0.1, "delta": 1.5}, "delta must be above 0"),
        ({"beta": 0}, "beta must be above 0"),
        ({"beta": 1.1}, "beta must be above 0"),
        ({"exact": True, "beta": 0.5}, "exact looks for the smallest key"),
        ({"all": True}, "all needs beta"),
        ({"all": True, "beta": 0.5, "max_size": 0}, "max_size must be"),
        ({"beta": 0.5, "epsilon": 0.1, "delta": 0.1}, "no small sample tells the distinct ratio"),
        ({"measure": "entropy"}, 'must be "distinct" or "separation"'),
        ({"seed": -1}, "seed parameter"),
        ({"weights": {"agee": 1}}, 'no column "agee" \\(did you mean "age"'),
        ({"weights": {"age": 0}}, "weight of age must be a finite number above 0"),
        ({"weights": {"age": float("inf")}}, "finite number above 0"),
    ],
)
def test_what_cannot_be_asked(options: dict[str, object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        mq.keys(pa.table(TABLE_1), **options)  # type: ignore[arg-type]


def test_columns_that_are_not_there() -> None:
    with pytest.raises(mq.DataError, match='no column "zip"'):
        mq.keys(pa.table(TABLE_1), columns=["zip"])
    with pytest.raises(mq.DataError, match="no row of data"):
        mq.keys(pa.table({"a": pa.array([], pa.string())}))


def test_rows_that_are_probably_doubles() -> None:
    """One person of ten is there twice, with the name misspelt and another number."""
    table = pa.table(
        {
            "number": list(range(11)),
            "name": [f"n{at}" for at in range(10)] + ["N3"],
            "born": [f"19{at + 50}" for at in range(10)] + ["1953"],
            "town": ["x", "y"] * 5 + ["y"],
        }
    )
    found = mq.fuzzy_duplicates(table, 0.1)
    assert (found.columns, found.groups) == (("born",), ((4, 11),))
    with pytest.raises(AnswerIsNo, match="of the rows apart"):
        mq.fuzzy_duplicates(table, 0.1, columns=["town"])
    with pytest.raises(ParameterError, match="rate must be"):
        mq.fuzzy_duplicates(table, 1.0)
    thirds = pa.table({"x": list("aaaabbbccc"), "y": list("abcdefghij")})
    assert mq.fuzzy_duplicates(thirds, 0.7).columns == ("x",)  # 3 of 10, though 1 - 0.7 is a little above 0.3
