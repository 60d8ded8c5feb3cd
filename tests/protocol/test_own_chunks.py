"""A party that reads its table in chunks: the same messages, the same release, and no raw row in its own memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import masquerade as mq
from chunked import rows_of, write_parts
from masquerade.data.parquet_parts import parted_files
from masquerade.data.records import Records
from masquerade.engine.chunks import Engine
from masquerade.engine.local import LocalEngine
from masquerade.errors import DataError, ParameterError, RequirementUnreachable
from masquerade.net.memory import Wire
from masquerade.protocol.contract import Contract
from masquerade.protocol.multidimensional.method import JointMondrian
from masquerade.protocol.own_chunks import read_own_records, wanted_of_party
from protocol.test_engine_groups import CASES as MONDRIAN
from protocol.test_engine_state import CASES as TDS
from protocol.test_engine_state import HOLDERS, QID, SCHEMA, shown
from protocol.test_joint_mondrian import contract_of as by_mondrian
from protocol.test_mashup import contract_of as by_tds
from protocol.test_mashup import run_mashup

CONTRACTS: dict[str, Contract] = {
    **{
        f"tds, {name}": by_tds(requirement, HOLDERS, **{"argmax": "plain", **terms})
        for name, (requirement, terms) in TDS.items()
    },
    **{
        f"mondrian, {name}": by_mondrian(requirement, HOLDERS, method, **terms)
        for name, (requirement, method, terms) in MONDRIAN.items()
        if "share" not in name
    },
    "tds, a class that another shares, a column in no QID": by_tds(
        mq.KAnonymity(QID[:4], k=6), HOLDERS, target="approved", class_from="shop", argmax="plain"
    ),
}


class Stored:
    """The tables of parties with an engine, as Parquet files in small row groups, read into its chunks."""

    def __init__(self, contract: Contract, engines: Mapping[str, Engine], folder: Path) -> None:
        self.contract, self.engines, self.folder = contract, engines, folder

    def __call__(self, name: str, table: mq.Table) -> Records | None:
        if name not in self.engines:
            return None
        write_parts(table.arrow, self.folder / name)
        wanted, how = wanted_of_party(name, self.contract, table.schema, "id", "drop", ("", "?"))
        files = parted_files(name, self.folder, wanted.used)
        chunks, ids = read_own_records(files, wanted, self.engines[name], how)
        assert list(ids) == [each.as_py().encode() for each in table.arrow.column("id")]
        return chunks


@pytest.mark.parametrize("case", CONTRACTS)
def test_reading_in_chunks_changes_no_message_and_no_release(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = CONTRACTS[case]
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 37)
    table = mq.Table(mq.generate_people(150, missing=0), SCHEMA)
    alone, together = Wire(), Wire()
    expected = run_mashup(table, contract, wire=alone, uncommon=20)
    with LocalEngine(threads=2, folder=tmp_path) as one, LocalEngine(threads=1, folder=tmp_path) as other:
        engines = {"bank": one, "shop": other}
        stored = Stored(contract, engines, tmp_path)
        release = run_mashup(table, contract, wire=together, uncommon=20, engines=engines, in_chunks=stored)
    assert rows_of(release.table) == rows_of(expected.table)
    assert told(release) == told(expected)
    assert shown(together) == shown(alone)
    handed = [
        [len(each.data) for each in wire.heard if each.receiver == "assembler"] for wire in (alone, together)
    ]
    assert handed[0] == handed[1]  # the assembler cannot tell either


def told(release: mq.Release) -> dict[str, Any]:
    summary = release.summary
    return {name: summary[name] for name in summary if name != "seconds"}


def read(tmp_path: Path, people: pa.Table, contract: Contract) -> Records:
    write_parts(people, tmp_path / "people")
    with LocalEngine(threads=1, folder=tmp_path) as engine:
        wanted, how = wanted_of_party("bank", contract, SCHEMA, "ssn", "drop", ("", "?"))
        return read_own_records(parted_files("people", tmp_path, wanted.used), wanted, engine, how)[0]


def test_an_identifier_in_two_parts_is_told_by_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
