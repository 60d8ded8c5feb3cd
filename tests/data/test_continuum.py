"""Numbers, dates and intervals as text, and the ranks of intervals."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from masquerade.data import (
    Continuum,
    NumberStyle,
    days,
    read_date,
    read_interval,
    read_number,
    write_interval,
    write_number,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (5.0, "5"),
        (-3, "-3"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.30000000000000004"),
        (-2.50, "-2.5"),
        (1e20, "1e+20"),
        (1e15, "1000000000000000"),
        (1e17, "100000000000000000"),
        (2**53 + 1, "9007199254740993"),
        (2**63 - 1, "9223372036854775807"),
        (1e-7, "1e-07"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (np.int64(7), "7"),
        (np.float64(0.5), "0.5"),
    ],
)
def test_a_number_is_written_short(value: float, text: str) -> None:
    assert write_number(value) == text
    assert read_number(text) == value


@pytest.mark.parametrize(
    ("text", "number"),
    [("+5", 5), ("-0", 0), ("1.0", 1), ("007", 7), (".5", 0.5), ("5.", 5), ("1e3", 1000), ("1E+3", 1000)],
)
def test_numbers_may_be_written_in_other_ways(text: str, number: float) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize(
    "text", ["", " ", "abc", "nan", "Infinity", "1_000", "1,5", "0x10", "٣", "1e999", "9" * 5000, "--1", "1 2", "+inf"]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_number(text)


def test_whole_numbers_beyond_64_bits_count_as_decimals() -> None:
    number = read_number("100000000000000000000000")
    assert isinstance(number, float)
    assert number == 1e23


def test_dates_are_days_since_1970() -> None:
    assert days(datetime.date(1970, 1, 2)) == 1
    assert write_number(-1, "date") == "1969-12-31"
    assert read_number("2000-02-29", "date") == 11016


@pytest.mark.parametrize("text", ["2001-02-29", "20010228", "2001-W01-1", "2001-2-3", "5", "2001-02-28 ", "0000-01-01"])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_number(text, "date")


@given(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False))
def test_numbers_read_back(number: float) -> None:
    assert read_number(write_number(number)) == number


@given(st.dates())
def test_dates_read_back(date: datetime.date) -> None:
    assert write_number(days(date), "date") == date.isoformat()
    assert read_number(date.isoformat(), "date") == days(date)


def test_intervals() -> None:
    assert write_interval(0, 37.5) == "[0, 37.5)"
    assert write_interval(float("-inf"), 0.0) == "[-inf, 0)"
    assert write_interval(0, 365, "date") == "[1970-01-01, 1971-01-01)"
    assert read_interval(" [ -5 ,1.0) ") == (-5, 1)
    assert read_interval("[1970-01-01,inf)", "date") == (0, math.inf)


@pytest.mark.parametrize(
    "text", ["", "5", "[1, 2]", "(1, 2)", "[2, 1)", "[1, 1)", "[a, 2)", "[1, 2, 3)", "[1)", "[nan, 2)", "x[1, 2)"]
)
def test_what_is_no_interval(text: str) -> None:
    assert read_interval(text) is None


def test_an_interval_of_dates_is_none_of_numbers() -> None:
    assert read_interval("[1980-01-01, 1990-01-01)") is None
    assert read_interval("[1980, 1990)", "date") is None


@given(st.text(alphabet="[]() ,.-+0123456789einfa", max_size=20))
def test_any_text_is_an_interval_or_not(text: str) -> None:
    ends = read_interval(text)
    if ends is not None:
        assert ends[0] < ends[1]
        assert read_interval(write_interval(*ends)) == ends


AGES = Continuum(np.array([18, 25, 37, 60]))


def test_outer_ends_are_not_somebodys_values() -> None:
    assert AGES.size == 4
    assert AGES.label(0, 4) == "[-inf, inf)"
    assert AGES.label(0, 2) == "[-inf, 37)"
    assert AGES.label(1, 3) == "[25, 60)"
    assert AGES.label(2, 4) == "[37, inf)"
    assert Continuum(AGES.values, lower=0, upper=120).label(0, 4) == "[0, 120)"
    assert Continuum(AGES.values, lower=0, upper=120).label(3, 4) == "[60, 120)"


def test_the_range_of_any_interval_is_the_values_inside() -> None:
    assert AGES.range_of("[20, 40)") == (1, 3)
    assert AGES.range_of("[25, 37)") == (1, 2)
    assert AGES.range_of("[24.5, 37.5)") == (1, 3)
    assert AGES.range_of("[-inf, inf)") == (0, 4)
    assert AGES.range_of("[61, 70)") == (4, 4)
    assert AGES.range_of("37") is None
    assert AGES.range_of("[1e30, 1e31)") == (4, 4)
    assert AGES.range_of("[-1e30, 37)") == (0, 2)


def test_large_whole_numbers_are_not_rounded() -> None:
    big = Continuum(np.array([2**53, 2**53 + 1, 2**53 + 2]))
    assert big.label(1, 2) == f"[{2**53 + 1}, {2**53 + 2})"
    assert big.range_of(f"[{2**53 + 1}, {2**53 + 2})") == (1, 2)


def test_no_values_at_all() -> None:
    assert Continuum(np.array([], np.int64)).label(0, 0) == "[-inf, inf)"


@settings(deadline=None)
@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=8, unique=True)
    | st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8, unique=True),
    st.data(),
)
def test_labels_and_ranges_of_ranks_are_inverse(numbers: list[float], data: st.DataObject) -> None:
    continuum = Continuum(np.unique(np.array(numbers)))
    lo = data.draw(st.integers(0, continuum.size - 1))
    hi = data.draw(st.integers(lo + 1, continuum.size))
    assert continuum.range_of(continuum.label(lo, hi)) == (lo, hi)


STYLES = [
    (NumberStyle(",", ".", "€"), {"1.234,50 €": "1234.50", "-7 €": "-7", "€12": "12", "3,5": "3.5"}),
    (NumberStyle(".", ",", "$"), {"$1,234.00": "1234.00", "-$5": "-5", "$-5": "-5", "1,234,567": "1234567"}),
    (NumberStyle(",", " "), {"1 234,5": "1234.5", "1\u202f234": "1234", "12": "12"}),
    (NumberStyle(unit="kg"), {"70 kg": "70", "70.5kg": "70.5", "1e3 kg": "1e3"}),
]


@pytest.mark.parametrize(("style", "cells"), STYLES)
def test_numbers_of_other_styles_are_written_in_the_usual_way(style: NumberStyle, cells: dict[str, str]) -> None:
    assert {cell: style.usual(cell) for cell in cells} == cells


@pytest.mark.parametrize("cell", ["12,34.5", "1,2345", "$", "$ 5 $ 5", "--5", "-$-5", "1.5.2", "", "5 €", "kg"])
def test_what_is_no_number_of_a_style_is_refused(cell: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        NumberStyle(".", ",", "$").usual(cell)


@pytest.mark.parametrize("cell", ["2024-05-01", "2024-05-01T23:59Z", "2024-05-01 23:59:59.123-05:00"])
def test_the_day_of_an_iso_time_is_the_one_that_is_written(cell: str) -> None:
    assert read_date(cell, "iso") == days(datetime.date(2024, 5, 1))


@pytest.mark.parametrize("cell", ["2024-13-01", "2024-05-01T", "2024-05-01T23", "01.05.2024", "20240501"])
def test_other_times_are_no_iso_times(cell: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_date(cell, "iso")
