"""What is wrong with a table that a party reads in chunks is told as of one in memory; see also tests/contract."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import masquerade as mq
from chunked import write_parts
from contract.test_parties_on_engines import HOLDERS, QID, SCHEMA, Stored
from masquerade.data import Records, partitioned_files
from masquerade.engine import LocalEngine
from masquerade.errors import DataError, ParameterError, RequirementUnreachable
from masquerade.protocol import Contract, read_own_records, wanted_of_party
from masquerade.protocol.mondrian.method import JointMondrian
from protocol.test_joint_mondrian import contract_of as by_mondrian
from protocol.test_mashup import contract_of as by_tds, run_mashup


def read(tmp_path: Path, people: pa.Table, contract: Contract) -> Records:
    write_parts(people, tmp_path / "people")
    with LocalEngine(threads=1, folder=tmp_path) as engine:
        wanted, how = wanted_of_party("bank", contract, SCHEMA, "ssn", "drop", ("", "?"))
        return read_own_records(partitioned_files("people", tmp_path, wanted.used), wanted, engine, how)[0]


def test_an_identifier_in_two_parts_is_told_by_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 10)
    people = mq.generate_people(40, missing=0)
    doubled = pa.concat_tables([people, people.slice(3, 1)])
    contract = by_tds(mq.KAnonymity(QID, k=6), HOLDERS, target=None)
    with pytest.raises(DataError) as refused:
        read(tmp_path, doubled, contract)
    (line,) = refused.value.lines
    assert f"{tmp_path}/people/part-3.parquet: row 8, column ssn: the same identifier as row 4 of " in line
    assert line.endswith("people/part-0.parquet; each identifier must stand in one row")
    assert people["ssn"][3].as_py() not in line


def test_only_incomplete_rows_are_told(tmp_path: Path) -> None:
    people = mq.generate_people(10, missing=0)
    column = people.column_names.index("salary")
    people = people.set_column(column, "salary", pa.nulls(10, people["salary"].type))
    with pytest.raises(DataError, match="people: no complete row is left"):
        read(tmp_path, people, by_tds(mq.KAnonymity(QID, k=6), HOLDERS, target=None))


@pytest.mark.parametrize(
    ("requirement", "error", "said"),
    [
        (
            mq.ConfidenceBounding(QID, confidence=0.9, sensitive="disease", values=["the plague"]),
            ParameterError,
            'bank has no record with disease = "the plague"',
        ),
        (
            mq.LDiversity(QID, l=60, sensitive="disease"),
            RequirementUnreachable,
            "the common records: .* cannot be reached",
        ),
    ],
)
def test_what_cannot_be_is_refused_as_in_one_memory(
    requirement: mq.Requirement, error: type[Exception], said: str, tmp_path: Path
) -> None:
    table = mq.Table(mq.generate_people(60, missing=0), SCHEMA)
    contract = by_mondrian(requirement, HOLDERS, JointMondrian(), sensitive={"disease": "bank"})
    with LocalEngine(threads=1, folder=tmp_path) as engine:
        engines = {"bank": engine}
        stored = Stored(contract, engines, tmp_path)
        with pytest.raises(error, match=said):
            run_mashup(table, contract, engines=engines, in_chunks=stored)
