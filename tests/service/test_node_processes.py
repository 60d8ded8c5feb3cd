"""Nodes as processes of their own: they are killed, stopped and started again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO

import pytest

from forked import MASQUERADE, Forked, run as run_forked
from masquerade.audit import verify
from masquerade.errors import PeerError, Problem
from masquerade.service import Ledger, SignedContract
from service.party_nodes import PEOPLE, Coordinator, Folder, http, refused, run, wish

pytestmark = pytest.mark.system


class Served:
    """`masquerade party serve` as a process."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.log = folder.path / f"{name}.log"
        with self.log.open("ab") as errors:
            self.process = Forked(
                [MASQUERADE, "party", "serve", str(folder.conf(name)), "--json"],
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        out: IO[bytes] | None = self.process.stdout
        assert out is not None
        line = out.readline()
        assert line, self.log.read_text()
        told = json.loads(line)
        assert (told["party"], told["pid"]) == (name, self.process.pid)
        self.address: str = told["address"]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        code = self.process.wait(timeout=900)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Parties that let the coordinator watch."""
    made = Folder(tmp_path)
    for name in ("bank", "clinic"):
        made.write_conf(name, show_progress=True)
    return made


@pytest.fixture
def started(folder: Folder) -> Iterator[dict[str, Served]]:
    """Both nodes; whatever is left of them ends with the test."""
    nodes: dict[str, Served] = {}
    try:
        for name in ("bank", "clinic"):
            nodes[name] = Served(folder, name)
        yield nodes
    finally:
        for node in nodes.values():
            if node.process.poll() is None:
                node.end(signal.SIGKILL)


@asynccontextmanager
async def talking(started: dict[str, Served]) -> AsyncIterator[Coordinator]:
    async with AsyncExitStack() as stack:
        https = {
            name: await stack.enter_async_context(http("coordinator", name, node.address))
            for name, node in started.items()
        }
        yield Coordinator(https)


def test_a_killed_node_is_named_and_starts_again(folder: Folder, started: dict[str, Served]) -> None:
    async def killed() -> SignedContract:
        async with talking(started) as coordinator:
            contract = await coordinator.signed(wish(show_progress=True))
            async with coordinator.held(contract) as channels:
                assert started["bank"].end(signal.SIGKILL) == -signal.SIGKILL
                failure = await channels["bank"].failure()
                assert failure.peer == "bank"  # at the assembler's end
                end = await coordinator.ended("clinic", contract)
                assert (end.state, end.culprit) == ("failed", "bank")  # and at the other party's
                assert end.problems[0].party == "bank"
            return contract

    contract = run(killed())
    started["bank"] = Served(folder, "bank")

    async def again() -> None:
        async with talking(started) as coordinator:
            refusal = refused(await coordinator.prepare("bank", contract))
            assert refusal.reasons == ("this contract has run before; a contract runs once",)
            retry = await coordinator.sign(coordinator.draw_up(contract.deal, contract.expiry, 2))
            release = await coordinator.release(retry)
            assert release.rows == 60
            await coordinator.ended("bank", retry)
            other = refused(await coordinator.offer("bank", wish(attributes=["age", "job"])))
            assert "already released" in other.reasons[0]

    run(again())
    assert [started[name].end(signal.SIGTERM) for name in ("bank", "clinic")] == [0, 0]
    found = verify(folder.state("bank") / "audit.jsonl", certificates=[PEOPLE["bank"].certificate])
    found.insist()
    assert (found.sessions, found.unfinished) == (2, 1)  # the one that was killed has no end
    assert found.sealed_up_to == found.records
    records = Ledger.load(folder.state("bank") / "ledger.jsonl").records
    assert [record.terms for record in records] == [contract.deal.terms]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_node_that_is_stopped_says_so(
    folder: Folder, started: dict[str, Served], number: signal.Signals
) -> None:
    async with talking(started) as coordinator:
        contract = await coordinator.signed(wish(show_progress=True))
        async with coordinator.held(contract) as channels:
            code = await asyncio.to_thread(started["bank"].end, number)
            assert code == 0
            failure: PeerError = await channels["bank"].failure()
            assert str(failure) == "party bank: was stopped"
            end = await coordinator.ended("clinic", contract)
            assert (end.culprit, end.problems) == ("bank", (Problem("was stopped", party="bank"),))
    found = verify(folder.state("bank") / "audit.jsonl", certificates=[PEOPLE["bank"].certificate])
    found.insist()
    assert (found.unfinished, found.sealed_up_to) == (0, found.records)
    lines = [json.loads(line) for line in started["bank"].log.read_text().splitlines()]  # JSON lines, all of them
    assert lines[0]["event"] == "listening"
    assert lines[-1]["event"] == "ended"
    text = started["bank"].log.read_text()
    assert "Qz" not in text  # no leaf, no cell
    assert not os.path.exists(f"/proc/{started['bank'].process.pid}")  # noqa: PTH110 # a process, not a file


def test_two_nodes_do_not_share_a_state_folder(folder: Folder, started: dict[str, Served]) -> None:
    second = run_forked([MASQUERADE, "party", "serve", str(folder.conf("bank"))])
    assert (second.returncode, second.stdout) == (2, b"")
    assert second.stderr.decode().splitlines() == [
        f"error: {folder.state('bank')}: another node uses this state folder; stop it first"
    ]
