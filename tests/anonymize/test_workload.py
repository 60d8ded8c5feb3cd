"""Mondrian for a workload: cells cross an edge of a predicate only where they must, so selections stay exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from examples import examples
from job.job_files import JOB, write_job
from masquerade.anonymize.publication import comparison_of
from masquerade.data import QueryLog
from masquerade.data.query_log import parse_query_log
from masquerade.jobs import anonymize_job, compare_job, evaluate, evaluate_job
from masquerade.jobs.plan import Plan
from masquerade.utility import edges_of
from masquerade.utility.workloads import SelectionMeasurer

JOBS = mq.Taxonomy(
    mq.Branch(
        "ANY",
        (
            mq.Branch("Blue", (mq.Branch("Welder"), mq.Branch("Miner"))),
            mq.Branch("White", (mq.Branch("Nurse"), mq.Branch("Lawyer"), mq.Branch("Clerk"))),
        ),
    )
)
SCHEMA = mq.Schema([mq.Attribute("age", "continuous"), mq.Attribute("job", taxonomy=JOBS)])
PEOPLE = st.lists(
    st.tuples(st.integers(20, 60), st.sampled_from(JOBS.leaves), st.sampled_from("mf")), min_size=4, max_size=60
)
PREDICATES = st.one_of(
    st.builds("age {} {}".format, st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), st.integers(15, 65)),
    st.builds("age BETWEEN {} AND {}".format, st.integers(15, 40), st.integers(30, 65)),
    st.builds("job = '{}'".format, st.sampled_from([*JOBS.leaves, "White", "Pilot"])),
    st.builds("job IN ('{}', '{}')".format, st.sampled_from(JOBS.leaves), st.sampled_from(JOBS.leaves)),
    st.just("job LIKE '%er'"),
    st.just("sex = 'f'"),
)
CONDITIONS = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT {}".format, inner),
    ),
    max_leaves=4,
)


def table_of(people: list[tuple[int, str, str]]) -> mq.Table:
    columns = zip(("age", "job", "sex"), map(list, zip(*people, strict=True)), strict=True)
    return mq.Table(pa.table(dict(columns)), SCHEMA)


def log_of(*conditions: str) -> QueryLog:
    return parse_query_log(";\n".join(f"SELECT COUNT(*) FROM people WHERE {each}" for each in conditions), "q.sql")


def written(folder: Path, log: QueryLog | str) -> str:
    path = folder / "queries.sql"
    path.write_text(str(log))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workload")


@settings(max_examples=examples(100), deadline=None)
@given(PEOPLE, st.integers(1, 4), st.lists(CONDITIONS, min_size=1, max_size=3))
def test_cells_cross_an_edge_only_where_a_part_would_be_too_small(
    folder: Path, people: list[tuple[int, str, str]], k: int, conditions: list[str]
) -> None:
    table = table_of(people)
    text = ";\n".join(f"SELECT COUNT(*) FROM people WHERE {each}" for each in conditions)
    method = mq.Mondrian(workload=written(folder, text))
    outcome = method.run_on_table(table, mq.KAnonymity(["age", "job"], k))
    ages, jobs = outcome.columns
    column = table.column("age")
    domains = {"age": (column.domain, "continuous")}
    edges = edges_of(parse_query_log(text, "q.sql"), ["age", "job", "sex"], domains).get("age", ())  # type: ignore[arg-type] # a kind
    groups = ages.codes.astype(int) * len(jobs.labels) + jobs.codes
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        lo, hi = ages.lo[ages.codes[rows[0]]], ages.hi[ages.codes[rows[0]]]
        assert all(lo <= rank < hi for rank in column.ranks[rows])
        for edge in edges:
            if lo < edge < hi:
                below = int((column.ranks[rows] < edge).sum())
                assert 0 < below < rows.size
                assert min(below, rows.size - below) < k


def means(condition: str, age: int, job: str, sex: str) -> bool:
    """What a condition says of one record, by SQLite."""
    import sqlite3

    white = "job IN ('Nurse', 'Lawyer', 'Clerk')"
    with sqlite3.connect(":memory:") as database:
        asked = condition.replace("job = 'White'", white)
        found = database.execute(f"SELECT {asked} FROM (SELECT ? AS age, ? AS job, ? AS sex)", (age, job, sex))
        return bool(found.fetchone()[0])


@settings(max_examples=examples(60), deadline=None)
@given(PEOPLE, st.integers(1, 6), CONDITIONS)
def test_selections_are_measured_as_by_hand(people: list[tuple[int, str, str]], k: int, condition: str) -> None:
    table = table_of(people)
    k = min(k, len(people))
    outcome = mq.Mondrian().run_on_table(table, mq.KAnonymity(["age", "job"], k))
    found = SelectionMeasurer(table, log_of(condition)).measure(comparison_of(table, outcome, None))
    truth = [means(condition, *person) for person in people]
    ages, jobs = outcome.columns
    values = table.column("age").domain.values
    may, must = [], []
    for row, (_, _, sex) in enumerate(people):
        inside = values[ages.lo[ages.codes[row]] : ages.hi[ages.codes[row]]]
        leaves = JOBS.leaves[jobs.lo[jobs.codes[row]] : jobs.hi[jobs.codes[row]]]
        answers = {means(condition, int(age), job, sex) for age in inside for job in leaves}
        may.append(True in answers)
        must.append(answers == {True})
    precision = sum(a and b for a, b in zip(truth, may, strict=True)) / sum(may) if any(may) else 1
    recall = sum(must) / sum(truth) if any(truth) else 1
    assert found.precision is not None
    assert found.recall is not None
    # Where one attribute is asked about in several places, a cell may look less certain than it is, never more.
    if condition.count("age") > 1 or condition.count("job") > 1:
        assert found.precision <= precision + 1e-4
        assert found.recall <= recall + 1e-4
    else:
        assert found.precision == pytest.approx(precision, abs=1e-4)
        assert found.recall == pytest.approx(recall, abs=1e-4)


def evenly() -> list[tuple[int, str, str]]:
    return [(20 + at % 40, JOBS.leaves[at % 5], "mf"[at % 2]) for at in range(400)]


@pytest.mark.parametrize(
    "requirement",
    [
        mq.KAnonymity(["age", "job"], 10),
        mq.KAnonymity(["age", "job"], 10) & mq.LDiversity(["age", "job"], 2, "sex"),
        mq.KAnonymity(["age", "job"], 10) & mq.KAnonymity(["age"], 12),
        mq.KAnonymity(["age", "job"], 10) & mq.TCloseness(["age"], 0.3, "sex"),
    ],
    ids=["k", "l", "two QIDs", "two QIDs and t"],
)
def test_what_is_asked_stays_exact(tmp_path: Path, requirement: mq.Requirement) -> None:
    table = table_of(evenly())
    queries = "SELECT job FROM p WHERE age > 50;\nSELECT COUNT(*) FROM p WHERE age BETWEEN 27 AND 33 AND sex = 'f'"
    path = written(tmp_path, queries)
    plain, exact = (
        mq.anonymize(table, requirement, method, order="input")
        for method in (mq.Mondrian(), mq.Mondrian(workload=path))
    )
    figures = [
        evaluate(table, release.table, requirement, queries=0, workload=path)["selection"] for release in (plain, exact)
    ]
    assert figures[1] == {"queries": 2, "precision": 1, "recall": 1, "exact": 1, "not_measured": 0}
    assert figures[0]["exact"] < 1
    assert all(verdict.holds for verdict in exact.verdicts)


def test_what_one_table_does_not_tell_is_not_measured(tmp_path: Path) -> None:
    table = table_of(evenly())
    path = written(tmp_path, "SELECT age FROM p WHERE ABS(age) > 3 AND age > 50; SELECT job FROM p WHERE age > 'x'")
    found = evaluate(table, table.arrow, mq.KAnonymity(["age", "job"], 1), queries=0, workload=path)
    assert found["selection"] == {"queries": 0, "precision": None, "recall": None, "exact": None, "not_measured": 2}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT job AS age FROM p WHERE age > 40",
        "SELECT a FROM (SELECT age AS a FROM p) t WHERE a > 40",
        "SELECT age + 1 AS older FROM p WHERE older > 40",
    ],
)
def test_names_that_queries_give_are_no_bug(tmp_path: Path, query: str) -> None:
    release = mq.anonymize(
        table_of(evenly()), mq.KAnonymity(["age", "job"], 2), mq.Mondrian(workload=written(tmp_path, query))
    )
    assert release.summary["released"] == len(evenly())


def test_fixed_intervals_and_dates(tmp_path: Path) -> None:
    decades = mq.Taxonomy(
        mq.Branch("*", (mq.Branch("[0, 10)"), mq.Branch("[10, 20)"), mq.Branch("[20, 30)"))), "decades", (0, 10, 20, 30)
    )
    frame = pa.table({"n": [5, 12, 15, 25], "day": ["1980-01-01", "1990-01-01", "2000-01-01", "2010-01-01"]})
    table = mq.Table(frame, mq.Schema([mq.Attribute("n", "continuous", decades), mq.Attribute("day", "date")]))
    path = written(
        tmp_path,
        "SELECT n FROM t WHERE n >= 10; SELECT n FROM t WHERE n > 12; SELECT n FROM t WHERE day < '1995-06-30'",
    )
    release = mq.anonymize(table, mq.KAnonymity(["n", "day"], 1), mq.Mondrian(workload=path), order="input")
    found = evaluate(table, release.table, mq.KAnonymity(["n", "day"], 1), queries=0, workload=path)["selection"]
    # n >= 10 and the day are exact; of n > 12 two are meant, three may be, and one is for certain
    assert found["exact"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["precision"] == pytest.approx((1 + 2 / 3 + 1) / 3, abs=1e-4)
    assert found["recall"] == pytest.approx((1 + 1 / 2 + 1) / 3, abs=1e-4)


# --- jobs ---


def with_workload(folder: Path, queries: str, more: str = "", name: str = "mondrian") -> Path:
    written(folder, queries)
    text = (
        JOB
        + f'[algorithm]\nname = "{name}"\nworkload = "queries.sql"\n{more}[output]\norder = "input"\nreport = false\n'
    )
    return write_job(folder, text)


def test_a_job_names_its_workload(tmp_path: Path) -> None:
    job = with_workload(tmp_path, "SELECT job FROM p WHERE age < 40 AND disease = 'Flu'")
    made = anonymize_job(job)
    assert made.release.settings["algorithm"]["workload"] == "queries.sql"
    assert made.summary["purpose"] == {"selection_precision": 1, "selection_recall": 1}
    found = evaluate_job(tmp_path / "people.csv", made.table, job, queries=0, folds=0)
    assert found["selection"]["exact"] == 1
    rows = compare_job(job, methods=["mondrian"]).rows
    tried = [row.settings.get("workload") for row in rows]
    assert {None, "queries.sql"} == set(tried)
    assert all(row.metrics["selection_precision"] is not None for row in rows)


def test_the_best_by_its_selections(tmp_path: Path) -> None:
    job = with_workload(tmp_path, "SELECT job FROM p WHERE age < 40", 'measure = "selection_recall"\n', name="auto")
    choice = anonymize_job(job).summary["choice"]
    assert choice["measure"] == "selection_recall"
    values = [each["value"] for each in choice["tried"]]
    assert max(values) == 1


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ("SELECT FROM WHERE", r"algorithm.workload: .*queries.sql: line 1: cannot be read as SQL"),
        ("", r"algorithm.workload: .*queries.sql: no query; a log has SELECT statements"),
        ("SELECT age FROM p WHERE agee > 3", r'queries.sql: line 1: no column "agee" in the job \(did you mean'),
    ],
)
def test_a_workload_that_is_none(tmp_path: Path, queries: str, message: str) -> None:
    with pytest.raises(mq.MasqueradeError, match=message) as error:
        anonymize_job(with_workload(tmp_path, queries))
    assert error.value.exit_code == 2
    assert len(error.value.lines) == 1
    assert not (tmp_path / "release.csv").exists()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    job = write_job(tmp_path, JOB + '[algorithm]\nname = "mondrian"\nworkload = "querys.sql"\n')
    plan = Plan(job)
    plan.algorithm(plan.schema())
    with pytest.raises(mq.JobError, match=r"algorithm.workload: .*querys.sql: there is no such file"):
        plan.settle()


def test_measures_of_selections_need_a_workload() -> None:
    with pytest.raises(mq.ParameterError, match="measure: must be a measure that needs no workload"):
        mq.Auto(measure="selection_precision")
