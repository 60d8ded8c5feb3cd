"""A party of a mashup by Mondrian that cuts on an engine: the same messages, the same release."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import masquerade as mq
from chunked import rows_of
from examples import examples
from masquerade.engine.local import LocalEngine
from masquerade.net.memory import Wire
from masquerade.protocol.multidimensional.method import JointMondrian
from protocol.test_boundaries import METHODS, bounded, records
from protocol.test_boundaries import QID as LIMITED
from protocol.test_boundaries import contract_of as within_boundaries
from protocol.test_cut_checks import people
from protocol.test_engine_state import HOLDERS, QID, SCHEMA, shown
from protocol.test_joint_mondrian import contract_of
from protocol.test_mashup import SCHEMA as LOANS
from protocol.test_mashup import run_mashup

DIVERSE = mq.KAnonymity(QID, k=4) & mq.LDiversity(QID, l=2, sensitive="disease")
CASES: dict[str, tuple[mq.Requirement, JointMondrian, dict[str, Any]]] = {
    "k": (mq.KAnonymity(QID, k=6), JointMondrian(), {}),
    "strict, by width": (mq.KAnonymity(QID, k=3), JointMondrian(choose="widest", strict=True), {}),
    "by class": (
        mq.KAnonymity(QID, k=5),
        JointMondrian(choose="information-gain"),
        {"class_name": "approved"},
    ),
    "the class first": (
        mq.KAnonymity(QID, k=5),
        JointMondrian(choose="class-first"),
        {"class_name": "approved"},
    ),
    "the class is sensitive": (
        mq.KAnonymity(QID, k=4) & mq.LDiversity(QID, l=2, sensitive="approved"),
        JointMondrian(),
        {"class_name": "approved"},
    ),
    "two QIDs apart": (mq.KAnonymity(QID[:2], k=5) & mq.KAnonymity(QID[2:], k=9), JointMondrian(), {}),
    "sensitive values elsewhere": (DIVERSE, JointMondrian(), {"sensitive": {"disease": "clinic"}}),
    "QIDs that share an attribute, cut in memory": (
        mq.KAnonymity(QID[:3], k=5) & mq.KAnonymity(QID[2:], k=9),
        JointMondrian(),
        {},
    ),
}


@pytest.mark.parametrize("rows_at_once", [37, 1000])
@pytest.mark.parametrize("case", CASES)
def test_cutting_on_an_engine_changes_no_message_and_no_release(
    case: str, rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirement, method, terms = CASES[case]
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: rows_at_once)
    table = mq.Table(mq.generate_people(150, missing=0), SCHEMA)
    contract = contract_of(requirement, HOLDERS, method, **terms)
    alone, together = Wire(), Wire()
    expected = run_mashup(table, contract, wire=alone)
    with LocalEngine(threads=2, folder=tmp_path) as one, LocalEngine(threads=1, folder=tmp_path) as other:
        release = run_mashup(table, contract, wire=together, engines={"bank": one, "clinic": other})
    assert rows_of(release.table) == rows_of(expected.table)
    assert release.summary["groups"] == expected.summary["groups"] > 4
    assert shown(together) == shown(alone)


@pytest.mark.parametrize("name", METHODS)
def test_an_engine_starts_at_the_boundaries(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 19)
    schema = bounded(("Sex", "Job", "Salary"))
    table = mq.Table(people(90, 3).arrow, schema)
    holders = {"Sex": "bank", "Job": "clinic", "Salary": "bank", "Age": "clinic"}
    contract = within_boundaries(mq.KAnonymity(LIMITED, 3), holders, schema, METHODS[name])
    expected = run_mashup(table, contract)
    with LocalEngine(threads=1, folder=tmp_path) as engine:
        release = run_mashup(table, contract, engines={"clinic": engine})
    assert rows_of(release.table) == rows_of(expected.table)
    assert release.summary["groups"] > 4
    assert release.suppressed == expected.suppressed > 0


@given(
    rows=records,
    k=st.integers(1, 4),
    choose=st.sampled_from(["certainty", "widest"]),
    strict=st.booleans(),
    rows_at_once=st.integers(2, 12),
    hidden=st.booleans(),
)
@settings(max_examples=examples(20), deadline=None)
def test_any_chunks_give_the_release_of_one_table(
    rows: list[dict[str, Any]], k: int, choose: str, strict: bool, rows_at_once: int, hidden: bool
) -> None:
    """However small the chunks are that groups must fit, wherever a sensitive attribute is."""
    table = mq.Table(pa.Table.from_pylist(rows), LOANS)
    requirement: mq.Requirement = mq.KAnonymity(LIMITED, k)
    if hidden and len({row["Ill"] for row in rows}) > 1:
        requirement &= mq.LDiversity(LIMITED, 2, "Ill")
    holders = {"Sex": "bank", "Job": "clinic", "Salary": "bank", "Age": "clinic", "Ill": "clinic"}
    method = JointMondrian(choose=choose, strict=strict, merge="small")
    contract = within_boundaries(requirement, holders, LOANS, method)
    alone = mq.anonymize(
        table, requirement, mq.Mondrian(None, choose, strict, merge="small"), sensitive=["Ill"]
    )
    with (
        TemporaryDirectory() as folder,
        LocalEngine(threads=1, folder=Path(folder)) as engine,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(LocalEngine, "rows_at_once", lambda *_: rows_at_once)
        release = run_mashup(table, contract, engines={"bank": engine, "clinic": engine})
    names = [*holders]
    assert rows_of(release.table.select(names)) == rows_of(alone.table.select(names))
