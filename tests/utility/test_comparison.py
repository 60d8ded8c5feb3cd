"""A release beside its original, and reading it back."""

from __future__ import annotations

import dataclasses
import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from examples import examples
from masquerade.anonymize import TopDownSpecialization
from masquerade.data import Attribute, Branch, Origin, Schema, Table, Taxonomy
from masquerade.errors import DataError, ParameterError
from masquerade.privacy import KAnonymity
from masquerade.utility import Comparison, certainty_losses, compare, losses_of
from papers.paper_tables import loan_table
from utility.small_tables import Case, cases, without

QID = ["Sex", "Job", "Salary"]
PEOPLE = {
    "job": ["Janitor", "Mover", "Lawyer"],
    "age": [20, 30, 40],
    "born": [datetime.date(1980, 5, 1), datetime.date(1981, 5, 1), datetime.date(1980, 5, 1)],
    "hours": [12, 38, 45],
}
JOBS = Taxonomy(Branch("Any", (Branch("Blue", (Branch("Janitor"), Branch("Mover"))), Branch("Lawyer"))))
HOURS = Taxonomy(
    Branch("[0, 60)", (Branch("[0, 40)", (Branch("[0, 20)"), Branch("[20, 40)"))), Branch("[40, 60)"))),
    edges=(0.0, 20.0, 40.0, 60.0),
)
SCHEMA = Schema(
    [
        Attribute("job", taxonomy=JOBS),
        Attribute("age", "continuous"),
        Attribute("born", "date"),
        Attribute("hours", "continuous", taxonomy=HOURS),
    ]
)


def people() -> Table:
    return Table(pa.table(PEOPLE), SCHEMA, origin=Origin("people.csv"))


def released(**columns: list[object]) -> Table:
    """The people as they are, but for the given columns."""
    return Table(pa.table({**PEOPLE, **columns}), origin=Origin("release.csv"))


def ranges(comparison: Comparison, attribute: int = 0) -> list[tuple[int, int]]:
    column = comparison.released[attribute]
    return [(int(column.lo[code]), int(column.hi[code])) for code in column.codes]


def problem(release: Table, *names: str) -> str:
    with pytest.raises(DataError) as caught:
        compare(people(), release, names)
    return str(caught.value)


def test_a_category_is_read_by_its_name_generalised_or_raw() -> None:
    comparison = compare(people(), released(job=["Blue", "Mover", "Any"]), ["job"])
    assert ranges(comparison) == [(0, 2), (1, 2), (0, 3)]


def test_an_interval_covers_the_values_inside_it() -> None:
    comparison = compare(people(), released(age=["[-inf, 30)", "[21.5, 30.5)", "[20, inf)"]), ["age"])
    assert ranges(comparison) == [(0, 1), (1, 2), (0, 3)]


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        pytest.param("age", ["20", "30.0", "4e1"], id="text"),
        pytest.param("age", [20, 30, 40], id="numbers"),
        pytest.param("age", [20.0, 30.0, 40.0], id="floats"),
        pytest.param("born", PEOPLE["born"], id="dates"),
        pytest.param("born", ["1980-05-01", "[1981-01-01, 1982-01-01)", "[-inf, 1981-01-01)"], id="date text"),
        pytest.param("hours", [12, 38, 45], id="numbers of fixed intervals"),
        pytest.param("hours", ["[0, 20)", "39.5", "[40, 60)"], id="fixed intervals"),
    ],
)
def test_values_of_one_rank(column: str, cells: list[object]) -> None:
    comparison = compare(people(), released(**{column: cells}), [column])
    ranks = people().column(column).ranks
    assert ranges(comparison) == [(rank, rank + 1) for rank in ranks.tolist()]


def test_cells_that_differ_in_space_alone_are_one_value() -> None:
    comparison = compare(people(), released(job=["Blue", " Blue ", "Lawyer"]), ["job"])
    assert comparison.group_sizes.tolist() == [2, 1]


def test_attributes_come_in_the_order_of_the_schema() -> None:
    comparison = compare(people(), released(), ["born", "job"])
    assert [column.name for column in comparison.released] == ["job", "born"]


NO_VALUE = 'row 2, column {}: "{}" is no value of the attribute; allowed are {}'
NUMBERS = "numbers and intervals [lo, hi) of them"


