"""The check in SQL: the same as counted without it, on whatever it reads; no name and no value breaks it."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings, strategies as st

import masquerade as mq
from cli.command import here
from examples import examples
from masquerade.errors import Bug, DataError
from masquerade.privacy import REQUIREMENTS, Verdict, check_in_sql, verify
from masquerade.privacy.sql import GroupTest
from privacy.definitions import DEFINITIONS, PROVIDER, QID, SENSITIVE

MAKERS = [
    *(make for definition in DEFINITIONS.values() for make in definition.examples),
    lambda qid: mq.LDiversity(qid, 3, (SENSITIVE, PROVIDER)),
    lambda qid: mq.TCloseness(qid, 0.3, (SENSITIVE, PROVIDER), distance="ordered"),
    lambda qid: mq.TCloseness(qid, 0.2, "visits", distance="ordered"),
    lambda qid: mq.MPrivacy(0, mq.TCloseness(qid, 0.4, SENSITIVE), PROVIDER).parts[0],
    lambda qid: mq.MPrivacy(2, mq.LDiversity(qid, 2, SENSITIVE), PROVIDER).parts[0],
    lambda qid: mq.MPrivacy(2, mq.AlphaKAnonymity(qid, 0.7, 2, SENSITIVE, ["b"]), PROVIDER).parts[0],
    lambda qid: mq.MPrivacy(3, mq.PSensitiveKAnonymity(qid, 2, 3, SENSITIVE), PROVIDER).parts[0],
]

_rows = st.tuples(
    st.sampled_from(["[20, 30)", "*", "?", " *"]),
    st.sampled_from(["clerk", "", "'; DROP"]),
    st.sampled_from(["a", "b", "c", "d", " b"]),
    st.sampled_from("xyz"),
    st.sampled_from(["10", "9", "+9.0", "1e1", ".5", "many"]),
)
NAMES = (*QID, SENSITIVE, PROVIDER, "visits")


def frame_of(rows: list[tuple[str, ...]]) -> pa.Table:
    return pa.table({name: list(column) for name, column in zip(NAMES, zip(*rows, strict=True), strict=True)})


def _agrees(told: Any, verdict: Verdict) -> None:
    assert not told.reason
    assert not told.differs, told
    assert (told.holds, told.groups) == (verdict.holds, verdict.groups)
    assert told.group == verdict.group
    assert (told.violating > 0) == (verdict.group is not None)


_some = st.lists(st.sampled_from(range(len(MAKERS))), min_size=1, max_size=5)


@given(st.lists(_rows, min_size=1, max_size=25), _some)
@example([("*", "clerk", "ab"[at % 2], "xyz"[at % 3], "10") for at in range(12)], [*range(len(MAKERS))])
@example([("?", "", "abcd"[at // 3], "xyz"[at % 3], str(at)) for at in range(11)], [*range(len(MAKERS))])
@settings(max_examples=examples(60), deadline=None)
def test_every_requirement_is_judged_as_without_sql(rows: list[tuple[str, ...]], some: list[int]) -> None:
    frame = frame_of(rows)
    verdicts = [verify(frame, MAKERS[each](QID[: 1 + each % 2]), bind=False)[0] for each in some]
    for told, verdict in zip(check_in_sql(frame, verdicts), verdicts, strict=True):
        _agrees(told, verdict)


def test_every_model_is_among_them() -> None:
    assert {make(QID).model for make in MAKERS} >= {name for name in REQUIREMENTS if name != "no-rare-value"}


def test_what_cannot_be_said_is_told(tmp_path: Path) -> None:
    frame = frame_of([("*", "clerk", "a", who, "1") for who in "xyz"])
    close = mq.MPrivacy(1, mq.TCloseness(QID, 0.4, SENSITIVE), PROVIDER)
    many = mq.MPrivacy(4, mq.LDiversity(QID, 1, SENSITIVE), PROVIDER)
    found = mq.verify(frame, close & many, sql=True)
    assert found.sql[0].summary()["not_in_sql"] == (
        "which coalition is the worst for t-closeness cannot be said in SQL"
    )
    # What m-privacy wraps is judged, too.
    assert [bool(each.statement) for each in found.sql] == [False, True, False, True]
    assert "more than 3 providers" in found.sql[2].reason
    found.insist()


@pytest.mark.parametrize("kind", ["csv", "semicolons.csv", "parquet", "folder"])
def test_whatever_the_files_and_columns_are_called(kind: str, tmp_path: Path) -> None:
    """Quotes, capitals, SQL and the signs of a pattern in names are names."""
    names = ['a"; DROP TABLE x --', "A", "a", "it's, one", "v"]
    rows = [("[1, 2)", "1", 'sa"y', "line\nbreak", "u"), ("[1, 2)", "1", 'sa"y', "", "w")] * 2
    rows.append(("[1, 2)", "2", 'sa"y', "", "w"))
    frame = pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})
    path = tmp_path / f"it's [all]*.{kind}"
    if kind == "folder":
        path = tmp_path / "it's [all]* release"
        path.mkdir()
        pq.write_table(frame.slice(0, 2), path / "part-00000.parquet")
        pq.write_table(frame.slice(2), path / "part-00001.parquet")
        (path / "_notes.parquet").write_text("no table")
    elif kind == "parquet":
        pq.write_table(frame, path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, delimiter=";" if kind.startswith("semi") else ",")
            writer.writerows([names, *rows])
        (tmp_path / f"it's a bait.{kind}").write_text("other\n1\n")
    asked = mq.KAnonymity(names[:1] + names[3:4], 2) & mq.LDiversity(["A", "a"], 2, "v")
    verdicts = verify(frame, asked)
    told = check_in_sql(path, verdicts)
    for each, verdict in zip(told, verdicts, strict=True):
        _agrees(each, verdict)
    assert [each.violating for each in told] == [0, 1]
    assert told[1].group == {"A": "2", "a": 'sa"y'}


def test_cells_of_every_type(tmp_path: Path) -> None:
    import datetime
    import decimal

    frame = pa.table(
        {
            "whole": [1, 1, None, None],
            "part": [1.0, 1.0, 2.5, 2.5],
            "flag": [True, True, None, None],
            "day": [datetime.date(2020, 1, 2)] * 2 + [None] * 2,
            "exact": [decimal.Decimal("1.50")] * 2 + [decimal.Decimal("100.00")] * 2,
            "kind": pa.array(["a", "a", "b", None]).dictionary_encode(),
            "nested": [[1], [2], [3], None],
        }
    )
    pq.write_table(frame, tmp_path / "typed.parquet")
    columns = ["whole", "part", "flag", "day", "exact", "kind"]
    asked = mq.KAnonymity(columns, 2) & mq.ConfidenceBounding(["part"], 0.9, "exact", ["1.5", "100"])
    verdicts = verify(frame, asked)
    for source in (frame, tmp_path / "typed.parquet"):
        for told, verdict in zip(check_in_sql(source, verdicts), verdicts, strict=True):
            _agrees(told, verdict)


def test_no_rows_hold_nobody() -> None:
    frame = pa.table({name: pa.array([], pa.string()) for name in NAMES})
    found = mq.verify(frame, mq.KAnonymity(QID, 5) & mq.TCloseness(QID, 0.1, SENSITIVE), sql=True)
    assert [(each.groups, each.holds, each.value) for each in found.sql] == [(0, True, None)] * 2
    found.insist()


def test_more_groups_than_the_memory_holds(tmp_path: Path) -> None:
    """DuckDB keeps what is too much in a folder of its own, which is gone afterwards."""
    count = 600_000
    for part in range(2):
        first = part * count // 2
        numbers = pa.array(range(first, first + count // 2)).cast(pa.string())
        frame = pa.table({"age": numbers, "job": pa.array([" " * 40] * (count // 2))})
        pq.write_table(frame, tmp_path / f"part-{part}.parquet")
    verdict = Verdict(mq.KAnonymity(["age", "job"], 2), False, 1, count, group={"age": "0", "job": " " * 40})
    [told] = check_in_sql(tmp_path, [verdict], memory=1 << 20)
    assert (told.violating, told.value, told.differs) == (count, 1, "")
    assert told.group == verdict.group


# --- the command ---


JOB = """
[data]
source = "none.csv"
[attributes.age]
type = "continuous"
[attributes.job]
taxonomy = "flat"
[[privacy]]
model = "k-anonymity"
qid = ["age", "job"]
k = 2
[[privacy]]
model = "l-diversity"
qid = ["age"]
l = 2
sensitive = "disease"
[output]
escape_formulas = true
"""


def _files(folder: Path, rows: list[str]) -> tuple[Path, Path]:
    job, release = folder / "job.toml", folder / "release.csv"
    job.write_text(JOB)
    release.write_text("\n".join(["age,job,disease", *rows]) + "\n")
    return release, job


def test_the_statements_are_printed_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release, job = _files(tmp_path, ["1,a,x", "1,a,y", "'-,a,'=x", "'-,a,y"])
    answer = here(capsys, "verify", release, "--job", job, "--sql")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("-- the same as counted without SQL") == 2
    assert "-- 2 groups: it holds" in answer.out
    statements = [entry["statement"] for entry in _json(capsys, release, job)["sql"]]
    import duckdb

    with duckdb.connect() as connection:
        for statement in statements:
            assert statement in answer.out
            assert connection.execute(statement).fetchall() == [(2, 0, 2)]


def _json(capsys: pytest.CaptureFixture[str], release: Path, job: Path) -> Any:
    return json.loads(here(capsys, "verify", release, "--job", job, "--sql", "--json").out)


def test_a_planted_violation_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release, job = _files(tmp_path, ["1,a,x", "1,a,y", "2,a,x", "'-1,b,'=x", "2,a,y"])
    answer = here(capsys, "verify", release, "--job", job, "--sql")
    assert answer.code == 1
    assert len(answer.problems) == 2
    assert "-- 3 groups: 1 violate it; first (age = -1, job = b)" in answer.out
    found = _json(capsys, release, job)
    assert found["holds"] is False
    assert [entry["violating_groups"] for entry in found["sql"]] == [1, 1]
    assert all(entry["agrees"] for entry in found["sql"])
    assert found["sql"][1]["first_violating_group"] == {"age": "-1"}


def test_a_difference_is_a_bug(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    release, job = _files(tmp_path, ["1,a,x", "1,a,y"])
    with monkeypatch.context() as patch:
        patch.setattr(mq.KAnonymity, "sql", lambda self, words: GroupTest("sum(records)", "true"))
        answer = here(capsys, "verify", release, "--job", job, "--sql")
        assert answer.code == 4
        assert "SQL differs: counted without SQL, it holds" in answer.err
        assert "-- differs: counted without SQL, it holds" in answer.out
    with monkeypatch.context() as patch:
        patch.setattr(mq.KAnonymity, "sql", lambda self, words: GroupTest("min(records)", "false"))
        with pytest.raises(Bug, match="the worst group's figure is 2"):
            mq.verify_job(release, job, sql=True).insist()


def test_without_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release, job = _files(tmp_path, ["1,a,x", "1,a,y"])
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert mq.verify_job(release, job)
    with pytest.raises(DataError, match=r'pip install "masquerade\[duckdb\]"'):
        mq.verify_job(release, job, sql=True)


def test_what_duckdb_refuses_names_the_release(tmp_path: Path) -> None:
    path = tmp_path / "ragged.csv"
    path.write_text('age,job\n1,a\n2,b,c,"d\n')
    with pytest.raises(DataError, match=r"ragged\.csv"):
        check_in_sql(path, [Verdict(mq.KAnonymity(QID, 1), True, 1, 1)], name=str(path))
