"""From cells to ranks, and the one clear line when a cell has none."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.data import (
    Attribute,
    Branch,
    Column,
    Continuum,
    Origin,
    Table,
    Taxonomy,
    code,
    distinct,
    encode,
    fingerprints,
    missing_rows,
    read_interval,
    texts,
)
from masquerade.errors import DataError, ParameterError, TaxonomyError
from strategies import DECADES, tables

JOBS = Taxonomy(Branch("Any", (Branch("Blue", (Branch("Baker"), Branch("Welder"))), Branch("Lawyer"))), "jobs.csv")


wrong = Origin("people.csv").problem


def ranks(attribute: Attribute, cells: Any, kind: pa.DataType | None = None) -> Column:
    array = cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([pa.array(cells, kind)])
    return encode(attribute, array, wrong)


def problem(attribute: Attribute, cells: Any, kind: pa.DataType | None = None) -> str:
    with pytest.raises(DataError) as caught:
        ranks(attribute, cells, kind)
    assert len(caught.value.lines) == 1
    return caught.value.lines[0]


def points(column: Column) -> list[float]:
    assert isinstance(column.domain, Continuum)
    return [value.item() for value in column.domain.values]


# --- categories ---


def test_a_category_has_the_rank_of_its_leaf() -> None:
    column = ranks(Attribute("job", taxonomy=JOBS), ["Lawyer", " Baker\t", "Welder", "Baker"])
    assert column.ranks.tolist() == [2, 0, 1, 0]
    assert column.ranks.dtype == np.int32
    assert column.domain is JOBS


def test_generalised_cells_are_the_names_of_the_cut() -> None:
    column = ranks(Attribute("job", taxonomy=JOBS), ["Lawyer", "Baker", "Welder"])
    released = column.generalise(np.array([0, 2]))
    assert released.to_arrow().to_pylist() == ["Lawyer", "Blue", "Blue"]
    assert released.labels == ("Blue", "Lawyer")
    assert (released.lo.tolist(), released.hi.tolist()) == ([0, 2], [2, 3])


def test_an_unknown_value_is_told_with_its_row_and_the_nearest_leaf() -> None:
    job = Attribute("job", taxonomy=JOBS)
    assert problem(job, ["Baker", "Lowyer", "Lowyer"]) == (
        'people.csv: row 2, column job: "Lowyer" is no leaf of taxonomy jobs.csv; the nearest leaf is "Lawyer"'
    )
    assert problem(job, ["BAKER"]).endswith('the nearest leaf is "Baker"')
    assert problem(job, ["12345"]).endswith('its leaves are like "Baker"')
    assert '"Blue" is no leaf' in problem(job, ["Blue"])


def test_of_several_unknown_values_the_first_row_is_told() -> None:
    assert '"zzz"' in problem(Attribute("job", taxonomy=JOBS), ["Baker", "zzz", "Welder", "aaa"])


def test_a_categorical_attribute_needs_a_taxonomy() -> None:
    assert problem(Attribute("job"), ["Baker"]) == (
        'attribute job: a categorical attribute of a QID needs a taxonomy; name a file, or "flat"'
    )


def test_flat_is_made_of_the_values_that_occur() -> None:
    column = ranks(Attribute("job", taxonomy="flat"), ["b", "a ", "b", "a"])
    assert column.ranks.tolist() == [1, 0, 1, 0]
    assert column.domain.label(0, 2) == "*"
    whole = ranks(Attribute("zip", taxonomy="flat"), [10.0, 2.5])
    assert whole.domain.leaves == ("10", "2.5")  # type: ignore[union-attr] # a taxonomy


def test_flat_numbers_and_dates_stand_in_their_own_order() -> None:
    column = ranks(Attribute("age", "continuous", "flat"), ["10", "9", "9.0"])
    assert column.ranks.tolist() == [1, 0, 0]
    assert column.domain.label(0, 1) == "9"
    assert column.domain.label(0, 2) == "*"
    dates = ranks(Attribute("day", "date", "flat"), ["2001-01-01", "1999-01-01"])
    assert dates.ranks.tolist() == [1, 0]


def test_values_of_a_dictionary_that_no_row_has_do_not_matter() -> None:
    cells = pa.chunked_array([pa.DictionaryArray.from_arrays([1, 0, 1], ["Baker", "Lawyer", "unused"])])
    assert ranks(Attribute("job", taxonomy=JOBS), cells).ranks.tolist() == [2, 0, 2]


# --- numbers ---


@pytest.mark.parametrize(
    ("cells", "values", "expected"),
    [
        (["3", "-1", "3", "0"], [-1, 0, 3], [2, 0, 2, 1]),
        ([3, -1, 3, 0], [-1, 0, 3], [2, 0, 2, 1]),
        (["1", "1.0", "+1", "01", "1e0", " 1 "], [1.0], [0, 0, 0, 0, 0, 0]),
        (["-0", "0", "+0"], [0], [0, 0, 0]),
        (["-0.0", "0.0"], [0.0], [0, 0]),
        ([-0.0, 0.0, 2.5], [0.0, 2.5], [0, 0, 1]),
        ([".5", "5.", "1e1"], [0.5, 5.0, 10.0], [0, 1, 2]),
        ([f"+{2**53 + 1}", str(2**53)], [2**53, 2**53 + 1], [1, 0]),
        ([str(2**63 - 1), str(2**63 - 2)], [2**63 - 2, 2**63 - 1], [1, 0]),
        (["100000000000000000000", "5"], [5.0, 1e20], [1, 0]),
        ([Decimal("1.50"), Decimal("-2.25")], [-2.25, 1.5], [1, 0]),
        ([True, False], None, None),
    ],
    ids=repr,
)
def test_numbers(cells: list[Any], values: list[float] | None, expected: list[int] | None) -> None:
    attribute = Attribute("n", "continuous")
    if values is None:
        assert '"True" is not a number' in problem(attribute, cells)
        return
    column = ranks(attribute, cells)
    assert points(column) == values
    assert column.ranks.tolist() == expected
    assert not any(str(value).startswith("-0") for value in points(column) if value == 0)


def test_unsigned_numbers_beyond_64_bits() -> None:
    column = ranks(Attribute("n", "continuous"), [2**64 - 1, 1], pa.uint64())
    assert points(column) == [1.0, float(2**64 - 1)]


def test_intervals_of_decimals_are_written_short() -> None:
    column = ranks(Attribute("n", "continuous"), ["0.1", "0.30", "1e20", "7"])
    assert column.domain.label(1, 2) == "[0.3, 7)"
    assert column.domain.label(2, 3) == "[7, 1e+20)"
    assert ranks(Attribute("n", "continuous"), [2.0, 3.0, 9.0]).domain.label(1, 2) == "[3, 9)"


@pytest.mark.parametrize("cell", ["abc", "1,5,0", "nan", "inf", "-inf", "1_000", "0x1F", "٣", "1 2", "12a"])
def test_text_in_a_column_of_numbers(cell: str) -> None:
    assert problem(Attribute("age", "continuous"), ["1", cell]) == (
        f'people.csv: row 2, column age: "{cell}" is not a number; '
        "allowed are whole numbers and decimals such as 42, -3.5 or 1e6"
    )


def test_a_decimal_comma() -> None:
    salary = Attribute("salary", "continuous", decimal=",")
    assert points(ranks(salary, ["1,5", "-3", "0,25", "1e3"])) == [-3, 0.25, 1.5, 1000]
    for cell in ("1.5", "1.000,5", "1,5,0"):
        assert f'"{cell}" is not a number; allowed are whole numbers and decimals such as 42, -3,5' in problem(
            salary, ["1", cell]
        )
    hint = problem(Attribute("salary", "continuous"), ["1", "1,5"])
    assert hint.endswith('; for a decimal comma set decimal = ","')


def test_thousands_and_units() -> None:
    charge = Attribute("charge", "continuous", thousands=",", unit="$")
    assert points(ranks(charge, ["$1,234.50", "-$3", "12", "$0.25"])) == [-3, 0.25, 12, 1234.5]
    assert '"5 €" is not a number' in problem(charge, ["1", "5 €"])
    hint = problem(Attribute("charge", "continuous"), ["1", "$5"])
    assert hint.endswith('for a currency unit = "$"')
    with pytest.raises(ParameterError, match="must be different signs"):
        Attribute("charge", "continuous", thousands=".")


def test_iso_times_in_several_ways() -> None:
    seen = Attribute("seen", "date", format="iso")
    assert points(ranks(seen, ["1970-01-02", "1970-01-02T23:00Z", "1970-01-03 10:00:00.5+02:00"])) == [1, 2]
    assert "allowed are dates such as 1980-12-31" in problem(seen, ["1970-01-02", "02.01.1970"])


def test_infinite_numbers_are_refused() -> None:
    age = Attribute("age", "continuous")
    assert problem(age, [1.0, float("inf")]) == "people.csv: row 2, column age: inf is not a finite number"
    assert problem(age, [float("nan")]) == "people.csv: row 1, column age: nan is not a finite number"
    assert problem(age, ["1", "-1e999"]) == "people.csv: row 2, column age: -1e999 is not a finite number"


def test_bounds() -> None:
    age = Attribute("age", "continuous", lower=0, upper=120)
    assert ranks(age, ["0", "119.5"]).domain.label(0, 2) == "[0, 120)"
    assert problem(age, ["5", "120"]) == (
        "people.csv: row 2, column age: 120 is out of bounds; allowed is at least 0 and below 120"
    )
    assert problem(age, [-0.5]).startswith("people.csv: row 1, column age: -0.5 is out of bounds")
    assert problem(Attribute("age", "continuous", lower=18), [17]).endswith("allowed is at least 18")
    born = Attribute("born", "date", lower=0)
    assert problem(born, ["1969-12-31"]) == (
        "people.csv: row 1, column born: 1969-12-31 is out of bounds; allowed is at least 1970-01-01"
    )


# --- dates ---


def test_dates_as_text_dates_and_timestamps_are_the_same_days() -> None:
    born = Attribute("born", "date")
    days = [datetime.date(2000, 2, 29), datetime.date(1969, 12, 31), datetime.date(2000, 2, 29)]
    noon = [datetime.datetime.combine(day, datetime.time(12, 30)) for day in days]
    for cells in ([f" {day} " for day in days], days, noon):
        column = ranks(born, cells)
        assert points(column) == [-1, 11016]
        assert column.ranks.tolist() == [1, 0, 1]
        assert column.domain.label(1, 2) == "[2000-02-29, inf)"
    assert points(ranks(born, days, pa.date64())) == [-1, 11016]


@pytest.mark.parametrize(
    "cell", ["2001-02-29", "29.02.2000", "20000229", "2000-2-29", "0000-01-01", "yesterday", "inf"]
)
def test_what_is_no_date(cell: str) -> None:
    assert problem(Attribute("born", "date"), ["2000-01-01", cell]) == (
        f'people.csv: row 2, column born: "{cell}" is not a date; allowed are dates such as 1980-12-31'
        '; for another way of writing them set format = "%d/%m/%Y" or the like'
    )


def test_dates_in_another_format() -> None:
    born = Attribute("born", "date", format="%d/%m/%Y")
    column = ranks(born, ["29/02/2000", "31/12/1969"])
    assert points(column) == [-1, 11016]
    assert column.domain.label(1, 2) == "[2000-02-29, inf)"
    for cell in ("2000-02-29", "29/02/2001", "1/2"):
        assert problem(born, ["01/01/2000", cell]) == (
            f'people.csv: row 2, column born: "{cell}" is not a date; allowed are dates such as 31/12/1980'
        )


def test_dates_that_no_calendar_writes() -> None:
    cells = pa.array([0, 10**7], pa.int32()).view(pa.date32())
    assert "out of range; allowed are the years 1 to 9999" in problem(Attribute("born", "date"), cells)


# --- fixed taxonomies over numbers ---


def test_fixed_intervals() -> None:
    age = Attribute("age", "continuous", Taxonomy(DECADES, "decades.csv", (0, 10, 20, 30, 40)))
    column = ranks(age, ["0", "9.99", "10", "39", "20"])
    assert column.ranks.tolist() == [0, 0, 1, 3, 2]
    assert column.domain.label(0, 2) == "[0, 20)"
    assert problem(age, ["5", "40"]) == (
        "people.csv: row 2, column age: 40 is in no interval of taxonomy decades.csv, which covers 0 up to 40"
    )
    assert "-0.5 is in no interval" in problem(age, [-0.5])


def test_fixed_intervals_with_open_ends_and_large_whole_numbers() -> None:
    big = 2**53 + 1
    halves = Branch("*", (Branch(f"[-inf, {big})"), Branch(f"[{big}, inf)")))
    taxonomy = Taxonomy(halves, edges=(float("-inf"), big, float("inf")))
    column = ranks(Attribute("n", "continuous", taxonomy), [big - 1, big, -(2**60)])
    assert column.ranks.tolist() == [0, 1, 0]


def test_numbers_as_leaves_match_however_they_are_written() -> None:
    taxonomy = Taxonomy(Branch("*", (Branch("1"), Branch("2.5"))), "n.csv")
    column = ranks(Attribute("n", "continuous", taxonomy), ["1.0", "2.50", "+1"])
    assert column.ranks.tolist() == [0, 1, 0]
    assert '"3" is no leaf of taxonomy n.csv' in problem(Attribute("n", "continuous", taxonomy), ["3"])


# --- missing, distinct, text, codes ---


def test_missing_cells() -> None:
    cells = pa.chunked_array([["a", None, "?"], [" ", "", " ? ", "??"]])
    found = missing_rows(cells)
    assert found is not None
    assert found.tolist() == [False, True, True, True, True, True, False]
    assert missing_rows(pa.chunked_array([["a", "b"]])) is None
    assert missing_rows(pa.chunked_array([pa.array([], pa.string())])) is None
    numbers = missing_rows(pa.chunked_array([[1.5, None, float("nan")]]))
    assert numbers is not None
    assert numbers.tolist() == [False, True, True]
    assert missing_rows(pa.chunked_array([pa.nulls(2)])).tolist() == [True, True]  # type: ignore[union-attr]


def test_a_missing_value_that_only_the_dictionary_has_is_not_missing() -> None:
    cells = pa.chunked_array([pa.DictionaryArray.from_arrays([0, 0], ["a", "?"])])
    assert missing_rows(cells) is None


@pytest.mark.parametrize(
    "column",
    [
        pa.chunked_array([["b", "a", None], ["b", "c"]]),
        pa.chunked_array([["b", "a", None], ["b", "c"]]).dictionary_encode(),
        pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays([0, 1, None], ["b", "a"]),
                pa.DictionaryArray.from_arrays([1, 0], ["c", "b"]),
            ]
        ),
        pa.chunked_array([pa.DictionaryArray.from_arrays([0, 1, None, 2, 3], ["b", "a", "b", "c"])]),
        pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0, 3], pa.int8()), ["b", "a", None, "c"])]),
    ],
    ids=["plain", "encoded", "two dictionaries", "a value twice", "a null in the dictionary"],
)
def test_distinct_values_whatever_the_dictionary(column: pa.ChunkedArray) -> None:
    codes, values = distinct(column)
    assert values.take(pa.array(codes)).to_pylist() == ["b", "a", None, "b", "c"]
    assert len(set(codes.tolist())) == 4
    assert codes.dtype == np.int32


def test_a_null_beyond_a_full_dictionary_of_bytes() -> None:
    words = [str(at) for at in range(128)]
    full = pa.DictionaryArray.from_arrays(pa.array([*range(128), None], pa.int8()), words)
    codes, values = distinct(pa.chunked_array([full]))
    assert values.take(pa.array(codes)).to_pylist() == [*words, None]


def test_any_value_as_text() -> None:
    assert texts(pa.array([" a ", None])).to_pylist() == ["a", ""]
    assert texts(pa.array([1.0, 0.1, None, 1e20])).to_pylist() == ["1", "0.1", "", "1e+20"]
    assert texts(pa.array([Decimal("1.50"), Decimal("10.00"), None])).to_pylist() == ["1.5", "10", ""]
    long = [Decimal("1.00000000000000000001"), Decimal("1.00000000000000000002")]
    assert texts(pa.array(long)).to_pylist() == [str(number) for number in long]
    assert texts(pa.array([True, None])).to_pylist() == ["True", ""]
    assert texts(pa.array([100, -3])).to_pylist() == ["100", "-3"]
    assert texts(pa.array([datetime.date(2000, 1, 2)])).to_pylist() == ["2000-01-02"]


def test_codes_are_in_the_order_of_the_values() -> None:
    coded = code("disease", pa.chunked_array([["Flu", "HIV ", "Flu", "Asthma", "HIV"]]))
    assert coded.labels == ("Asthma", "Flu", "HIV")
    assert coded.codes.tolist() == [1, 2, 1, 0, 2]
    assert code("n", pa.chunked_array([["10", "9", "-1"]])).labels == ("-1", "9", "10")
    assert code("n", pa.chunked_array([["10", "9", "x"]])).labels == ("10", "9", "x")
    assert code("n", pa.chunked_array([[10, 9]])).labels == ("9", "10")
    assert code("n", pa.chunked_array([pa.array([], pa.string())])).labels == ()
    assert code("n", pa.chunked_array([["b", None]])).labels == ("", "b")


# --- properties ---


@settings(max_examples=examples(60), deadline=None)
@given(tables())
def test_every_released_cell_covers_its_original(table: Table) -> None:
    for attribute in table.schema:
        column = table.column(attribute.name)
        raw = table.arrow[attribute.name].to_pylist()
        bottom = column.generalise(np.arange(column.domain.size))
        top = column.generalise(np.array([0]))
        for row, cell in enumerate(raw):
            for released in (bottom, top):
                label = released.labels[released.codes[row]]
                span = column.domain.range_of(label)
                assert span is not None
                assert span[0] <= column.ranks[row] < span[1]
                ends = read_interval(label, "date" if attribute.kind == "date" else "continuous")
                if ends is not None and not isinstance(cell, str):
                    number = cell.toordinal() - 719163 if isinstance(cell, datetime.date) else cell
                    assert ends[0] <= number < ends[1]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=10)
)
def test_ranks_of_text_are_in_the_order_of_the_numbers(numbers: list[float]) -> None:
    column = ranks(Attribute("n", "continuous"), [repr(number) for number in numbers])
    exact = all(isinstance(number, int) and -(2**63) <= number < 2**63 for number in numbers)
    plain = numbers if exact else [float(number) for number in numbers]
    order = sorted(set(plain))
    assert points(column) == order
    assert column.ranks.tolist() == [order.index(number) for number in plain]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.text(max_size=6), max_size=8), st.sampled_from(["categorical", "continuous", "date"]))
def test_any_text_has_ranks_or_an_explained_error(cells: list[str], kind: Any) -> None:
    array = pa.chunked_array([pa.array(cells, pa.string())])
    try:
        column = encode(Attribute("a", kind, "flat" if kind == "categorical" else None), array, wrong)
    except (DataError, TaxonomyError):
        return
    assert column.ranks.size == len(cells)


def test_a_cell_with_a_line_break_is_told_on_one_line() -> None:
    told = problem(Attribute("age", "continuous"), ["two\nlines\u2028more"])
    assert told.startswith('people.csv: row 1, column age: "two\\nlines\\u2028more" is not a number')


def test_a_number_that_is_none_and_a_missing_cell_in_several_chunks() -> None:
    """Arrow cannot combine such chunks by itself: NaN differs from itself."""
    column = pa.chunked_array([pa.array([1.5, float("nan"), None]), pa.array([None, float("nan"), 2.5])])
    codes, values = distinct(column)
    assert codes.tolist() == [0, 1, 2, 2, 1, 3]
    assert len(values) == 4


# --- fingerprints ---


@given(st.lists(st.text(max_size=6), min_size=1, max_size=5), st.text(max_size=40))
def test_a_text_has_the_same_fingerprint_beside_longer_ones(texts: list[str], other: str) -> None:
    alone = fingerprints(pa.chunked_array([pa.array(texts)]), 7)
    beside = fingerprints(pa.chunked_array([pa.array([*texts, other])]), 7)
    assert beside[:-1].tolist() == alone.tolist()


def test_different_texts_have_different_ones() -> None:
    texts = pa.chunked_array([pa.array([f"{number}" for number in range(2000)])])
    assert len(set(fingerprints(texts, 7).tolist())) == 2000