@pytest.mark.parametrize(
    ("column", "cells", "text"),
    [
        ("job", ["Blue", "Bleu", "Any"], NO_VALUE.format("job", "Bleu", "the values of taxonomy taxonomy")),
        *(
            ("age", ["20", cell, "40"], NO_VALUE.format("age", cell, NUMBERS))
            for cell in ("many", "[30, 20)", "[20 - 30)", "inf", "nan")
        ),
        ("hours", ["12", "38", "60"], 'row 3, column hours: "60" is no value'),  # outside all fixed intervals
        ("job", ["Blue", "?", "Any"], "row 2, column job: the cell is missing"),
        ("age", [20, 30, None], "row 3, column age: the cell is missing"),
    ],
)
def test_a_cell_that_is_no_value_is_an_error_with_its_row(column: str, cells: list[object], text: str) -> None:
    assert problem(released(**{column: cells}), column).startswith(f"release.csv: {text}")


@pytest.mark.parametrize(
    ("column", "cells", "row"),
    [
        pytest.param("job", ["Blue", "Janitor", "Any"], 2, id="another leaf"),
        pytest.param("job", ["Blue", "Mover", "Blue"], 3, id="another branch"),
        pytest.param("age", ["[20, 30)", "[20, 30)", "[30, inf)"], 2, id="the upper end is outside"),
        pytest.param("age", ["20", "30", "30"], 3, id="another value"),
        pytest.param("age", ["20.5", "30", "40"], 1, id="nobody's value"),
        pytest.param("age", ["[50, 60)", "30", "40"], 1, id="an interval with nobody"),
    ],
)
def test_a_cell_must_cover_its_original(column: str, cells: list[object], row: int) -> None:
    assert problem(released(**{column: cells}), column) == (
        f'release.csv: row {row}, column {column}: "{cells[row - 1]}" is not a generalisation of its '
        'original: is this release in input order (order = "input")?'
    )


def test_a_missing_column_an_unknown_attribute_and_different_row_counts_are_errors() -> None:
    release = Table(pa.table({"Job": ["Blue", "Blue", "Any"]}), origin=Origin("release.csv"))
    assert 'release.csv: no column "job" (did you mean "Job"?)' in problem(release, "job")
    with pytest.raises(ParameterError, match='no attribute "jobs"'):
        compare(people(), released(), ["jobs"])
    short = Table(released().arrow.slice(0, 2), origin=Origin("release.csv"))
    assert "release.csv: 2 rows, but people.csv has 3 complete ones" in problem(short, "job")


def test_all_wrong_columns_are_reported_at_once() -> None:
    problems = problem(released(job=["x", "x", "x"], age=["1", "2", "3"]), "job", "age").splitlines()
    assert len(problems) == 2
    assert 'column job: "x" is no value' in problems[0]
    assert 'column age: "1" is not a generalisation' in problems[1]


def test_a_release_of_the_checked_example_reads_back_as_it_was_made() -> None:
    table = loan_table()
    requirement = KAnonymity(["Sex", "Job"], 4) & KAnonymity(["Sex", "Salary"], 5)
    outcome = TopDownSpecialization("Class").run_on_table(table, requirement)
    cells = pa.table({column.name: column.to_arrow() for column in outcome.columns})
    comparison = compare(table, cells, QID, "Class")
    assert sorted(comparison.group_sizes.tolist()) == [3, 4, 4, 5, 5, 6, 7]
    for made, read in zip(outcome.columns, comparison.released, strict=True):
        assert (made.lo[made.codes] == read.lo[read.codes]).all()
        assert (made.hi[made.codes] == read.hi[read.codes]).all()
    # Job: 16 records at 2 of 7 leaves. Salary, from 1 to 99: 7 in [1, 35), 5 in [35, 37), 10 in [37, 44), 12 above.
    salary = (7 * 34 + 5 * 2 + 10 * 7 + 12 * 55) / 98
    assert certainty_losses(losses_of(comparison)) == pytest.approx(
        {"Sex": 0, "Job": 16 * 2 / 7 / 34, "Salary": salary / 34}, abs=1e-4
    )


def test_suppressed_rows_have_lost_everything() -> None:
    whole = compare(people(), released(), ["job", "age"])
    kept = np.array([0, 2])
    part = dataclasses.replace(whole, released=tuple(without(c, kept) for c in whole.released), kept=kept)
    assert (part.rows, part.released_rows, part.suppressed) == (3, 2, 1)
    assert certainty_losses(losses_of(part)) == pytest.approx({"job": 1 / 3, "age": 1 / 3}, abs=1e-4)


@given(cases())
@settings(deadline=None, max_examples=examples(60))
def test_groups_are_the_rows_that_look_alike(case: Case) -> None:
    comparison = case.comparison()
    looks = [tuple(cells[row].released for cells in case.cells.values()) for row in case.kept]
    assert len(set(comparison.groups.tolist())) == len(set(looks)) == comparison.group_sizes.size
    together = dict(zip(comparison.groups.tolist(), looks, strict=True))
    assert [together[group] for group in comparison.groups.tolist()] == looks
    assert comparison.group_sizes[comparison.groups].tolist() == [looks.count(look) for look in looks]
