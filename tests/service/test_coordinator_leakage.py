"""What the coordinator gets to see of a session: everything that reaches it is recorded and looked through."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from masquerade.net.script import decode
from masquerade.protocol.columns import Columns, read_columns
from masquerade.service.coordinator import attempt
from masquerade.service.mutual_tls import PeerHttp
from masquerade.service.store import Status
from service_house import House


class Recorded:
    """A channel whose messages are kept as they arrive."""

    def __init__(self, channel: Any, heard: list[tuple[str, bytes]]) -> None:
        self._channel, self._heard = channel, heard

    async def receive(self) -> bytes:
        data: bytes = await self._channel.receive()
        self._heard.append((self._channel.peer, data))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


def test_the_coordinator_sees_the_release_and_nothing_finer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[str, bytes]] = []
    answers: list[bytes] = []
    real_run, real_read = attempt.run_script, PeerHttp._read

    async def recorded_run(script: Any, channels: Any, **more: Any) -> Any:
        return await real_run(
            script, {name: Recorded(each, heard) for name, each in channels.items()}, **more
        )

    async def recorded_read(self: PeerHttp, response: Any) -> bytes:
        data = await real_read(self, response)
        answers.append(data)
        return data

    monkeypatch.setattr(attempt, "run_script", recorded_run)
    monkeypatch.setattr(PeerHttp, "_read", recorded_read)
    with House(tmp_path, prefix="person-") as house:
        house.start_nodes()
        ana = house.user("ana")
        with house.coordinator() as coordinator:
            house.known(coordinator, ana)
            asked = coordinator.ask(
                ana, house.request(attributes=["age", "job", "salary", "town", "disease"])
            )
            done = house.finished(coordinator, asked.id)
            assert (done.status, done.cause) == (Status.PUBLISHED, None)
            rows = list(csv.DictReader(coordinator.table(ana, done.id).read_text().splitlines()))
        kept = [path for path in (tmp_path / "coordinator-state").rglob("*") if path.is_file()]
        raw = {
            party: list(csv.DictReader((tmp_path / f"{party}.csv").read_text().splitlines()))
            for party in ("bank", "clinic")
        }

    everything = [data for _, data in heard] + answers
    assert len(answers) > 10
    assert not any(b"person-" in data for data in everything)
    assert not any(b"person-" in path.read_bytes() for path in kept)
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
