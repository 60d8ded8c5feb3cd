"""A roll-up merges an earlier release's groups until the requirement holds, and needs nothing but that release."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.anonymize import CertainRecords, with_marks
from masquerade.data import read_interval, read_number
from masquerade.privacy import GroupRequirement
from strategies import CLASS, SENSITIVE, requirements, tables

pytestmark = pytest.mark.usefixtures("few_queries")

RECORD = "record"  # a column that is released as it is, and tells the records apart
METHODS = (mq.TopDownSpecialization(), mq.Mondrian())


def with_records(table: mq.Table) -> mq.Table:
    numbered = table.arrow.append_column(RECORD, pa.array([f"r{row}" for row in range(len(table))]))
    return mq.Table(numbered, table.schema)


def by_record(table: pa.Table) -> dict[str, dict[str, str]]:
    return {row[RECORD]: row for row in table.to_pylist()}


def groups(table: pa.Table, names: list[str]) -> dict[tuple[Any, ...], set[str]]:
    found = defaultdict(set)
    for row in table.to_pylist():
        found[tuple(row[name] for name in names)].add(row[RECORD])
    return found


def satisfied(part: GroupRequirement, table: pa.Table) -> bool:
    """Count k-anonymity and ℓ-diversity anew."""
    rows = by_record(table)
    members = groups(table, list(part.qid)).values()
    if part.sensitive is None:
        return all(len(each) >= part.k for each in members)  # type: ignore[attr-defined]
    diseases = ({rows[record][part.sensitive] for record in each} for each in members)
    return all(len(each) >= part.l for each in diseases)  # type: ignore[attr-defined]


def ends(cell: str) -> tuple[Any, Any] | None:
    for kind in ("continuous", "date"):
        if found := read_interval(cell, kind):  # type: ignore[arg-type]
            return found
        try:
            number = read_number(cell, kind)  # type: ignore[arg-type]
        except ValueError:
            continue
        return number, number
    return None


def covers(new: str, old: str, taxonomy: object) -> bool:
    """Whether all that the old cell may stand for is in the new one, by names and ends alone."""
    if new in (old, "*"):
        return True
    if isinstance(taxonomy, mq.Taxonomy):
        above, below = taxonomy.find(new), taxonomy.range_of(old)
        if below is not None:
            return above.lo <= below[0] and below[1] <= above.hi
    wide, narrow = ends(new), ends(old)
    assert wide is not None
    assert narrow is not None
    return wide[0] <= narrow[0] and (narrow[1] <= wide[1] if narrow[0] < narrow[1] else narrow[1] < wide[1])


@settings(max_examples=examples(60))
@given(st.data())
def test_groups_are_united_cells_cover_and_the_requirement_holds(data: st.DataObject) -> None:
    table = with_records(data.draw(tables(min_rows=4)))
    names = list(table.schema.names)
    first = mq.anonymize(
        table, mq.KAnonymity(names, data.draw(st.integers(1, 3))), data.draw(st.sampled_from(METHODS)),
        sensitive=[CLASS, SENSITIVE, RECORD],
    )  # fmt: skip
    kept = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    wanted = data.draw(requirements(mq.Table(table.arrow, mq.Schema(table.schema[name] for name in kept))))
    knows = data.draw(st.booleans())
    columns = [*kept, SENSITIVE, RECORD]

    second = mq.roll_up(first if knows else first.table, wanted, columns=columns)

    assert second.table.column_names == columns
    assert all(satisfied(part, second.table) for part in wanted.parts)
    assert second.summary["released"] == second.summary["rows"] == len(table)
    assert second.summary["groups"] == len(groups(second.table, list(wanted.qid_attributes)))
    old, new = by_record(first.table), by_record(second.table)
    assert old.keys() == new.keys()
    of_old = groups(first.table, names)
    for members in groups(second.table, kept).values():  # each is a union of earlier groups
        assert members == set().union(*(each for each in of_old.values() if each & members))
    for record, row in new.items():
        assert row[SENSITIVE] == old[record][SENSITIVE]
        for name in kept:
            taxonomy = table.schema[name].taxonomy if knows else None
            assert covers(row[name], old[record][name], taxonomy)
            if name not in wanted.qid_attributes:
                assert row[name] == old[record][name]


def test_what_holds_already_stays_as_it_is() -> None:
    table = mq.Table(pa.table({"age": ["[0, 5)"] * 3 + ["[5, 9)"] * 3, "job": list("ababab"), "ill": list("xyzxyz")}))
    second = mq.roll_up(table, mq.KAnonymity(["age"], 3), columns=["age", "ill"])
    assert Counter(second.table["age"].to_pylist()) == {"[0, 5)": 3, "[5, 9)": 3}
    assert second.metrics["ncp"] == 0
    assert second.dropped == ("job",)


def test_it_names_the_algorithm_of_the_earlier_release_and_what_merged_its_groups() -> None:
    first = mq.anonymize(pa.table({"age": range(24)}), mq.KAnonymity(["age"], 3), mq.TopDownSpecialization())
    second = mq.roll_up(first, mq.KAnonymity(["age"], 9))
    third = mq.roll_up(second, mq.KAnonymity(["age"], 24))
    for release in (second, third):
        assert release.settings["algorithm"] == first.settings["algorithm"]
        assert release.settings["merged_by"]["name"] in ("mondrian", "tds")
    assert first.settings["algorithm"]["name"] == "tds"
    unknown = mq.roll_up(first.table, mq.KAnonymity(["age"], 9))
    assert "algorithm" not in unknown.settings


@pytest.mark.parametrize(
    ("cells", "k", "expected"),
    [
        pytest.param(
            {"[-inf, 40)": 2, "[20, 30)": 2, "[20, 50)": 2, "[50, inf)": 6},
            6,
            {"[-inf, 50)": 6, "[50, inf)": 6},
            id="overlapping intervals, as Mondrian's are, are covered by their hull; no new end is made up",
        ),
        pytest.param(
            {"30": 2, "[10, 30)": 2, "[40, 50)": 4},
            4,
            {"[10, 40)": 4, "[40, 50)": 4},
            id="a number is inside the interval that covers it",
        ),
        pytest.param(
            {"[1980-01-01, 1981-01-01)": 2, "[1981-01-01, 1985-01-01)": 2},
            4,
            {"[1980-01-01, 1985-01-01)": 4},
            id="dates stay dates",
        ),
        pytest.param({"Mover": 2, "Baker": 2}, 3, {"*": 4}, id="a category without its taxonomy is left open"),
        pytest.param({"53113": 1, "53115": 1}, 2, {"*": 2}, id="numbers that are categories are no intervals"),
    ],
)
def test_cells_are_merged(cells: dict[str, int], k: int, expected: dict[str, int]) -> None:
    second = mq.roll_up(pa.table({"cell": [*Counter(cells).elements()]}), mq.KAnonymity(["cell"], k))
    assert Counter(second.table["cell"].to_pylist()) == expected


JOBS = mq.Taxonomy(
    mq.Branch(
        "Any",
        (
            mq.Branch("Blue", (mq.Branch("Mover"), mq.Branch("Baker"))),
            mq.Branch("White", (mq.Branch("Lawyer"), mq.Branch("Clerk"))),
        ),
    )
)


def test_a_value_and_its_ancestor_meet_at_the_ancestor() -> None:
    jobs = ["Mover"] * 2 + ["Blue"] * 2 + ["Lawyer"] * 3 + ["Clerk"] * 3
    schema = mq.Schema([mq.Attribute("job", taxonomy=JOBS)])
    second = mq.roll_up(mq.Table(pa.table({"job": jobs}), schema), mq.KAnonymity(["job"], 3))
    assert Counter(second.table["job"].to_pylist()) == {"Blue": 4, "Lawyer": 3, "Clerk": 3}


@given(st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=9), min_size=2, max_size=8), st.integers(1, 12))
def test_larger_groups_against_any_provider(groups_of: list[list[int]], k: int) -> None:
    """Each earlier group keeps k₀ records whichever provider leaves; so do the new ones keep k."""
    rows = [(f"[{at}, {at + 1})", f"p{who}") for at, group in enumerate(groups_of) for who in group]
    release = pa.table({"age": [row[0] for row in rows], "provider": [row[1] for row in rows]})

    def least_left(table: pa.Table) -> int:
        members = defaultdict(list)
        for row in table.to_pylist():
            members[row["age"]].append(row["provider"])
        return min(len(each) - max(Counter(each).values()) for each in members.values())

    known = least_left(release)
    marked = with_marks(release, ["age"], known)
    try:
        second = mq.roll_up(marked, CertainRecords(["age"], k), columns=["age", "provider"])
    except mq.RequirementUnreachable:
        assert known * len(groups_of) < k
        return
    assert least_left(second.table) >= k
    assert second.table.column_names == ["age", "provider"]
    assert second.dropped == ()


def test_an_unreachable_requirement_says_so() -> None:
    with pytest.raises(mq.RequirementUnreachable, match="even the group of all records has 2 records"):
        mq.roll_up(pa.table({"age": ["[0, 5)", "[5, 9)"]}), mq.KAnonymity(["age"], 3))


@pytest.mark.parametrize(
    ("table", "options", "error", "text"),
    [
        ({"age": ["[0, 5)"]}, {"columns": ["aeg"]}, mq.ParameterError, 'no column "aeg"'),
        ({"age": ["[0, 5)"], "job": ["a"]}, {"columns": ["job"]}, mq.ParameterError, '"age" is not among'),
        ({"age": ["[0, 5)", ""]}, {}, mq.DataError, "the cell is missing"),
    ],
)
def test_what_cannot_be_rolled_up_is_named(
    table: dict[str, list[str]], options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        mq.roll_up(pa.table(table), mq.KAnonymity(["age"], 1), **options)


def test_a_cell_outside_the_taxonomy_is_named() -> None:
    schema = mq.Schema([mq.Attribute("job", taxonomy=JOBS)])
    with pytest.raises(mq.DataError, match="Pilot"):
        mq.roll_up(mq.Table(pa.table({"job": ["Mover", "Pilot"]}), schema), mq.KAnonymity(["job"], 2))


def test_the_report_speaks_of_the_released_cells(tmp_path: Any) -> None:
    jobs = ["Mover"] * 2 + ["Baker"] * 2 + ["Lawyer"] * 4
    schema = mq.Schema([mq.Attribute("job", taxonomy=JOBS)])
    second = mq.roll_up(mq.Table(pa.table({"job": jobs}), schema), mq.KAnonymity(["job"], 4))
    second.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "Blue" in text
    assert "Mover" not in text
