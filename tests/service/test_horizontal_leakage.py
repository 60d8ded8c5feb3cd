"""What the coordinator sees of a horizontal session without a trusted third party, and coalitions of its release."""

from __future__ import annotations

import csv
import re
import sqlite3
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from masquerade.net.script import decode
from masquerade.protocol.hand_in import Columns, read_columns
from masquerade.protocol.providers.messages import Rows, Values
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.session_states import Status
from service.test_coordinator_leakage import bounds, got, listened, without_counts
from service_hospitals import Hospitals

COLUMNS = ("age", "ward", "cost", "survived", "disease")
QID = ("age", "ward", "cost")
K, L, M = 4, 2, 2


def test_the_coordinator_sees_rows_of_the_release_and_nothing_finer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    heard, answers = listened(monkeypatch)
    told: dict[str, bytes] = {}
    with Hospitals(tmp_path, prefix="person-") as house:
        house.start_nodes()
        with house.coordinator() as coordinator:
            rows = _released(house, coordinator, told)
        for party in house.nodes:
            assert house.nodes[party].stop() == 0
            told[f"audit of {party}"] = (tmp_path / f"{party}-state" / "audit.jsonl").read_bytes()
        records = {party: house.records(party) for party in house.parties}
    told |= {f"control answer {number}": data for number, data in enumerate(answers)}
    said = capfd.readouterr()
    told["logs"] = (said.out + said.err).encode()
    for each in (b"rows=", b"session prepared", b"contract signed"):  # of the coordinator and of its nodes
        assert each in told["logs"]
    kept = [path for path in (tmp_path / "coordinator-state").rglob("*") if path.is_file()]
    assert {"coordinator.db", "audit.jsonl", "release.csv", "summary.json"} <= {path.name for path in kept}
    told |= {str(path.relative_to(tmp_path)): path.read_bytes() for path in kept}
    database = sqlite3.connect(tmp_path / "coordinator-state" / "coordinator.db")
    told["dump"] = "\n".join(database.iterdump()).encode()
    database.close()

    costs = {record["cost"] for each in records.values() for record in each} - bounds(rows)
    assert len(costs) > 200
    raw = re.compile(rb"(?<![\w.:-])(" + "|".join(sorted(costs)).encode() + rb")(?![\w.:-])")
    for place, data in told.items():
        assert b"person-" not in data, place
        if not place.endswith((".parquet", ".db", ".db-wal")):
            assert not raw.findall(without_counts(data)), place
    for party, data in heard:
        assert b"person-" not in data
        assert not raw.findall(data), party

    # From each hospital the diseases that it has, and its rows as they are released: that is all.
    kinds = Counter((party, type(decode(data, [Rows, Values])).__name__) for party, data in heard)
    assert kinds == {(party, kind): 1 for party in records for kind in ("Rows", "Values")}
    handed = _handed_in(heard)
    assert {party: len(each) for party, each in handed.items()} == {
        party: len(each) for party, each in records.items()
    }
    everything = [row for each in handed.values() for row in each]
    assert Counter(everything) == Counter(tuple(row[name] for name in COLUMNS) for row in rows)
    _withstands(handed)


def _released(house: Hospitals, coordinator: Coordinator, told: dict[str, bytes]) -> list[dict[str, str]]:
    ana = house.user("ana")
    house.known(coordinator, ana)
    token = {"Authorization": f"Bearer {coordinator.accounts.create_token(ana, 'tests')[0]}"}
    wish = [
        {"model": "k-anonymity", "qid": list(QID), "k": K},
        {"model": "l-diversity", "qid": list(QID), "sensitive": "disease", "l": L},
    ]
    asked = coordinator.ask(
        ana, house.request(m=M, attributes=["age", "ward", "cost", "disease"], privacy=wish)
    )
    done = house.finished(coordinator, asked.id)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    for path in ("", "/offers", "/contract", "/events", "/release", "/release/report"):
        answer = got(coordinator, f"/api/v1/sessions/{done.id}{path}", token)
        assert answer.status_code == 200, path
        told[f"answer to {path}"] = answer.content
    told["providers"] = got(coordinator, "/api/v1/providers", token).content
    told["metrics"] = got(coordinator, "/metrics", token).content
    return list(csv.DictReader(coordinator.table(ana, done.id).read_text().splitlines()))


def _handed_in(heard: list[tuple[str, bytes]]) -> dict[str, list[tuple[str, ...]]]:
    found = {}
    for party, data in heard:
        message = decode(data, [Rows, Values])
        if isinstance(message, Rows):
            table = read_columns(Columns(message.table, (), {}, (), {}), party, COLUMNS)
            found[party] = list(
                zip(*(map(str, table.column(name).to_pylist()) for name in COLUMNS), strict=True)
            )
    return found


def _withstands(handed: dict[str, list[tuple[str, ...]]]) -> None:
    """Definition 2.1, counted the slow way: every coalition of at most M that leaves somebody else's rows."""
    groups: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for party, rows in handed.items():
        for *cells, _survived, disease in rows:
            groups.setdefault(tuple(cells), {}).setdefault(party, []).append(disease)
    assert len(groups) > 5
    for members in groups.values():
        for size in range(min(M, len(members) - 1) + 1):
            for coalition in combinations(members, size):
                left = [disease for party in members.keys() - set(coalition) for disease in members[party]]
                assert len(left) >= K
                assert len(set(left)) >= L
