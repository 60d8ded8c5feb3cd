"""A party's part is one code: its table as one chunk in its memory, in an engine's chunks, or in files that one reads.

Whoever of the parties has an engine, the others cannot tell: every message has the same size, and those that are not
random the same bytes; the release is the same. The common records are put in the same order each time, which otherwise
nobody could choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import masquerade as mq
from chunked import rows_of, write_parts
from dask_cluster import cluster
from examples import examples
from masquerade.data import Records, partitioned_files
from masquerade.engine import DaskEngine, Engine, LocalEngine
from masquerade.net import Script
from masquerade.net.memory import SentMessage, Wire
from masquerade.net.script import decode
from masquerade.protocol import Contract, Participant, common_records, read_own_records, wanted_of_party
from masquerade.protocol.hand_in import Columns
from masquerade.protocol.mondrian.method import JointMondrian
from protocol.test_boundaries import METHODS, QID as LIMITED, bounded, contract_of as within_boundaries, records
from protocol.test_cut_checks import people
from protocol.test_joint_mondrian import contract_of as by_mondrian
from protocol.test_mashup import SCHEMA as LOANS, contract_of as by_tds, run_mashup

SCHEMA = mq.Schema(
    [
        mq.Attribute("birth_date", "date"),
        mq.Attribute("sex", taxonomy="flat"),
        mq.Attribute("town", taxonomy="flat"),
        mq.Attribute("salary", "continuous"),
        mq.Attribute("children", "continuous"),
    ]
)
HOLDERS = {"birth_date": "bank", "salary": "bank", "sex": "clinic", "town": "clinic", "children": "shop"}
QID = [*HOLDERS]
# Messages whose bytes follow from the records and their order; others are blinded, garbled or shared.
OPEN = {
    *("class-column", "score", "instruct", "settled", "finished", "start-values", "reachable"),
    *("level-cuts", "cuts-settled", "equal-cells", "best-attributes"),
}
DIVERSE = mq.KAnonymity(QID, k=4) & mq.LDiversity(QID, l=2, sensitive="disease")


def specialising(requirement: mq.Requirement, **terms: Any) -> Contract:
    return by_tds(requirement, HOLDERS, **{"argmax": "plain", "target": "approved", **terms})


def cutting(requirement: mq.Requirement, method: JointMondrian | None = None, **terms: Any) -> Contract:
    return by_mondrian(requirement, HOLDERS, method or JointMondrian(), **terms)


CONTRACTS: dict[str, Contract] = {
    "tds, k": specialising(mq.KAnonymity(QID, k=6)),
    "tds, hidden scores": specialising(mq.KAnonymity(QID, k=6), argmax="secure"),
    "tds, two QIDs": specialising(mq.KAnonymity(QID[:3], k=5) & mq.KAnonymity(QID[2:], k=9)),
    "tds, by anonymity": specialising(mq.KAnonymity(QID, k=6), score="info-gain-per-anonymity-loss"),
    "tds, no class": specialising(mq.KAnonymity(QID, k=6), target=None),
    "tds, sensitive values of one party": specialising(DIVERSE, sensitive={"disease": "clinic"}),
    "tds, sensitive values elsewhere, seldom refused": specialising(
        DIVERSE, target=None, sensitive={"disease": "bank"}
    ),
    "tds, sensitive values elsewhere, often refused": specialising(
        mq.TCloseness(QID[:4], t=0.35, sensitive="disease") & mq.KAnonymity(QID, k=3), sensitive={"disease": "clinic"}
    ),
    "tds, a class that another shares, a column in no QID": specialising(
        mq.KAnonymity(QID[:4], k=6), class_from="shop"
    ),
    "mondrian, k": cutting(mq.KAnonymity(QID, k=6)),
    "mondrian, strict, by width": cutting(mq.KAnonymity(QID, k=3), JointMondrian(choose="widest", strict=True)),
    "mondrian, by class": cutting(
        mq.KAnonymity(QID, k=5), JointMondrian(choose="information-gain"), class_name="approved"
    ),
    "mondrian, the class first": cutting(
        mq.KAnonymity(QID, k=5), JointMondrian(choose="class-first"), class_name="approved"
    ),
    "mondrian, the class is sensitive": cutting(
        mq.KAnonymity(QID, k=4) & mq.LDiversity(QID, l=2, sensitive="approved"), class_name="approved"
    ),
    "mondrian, two QIDs apart": cutting(mq.KAnonymity(QID[:2], k=5) & mq.KAnonymity(QID[2:], k=9)),
    "mondrian, sensitive values elsewhere": cutting(DIVERSE, sensitive={"disease": "clinic"}),
}
LINKED = "mondrian, QIDs that share an attribute"
IN_MEMORY = {LINKED: cutting(mq.KAnonymity(QID[:3], k=5) & mq.KAnonymity(QID[2:], k=9))}
ON_A_CLUSTER = ("tds, sensitive values elsewhere, often refused", "mondrian, sensitive values elsewhere")


@pytest.fixture(autouse=True)
def one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """All parties know which records are common, and in which order, without a message."""

    def common_rows(participant: Participant) -> Script[Any]:
        known = {each: row for row, each in enumerate(map(bytes, participant.identifiers))}
        common = [each for each in known if not each.startswith(b"only-")]
        return np.array([known[each] for each in sorted(common)])
        yield

    monkeypatch.setattr(common_records, "find_common_rows", common_rows)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("cluster"), workers=1) as started:
        yield started.address


def people_table(n: int) -> mq.Table:
    return mq.Table(mq.generate_people(n, missing=0), SCHEMA)


def same_with_engines(
    contract: Contract, table: mq.Table, engines: Mapping[str, Engine], stored: Any = lambda *_: None
) -> tuple[mq.Release, mq.Release]:
    """The releases with these engines and without any, of which rows and messages are the same."""
    wire, other = Wire(), Wire()
    alone = run_mashup(table, contract, wire=other, uncommon=20)
    release = run_mashup(table, contract, wire=wire, uncommon=20, engines=engines, in_chunks=stored)
    assert rows_of(release.table) == rows_of(alone.table)
    assert shown(wire) == shown(other)
    return release, alone


def shown(wire: Wire) -> list[Any]:
    """What was sent, as far as it does not depend on chance or time."""
    return [(each.sender, each.receiver, each.kind, len(each.data), _open(each)) for each in wire.heard]


def _open(heard: SentMessage) -> Any:
    if heard.kind == "columns":
        columns = decode(heard.data, [Columns])
        return msgspec.structs.asdict(columns) | {"seconds": sorted(columns.seconds)}  # type: ignore[attr-defined]
    return heard.data if heard.kind in OPEN else None


def told(release: mq.Release) -> dict[str, Any]:
    summary = release.summary
    return {name: summary[name] for name in summary if name != "seconds"}


class Stored:
    """The tables of parties with an engine, as Parquet files in small row groups, read into its chunks."""

    def __init__(self, contract: Contract, engines: Mapping[str, Engine], folder: Path) -> None:
        self.contract, self.engines, self.folder = contract, engines, folder

    def __call__(self, name: str, table: mq.Table) -> Records | None:
        if name not in self.engines:
            return None
        write_parts(table.arrow, self.folder / name)
        wanted, how = wanted_of_party(name, self.contract, table.schema, "id", "drop", ("", "?"))
        files = partitioned_files(name, self.folder, wanted.used)
        found, ids = read_own_records(files, wanted, self.engines[name], how)
        assert list(ids) == [each.as_py().encode() for each in table.arrow.column("id")]
        return found


@pytest.mark.parametrize("rows_at_once", [37, 1000])
@pytest.mark.parametrize("case", [*CONTRACTS, *IN_MEMORY])
def test_a_table_on_an_engine_changes_no_message_and_no_release(
    case: str, rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = (CONTRACTS | IN_MEMORY)[case]
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: rows_at_once)
    with LocalEngine(threads=2, folder=tmp_path) as one, LocalEngine(threads=1, folder=tmp_path) as other:
        release, alone = same_with_engines(contract, people_table(150), {"bank": one, "clinic": other})
    assert told(release) == told(alone)
    assert release.steps == alone.steps
    assert release.summary["groups"] > 3


@pytest.mark.parametrize("case", CONTRACTS)
def test_reading_files_in_chunks_changes_no_message_and_no_release(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = CONTRACTS[case]
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 37)
    with LocalEngine(threads=2, folder=tmp_path) as one, LocalEngine(threads=1, folder=tmp_path) as other:
        engines = {"bank": one, "shop": other}
        stored = Stored(contract, engines, tmp_path)
        release, alone = same_with_engines(contract, people_table(150), engines, stored)
    assert told(release) == told(alone)


@pytest.mark.system
@pytest.mark.parametrize("case", ON_A_CLUSTER)
def test_a_cluster_changes_no_message_and_no_release(
    case: str, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = CONTRACTS[case]
    monkeypatch.setattr(DaskEngine, "rows_at_once", lambda *_: 31)
    with DaskEngine(scheduler) as engine:
        engines: dict[str, Engine] = {"clinic": engine}
        same_with_engines(contract, people_table(80), engines, Stored(contract, engines, tmp_path))


@pytest.mark.parametrize("name", METHODS)
def test_an_engine_starts_at_the_boundaries(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = bounded(("Sex", "Job", "Salary"))
    table = mq.Table(people(90, 3).arrow, schema)
    holders = {"Sex": "bank", "Job": "clinic", "Salary": "bank", "Age": "clinic"}
    contract = within_boundaries(mq.KAnonymity(LIMITED, 3), holders, schema, METHODS[name])
    monkeypatch.setattr(LocalEngine, "rows_at_once", lambda *_: 19)
    with LocalEngine(threads=1, folder=tmp_path) as engine:
        release, alone = same_with_engines(contract, table, {"clinic": engine})
    assert release.summary["groups"] > 3
    assert release.suppressed == alone.suppressed > 0


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
    alone = mq.anonymize(table, requirement, mq.Mondrian(None, choose, strict, merge="small"), sensitive=["Ill"])
    with (
        TemporaryDirectory() as folder,
        LocalEngine(threads=1, folder=Path(folder)) as engine,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(LocalEngine, "rows_at_once", lambda *_: rows_at_once)
        release = run_mashup(table, contract, engines={"bank": engine, "clinic": engine})
    names = [*holders]
    assert rows_of(release.table.select(names)) == rows_of(alone.table.select(names))
