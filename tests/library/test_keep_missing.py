"""`missing = "keep"`: a missing cell is a value of its own in taxonomies, beside intervals, in checks and metrics."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from masquerade.data import Branch, Continuum, Origin, Taxonomy
from masquerade.jobs import anonymize_job, evaluate_job, mashup_job, verify_job
from parties_here import parties_here

JOBS = Taxonomy(
    Branch(
        "any", (Branch("hands", (Branch("cook"), Branch("smith"))), Branch("head", (Branch("judge"), Branch("clerk"))))
    )
)
SCHEMA = mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("job", taxonomy=JOBS)])
METHODS = [
    mq.TopDownSpecialization(score="discernibility"),
    mq.TopDownSpecialization(score="certainty"),
    mq.Mondrian(),
    mq.Mondrian(choose="widest"),
]


def table_of(ages: list[str], jobs: list[str]) -> mq.Table:
    ill = ["flu" if at % 2 else "cold" for at in range(len(ages))]
    return mq.Table(pa.table({"age": ages, "job": jobs, "ill": ill}), SCHEMA)


def covers(cell: str, original: str) -> bool:
    """Whether a released cell is a generalisation; a missing one is in no interval and under no inner node."""
    if original in ("", "?", "NA"):
        return cell in ("?", "*", "any")
    if cell.startswith("["):
        lo, hi = cell[1:-1].split(", ")
        return float(lo) <= float(original) < float(hi)
    if cell in ("*", "any"):
        return True
    node = JOBS.find(cell)
    return original in JOBS.leaves and node.lo <= JOBS.rank[original] < node.hi


# --- in the domains ---


def test_a_missing_cell_is_beside_the_numbers() -> None:
    column = table_of(["7", "?", "3", ""], ["cook"] * 4).complete(["age"], "keep").column("age")
    assert isinstance(column.domain, Continuum)
    assert column.ranks.tolist() == [2, 0, 1, 0]
    assert [column.domain.label(*each) for each in ((0, 3), (0, 1), (1, 3), (1, 2), (2, 3))] == [
        "*", "?", "[-inf, inf)", "[-inf, 7)", "[7, inf)",
    ]  # fmt: skip
    for each in ((0, 3), (0, 1), (1, 3), (1, 2), (2, 3)):
        assert column.domain.range_of(column.domain.label(*each)) == each
    assert column.domain.cuts(0, 3) == (0, 1, 3)
    assert column.domain.cuts(0, 1) == ()
    assert column.domain.cuts(1, 3) is None


def test_a_missing_cell_is_a_child_of_the_root() -> None:
    column = table_of(["1", "2", "3"], ["cook", "?", "clerk"]).complete(["job"], "keep").column("job")
    assert isinstance(column.domain, Taxonomy)
    assert column.domain.leaves == ("cook", "smith", "judge", "clerk", "?")
    assert column.domain.nodes[column.domain.find("?").parent].name == "any"
    assert column.ranks.tolist() == [0, 4, 3]


def test_a_taxonomy_may_have_a_place_for_it() -> None:
    tree = Taxonomy(
        Branch("any", (Branch("told", (Branch("a"), Branch("b"))), Branch("untold", (Branch("?"), Branch("c")))))
    )
    table = mq.Table(pa.table({"x": ["a", "", None]}), mq.Schema([mq.Attribute("x", taxonomy=tree)]))
    column = table.complete(["x"], "keep").column("x")
    assert column.domain is tree
    assert column.ranks.tolist() == [0, 2, 2]


@pytest.mark.parametrize("taxonomy", ["flat", Taxonomy(Branch("x"))], ids=["flat", "one leaf"])
def test_small_taxonomies(taxonomy: Taxonomy) -> None:
    schema = mq.Schema([mq.Attribute("x", taxonomy=taxonomy)])
    column = mq.Table(pa.table({"x": ["x", "?"]}), schema).complete(["x"], "keep").column("x")
    assert (column.domain.label(0, 2), column.domain.leaves) == ("*", ("x", "?"))
    only = mq.Table(pa.table({"x": ["?", ""]}), mq.Schema([mq.Attribute("x", taxonomy="flat")]))
    assert only.complete(["x"], "keep").column("x").domain.leaves == ("?",)


def test_without_missing_cells_nothing_changes() -> None:
    table = table_of(["1", "2"], ["cook", "clerk"])
    assert table.complete(["age", "job"], "keep") is table


def test_every_spelling_is_one_value() -> None:
    words = Origin(missing_values=("", "NA", "none"))
    table = mq.Table(pa.table({"ill": ["flu", "NA", " none", None, ""]}), mq.Schema([]), origin=words)
    assert table.complete(["ill"], "keep").coded("ill").labels == ("?", "flu")
    numbers = mq.Table(pa.table({"n": [1.5, None, float("nan")]}))
    assert numbers.complete(["n"], "keep").coded("n").labels == ("", "1.5")


def test_without_keep_a_question_mark_is_no_leaf() -> None:
    words = Origin(missing_values=("",))
    table = mq.Table(pa.table({"job": ["cook", "?"]}), mq.Schema([mq.Attribute("job", taxonomy=JOBS)]), origin=words)
    with pytest.raises(mq.DataError, match='"\\?" is no leaf'):
        table.complete(["job"]).column("job")


# --- in releases ---

AGES = st.one_of(st.integers(20, 40).map(str), st.sampled_from(["", "?"]))
TRADES = st.sampled_from(["cook", "smith", "judge", "clerk", "", "?"])


@pytest.mark.parametrize("method", METHODS, ids=lambda each: f"{each.name} {each.parameters()}"[:40])
@given(people=st.lists(st.tuples(AGES, TRADES), min_size=4, max_size=30), k=st.integers(1, 4))
@settings(max_examples=examples(40), deadline=None)
def test_it_is_in_no_interval_and_below_no_node(
    method: mq.TopDownSpecialization, people: list[tuple[str, str]], k: int
) -> None:
    ages, jobs = map(list, zip(*people, strict=True))
    table, requirement = table_of(ages, jobs), mq.KAnonymity(["age", "job"], k=k)
    release = mq.anonymize(table, requirement, method, missing="keep", order="input")
    assert (release.dropped_rows, release.table.num_rows) == (0, len(people))
    for name, originals in (("age", ages), ("job", jobs)):
        for cell, original in zip(release.table[name].to_pylist(), originals, strict=True):
            assert covers(cell, original), (cell, original)
    found = mq.evaluate(table, release.table, requirement, missing="keep", queries=5)
    assert found["metrics"]["ncp"] == pytest.approx(release.metrics["ncp"], abs=1e-3)
    assert all(0 <= value <= 1 for name, value in found["metrics"].items() if name in ("ncp", "loss", "precision"))


def test_k_people_who_do_not_tell_their_age_are_a_group() -> None:
    table = table_of(["?"] * 3 + ["30", "31", "32", "50", "51", "52"], ["cook"] * 9)
    for method in METHODS:
        release = mq.anonymize(table, mq.KAnonymity(["age", "job"], k=3), method, missing="keep", order="input")
        cells = release.table["age"].to_pylist()
        assert cells[:3] == ["?"] * 3
        assert all(cell.startswith("[") for cell in cells[3:])
        assert len(set(cells)) == 3


def test_one_who_does_not_tell_takes_everybody_along() -> None:
    table = table_of(["?", "30", "31", "32"], ["cook"] * 4)
    for method in METHODS:
        release = mq.anonymize(table, mq.KAnonymity(["age"], k=2), method, missing="keep")
        assert set(release.table["age"].to_pylist()) == {"*"}


def test_bounds_and_fixed_intervals() -> None:
    """The root costs everything, a missing cell alone nothing."""
    bounded = mq.Schema([mq.Attribute("age", "continuous", lower=0, upper=100)])
    table = mq.Table(pa.table({"age": [10, 20, None, None]}), bounded)
    for k, cells, ncp in ((2, {"[0, 100)", "?"}, 0.5), (4, {"*"}, 1.0)):
        release = mq.anonymize(table, mq.KAnonymity(["age"], k=k), missing="keep")
        assert set(release.table["age"].to_pylist()) == cells
        assert release.metrics["ncp"] == pytest.approx(ncp)


def test_kept_cells_within_boundaries_are_verified_from_the_release_alone() -> None:
    schema = mq.Schema([mq.Attribute("job", taxonomy=JOBS, max_generalization=["hands", "head"])])
    table = mq.Table(pa.table({"job": ["cook", "smith", "judge", "clerk", "?", "?"]}), schema)
    requirement = mq.KAnonymity(["job"], k=2)
    release = mq.anonymize(table, requirement, mq.Mondrian(), missing="keep")
    assert set(release.table["job"].to_pylist()) == {"hands", "head", "?"}
    verified = mq.verify(mq.Table(release.table, schema), requirement)
    assert verified.holds
    assert verified.violations.certain == {"job": 0}


# --- jobs ---

JOB = """
[data]
source = "people.csv"
missing = "keep"
[attributes.age]
type = "continuous"
[attributes.born]
type = "date"
format = "%d/%m/%Y"
[attributes.job]
taxonomy = "flat"
[roles]
sensitive = ["ill"]
identifiers = ["id"]
[[privacy]]
model = "k-anonymity"
qid = ["age", "job"]
k = 2
[[privacy]]
model = "l-diversity"
qid = ["age", "job"]
l = 2
[output]
report = false
order = "input"
"""
PEOPLE = """id,age,born,job,ill
1,,01/02/1980,cook,flu
2,?,,cook,
3,30,01/02/1981,cook,cold
4,31,?,?,flu
5,33,03/02/1980,,?
6,,03/02/1980,,flu
7,?,03/02/1980,cook,cold
"""


def test_a_job_from_reading_to_evaluation(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "job.toml").write_text(JOB)
    written = anonymize_job(tmp_path / "job.toml")
    assert written.summary["dropped_rows"] == 0
    assert "?" in written.release.table["ill"].to_pylist()
    assert "" not in written.release.table["ill"].to_pylist()
    assert verify_job(written.table, tmp_path / "job.toml").holds
    found = evaluate_job(tmp_path / "people.csv", written.table, tmp_path / "job.toml", queries=10)
    assert (found["rows"], found["dropped_rows"], found["released"]) == (7, 0, 7)


PARTIES = """
[parties.north]
source = "north.csv"
id = "id"
missing = "keep"
[parties.south]
source = "south.csv"
id = "id"
missing = "keep"
"""


def test_a_mashup_is_what_one_table_gives(tmp_path: Path) -> None:
    """Whoever has no identifier is left out all the same."""
    rows = [line.split(",") for line in PEOPLE.splitlines()]
    for name, columns in (("north", (0, 1, 2)), ("south", (0, 3, 4))):
        lines = [",".join(row[at] for at in columns) for row in rows] + [",,"]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "people.csv").write_text(PEOPLE)
    alike = JOB.replace("[output]", '[output]\ntable = "one.csv"') + '[algorithm]\nname = "tds"\n'
    (tmp_path / "one.toml").write_text(alike)
    alone = anonymize_job(tmp_path / "one.toml").release.table
    data = '[data]\nsource = "people.csv"\nmissing = "keep"\n'
    (tmp_path / "job.toml").write_text(
        JOB.replace(data, "").replace('identifiers = ["id"]\n', "").replace('order = "input"\n', "")
        + PARTIES
        + '[algorithm]\nname = "tds"\n'
    )
    with parties_here():
        together = mashup_job(tmp_path / "job.toml").release.table
    names = ["age", "job", "ill"]
    assert sorted(map(str, together.select(names).to_pylist())) == sorted(map(str, alone.select(names).to_pylist()))
