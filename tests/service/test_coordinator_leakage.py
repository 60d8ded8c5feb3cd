"""What the coordinator gets to see of a session: everything that reaches it is recorded and looked through."""

from __future__ import annotations

import asyncio
import csv
import re
import sqlite3
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import pytest

from masquerade.net.script import decode
from masquerade.protocol.hand_in import Columns, read_columns
from masquerade.protocol.providers.messages import Rows, Values
from masquerade.service import Coordinator, SessionRecord, Status, create_app
from masquerade.service.coordinator import run
from memory_network import MemoryLink
from service_hospitals import Hospitals
from service_house import House


def record(channel: Any, heard: list[tuple[str, bytes]]) -> None:
    """Keep a channel's messages as they are taken from it."""
    take = channel.take

    def recorded() -> bytes | None:
        data: bytes | None = take()
        if data is not None:
            heard.append((channel.peer, data))
        return data

    channel.take = recorded


def listened(monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[str, bytes]], list[bytes]]:
    """What the coordinator hears from now on: messages of sessions with their senders, and answers of nodes."""
    heard: list[tuple[str, bytes]] = []
    answers: list[bytes] = []
    real_run, real_exchange = run.run_script, MemoryLink.exchange

    async def recorded_run(script: Any, channels: Any, **more: Any) -> Any:
        for each in channels.values():
            record(each, heard)
        return await real_run(script, channels, **more)

    async def recorded_exchange(self: MemoryLink, *given: Any) -> tuple[int, bytes]:
        status, data = await real_exchange(self, *given)
        if self.identity.name == "coordinator":
            answers.append(data)
        return status, data

    monkeypatch.setattr(run, "run_script", recorded_run)
    monkeypatch.setattr(MemoryLink, "exchange", recorded_exchange)
    return heard, answers


def got(coordinator: Coordinator, path: str, headers: dict[str, str]) -> httpx.Response:
    """What the API answers."""

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(coordinator))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return await http.get(path, headers=headers)

    return asyncio.run(asked())


def published(
    house: House, coordinator: Coordinator, told: dict[str, bytes], **wish: Any
) -> tuple[SessionRecord, list[dict[str, str]]]:
    """A session that was published, and its rows; what the API answers about it is added to what was told."""
    ana = house.user("ana")
    house.known(coordinator, ana)
    token = {"Authorization": f"Bearer {coordinator.accounts.create_token(ana, 'tests')[0]}"}
    done = house.finished(coordinator, coordinator.ask(ana, house.request(**wish)).id)
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    for path in ("", "/offers", "/contract", "/events", "/release", "/release/report"):
        answer = got(coordinator, f"/api/v1/sessions/{done.id}{path}", token)
        assert answer.status_code == 200, path
        told[f"answer to {path}"] = answer.content
    told["providers"] = got(coordinator, "/api/v1/providers", token).content
    told["metrics"] = got(coordinator, "/metrics", token).content
    return done, list(csv.DictReader(coordinator.table(ana, done.id).read_text().splitlines()))


def without_counts(data: bytes) -> bytes:
    """All but times, and how many bytes, messages and queries there were: any numbers, a raw value among them."""
    counts = rb"""["'](bytes_sent|messages|queries)["']: \d+"""
    return re.sub(counts + rb"|datetime\.datetime\([^)]*\)", b"", data)


def bounds(rows: list[dict[str, str]]) -> set[str]:
    """The ends of the released intervals, which are raw values by their nature and which everybody may see."""
    return {number for row in rows for cell in row.values() for number in re.findall(r"[\d.]+", cell)}


def test_the_coordinator_sees_the_release_and_nothing_finer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    heard, answers = listened(monkeypatch)
    told: dict[str, bytes] = {}  # all that the coordinator keeps and answers, and all logs
    with House(tmp_path, prefix="person-") as house:
        house.start_nodes()
        ana = house.user("ana")
        with house.coordinator() as coordinator:
            attributes = ["age", "job", "salary", "town", "disease"]
            done, rows = published(house, coordinator, told, attributes=attributes)
            told["events"] = repr(coordinator.events(ana, done.id)).encode()
        for party in house.nodes:
            assert house.nodes[party].stop() == 0
            told[f"audit of {party}"] = (tmp_path / f"{party}-state" / "audit.jsonl").read_bytes()
        said = capfd.readouterr()
        for each in ("rows=", "session prepared", "contract signed"):  # of the coordinator and of its nodes
            assert each in said.out + said.err
        told["logs"] = (said.out + said.err).encode()
        kept = [path for path in (tmp_path / "coordinator-state").rglob("*") if path.is_file()]
        raw = {
            party: list(csv.DictReader((tmp_path / f"{party}.csv").read_text().splitlines()))
            for party in ("bank", "clinic")
        }

    assert len(answers) > 10
    assert {"coordinator.db", "audit.jsonl", "release.csv", "summary.json"} <= {path.name for path in kept}
    told |= {f"message of {party}": data for party, data in heard}
    told |= {f"control answer {number}": data for number, data in enumerate(answers)}
    told |= {str(path.relative_to(tmp_path)): path.read_bytes() for path in kept}
    released = {cell for row in rows for cell in row.values()}
    # Of the QID: salaries are telling, because no other number looks like them; ages of two digits are everywhere, and
    # round numbers are the ends of bars in charts.
    finer = {row["salary"] for row in raw["bank"] if not row["salary"].endswith("000")} - released
    assert len(finer) > 50
    raw_salary = re.compile(rb"(?<![\w.:-])(" + "|".join(sorted(finer)).encode() + rb")(?![\w.:-])")
    for place, data in told.items():
        assert b"person-" not in data, place
        if place.endswith((".parquet", ".db", ".db-wal")) or place.startswith("message"):
            continue  # binary, where any two bytes may look like a number; their cells are looked at below
        hits = {hit.decode() for hit in raw_salary.findall(without_counts(data))} - bounds(rows)
        assert not hits, (place, hits)
    with sqlite3.connect(tmp_path / "coordinator-state" / "coordinator.db") as database:
        dump = "\n".join(database.iterdump()).encode()
    database.close()
    assert b"person-" not in dump
    assert b"published" in dump
    assert not {hit.decode() for hit in raw_salary.findall(without_counts(dump))} - bounds(rows)
    assert b'"step"' not in dump  # nothing of the partitions on the way, which this contract does not grant
    assert "'step'" not in dump.decode()
    # One message from each party, and its cells are the release's own, column by column, however they are ordered.
    assert sorted(party for party, _ in heard) == ["bank", "clinic"]
    columns = {"bank": ["job", "salary"], "clinic": ["age", "town", "disease", "income"]}
    for party, data in heard:
        message = decode(data, [Columns])
        assert isinstance(message, Columns)
        assert message.steps == ()  # the contract does not grant them
        table = read_columns(message, party, columns[party])
        for name in columns[party]:
            assert Counter(map(str, table.column(name).to_pylist())) == Counter(row[name] for row in rows)
            dictionary = table.column(name).combine_chunks()
            values = getattr(dictionary, "dictionary", None)
            if values is not None:  # no value travels that no released row has
                assert set(map(str, values.to_pylist())) == {row[name] for row in rows}
    # The test could fail: the raw values of a generalised column are others than those that were handed in.
    assert not {row["salary"] for row in raw["bank"]} & {row["salary"] for row in rows}
    assert not {row["age"] for row in raw["clinic"]} & {row["age"] for row in rows}


# --- What the coordinator sees of a horizontal session without a trusted third party, and coalitions of
# its release.

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
            wish = [
                {"model": "k-anonymity", "qid": list(QID), "k": K},
                {"model": "l-diversity", "qid": list(QID), "sensitive": "disease", "l": L},
            ]
            attributes = ["age", "ward", "cost", "disease"]
            _, rows = published(house, coordinator, told, m=M, attributes=attributes, privacy=wish)
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
    assert {party: len(each) for party, each in handed.items()} == {party: len(each) for party, each in records.items()}
    everything = [row for each in handed.values() for row in each]
    assert Counter(everything) == Counter(tuple(row[name] for name in COLUMNS) for row in rows)
    _withstands(handed)


def _handed_in(heard: list[tuple[str, bytes]]) -> dict[str, list[tuple[str, ...]]]:
    found = {}
    for party, data in heard:
        message = decode(data, [Rows, Values])
        if isinstance(message, Rows):
            table = read_columns(Columns(message.table, (), {}, (), {}), party, COLUMNS)
            found[party] = list(zip(*(map(str, table.column(name).to_pylist()) for name in COLUMNS), strict=True))
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
