"""A node when something comes in the middle of something else: each moment is held open until it has."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from masquerade.net import Channel
from masquerade.service import Dataset
from masquerade.service.node import admission as approvals
from masquerade.service.node.admission import deal_id
from masquerade.service.node.session import PartySession
from masquerade.service.wire.control import Published, ReadyAt
from service.gates import PATIENCE, Gate
from service.party_nodes import Folder, now, refused, wish, world


def held_while_it_reads(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The first session's table takes as long to read as a test likes."""
    gate, read = Gate(), Dataset.table_for

    def slowly(*given: Any) -> Any:
        if not gate.entered.is_set():
            gate.hold()
        return read(*given)

    monkeypatch.setattr(Dataset, "table_for", slowly)
    return gate


async def test_a_session_that_is_called_off_while_its_table_is_read_keeps_no_place(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_conf("bank", sessions=1)
    async with world(folder) as here:
        coordinator = here.coordinator
        first, second = await coordinator.signed(), await coordinator.signed()
        gate = held_while_it_reads(monkeypatch)
        preparing = asyncio.create_task(coordinator.prepare("bank", first))
        try:
            await gate.reached()
            assert (await coordinator.cancel("bank", first)).state == "cancelled"
        finally:
            gate.opened.set()
        answer = refused(await preparing)
        assert (answer.reasons, answer.busy) == (("the session was cancelled while it was prepared",), False)
        assert isinstance(await coordinator.prepare("bank", second), ReadyAt)


async def test_a_node_that_is_stopped_while_a_table_is_read_begins_no_session(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(folder) as here:
        coordinator, sessions = here.coordinator, here.nodes["bank"].node.sessions
        contract = await coordinator.signed()
        gate = held_while_it_reads(monkeypatch)
        preparing = asyncio.create_task(coordinator.prepare("bank", contract))
        try:
            await gate.reached()
            await sessions.end()
        finally:
            gate.opened.set()
        answer = refused(await preparing)
        assert (answer.reasons, answer.busy) == (("the node is about to end",), True)  # worth another try
        assert sessions._open("customers") == []


async def test_peers_hear_that_a_session_was_stopped_however_often_it_is(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(folder) as here:
        coordinator, sessions = here.coordinator, here.nodes["bank"].node.sessions
        contract = await coordinator.signed()
        async with coordinator.together(contract) as channels:
            session: PartySession = sessions._find(contract.hash.hex())
            await _stopped_twice_while_it_says_goodbye(session, monkeypatch)
            failed = await channels["bank"].failure()
    assert str(failed) == "party bank: was stopped"


async def _stopped_twice_while_it_says_goodbye(session: PartySession, monkeypatch: pytest.MonkeyPatch) -> None:
    while not session._channels:
        await asyncio.sleep(0.01)
    leaving, again = asyncio.Event(), asyncio.Event()

    def slow(channel: Channel) -> None:
        close = channel.close

        async def slowly(*given: Any) -> None:
            leaving.set()
            await again.wait()
            await close(*given)

        monkeypatch.setattr(channel, "close", slowly)

    for channel in session._channels.values():
        slow(channel)
    stops = [asyncio.create_task(session.cancel(PATIENCE))]
    await leaving.wait()
    stops.append(asyncio.create_task(session.cancel(PATIENCE)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    again.set()
    await asyncio.gather(*stops)


async def test_who_read_a_table_before_it_changed_does_not_publish_it_last(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, publish = Gate(), Dataset.published

    def slowly(dataset: Dataset, *, asked: bool) -> Any:
        found = publish(dataset, asked=asked)
        if not gate.entered.is_set():
            gate.hold()
        return found

    async with world(folder, "bank") as here:
        node = here.nodes["bank"].node
        old = node.published().datasets[0].card.snapshot
        monkeypatch.setattr(Dataset, "published", slowly)
        slow = asyncio.create_task(asyncio.to_thread(node.published))
        await gate.reached()
        folder.write_tables(salary=31)
        quick = asyncio.create_task(asyncio.to_thread(node.published))
        await asyncio.wait({quick}, timeout=0.3)  # it may have to wait for the slow one
        gate.opened.set()
        first, then = await slow, await quick
        assert (_snapshot(first), first.replaced) == (old, ())
        assert _snapshot(then) != old
        assert (node.state.snapshots.current["customers"], then.replaced) == (_snapshot(then), (old,))


def _snapshot(published: Published) -> str | None:
    return published.datasets[0].card.snapshot


async def test_a_deal_that_is_decided_while_it_is_asked_for_waits_no_more(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_conf("bank", needs_approval=True)
    write, read = approvals.write_whole, Path.read_bytes
    async with world(folder) as here:
        coordinator, waits = here.coordinator, here.nodes["bank"].node.approvals
        contract = coordinator.draw_up(await coordinator.deal(wish()))
    deal = deal_id(contract.deal)

    def decided_before_it_is_written(path: Path, data: bytes, mode: int) -> None:
        monkeypatch.undo()
        waits.approve(deal, now())
        write(path, data, mode)

    monkeypatch.setattr(approvals, "write_whole", decided_before_it_is_written)
    assert waits.ask(contract)
    assert waits.approved(deal)
    assert waits.waiting() == ()

    (folder.state("bank") / "approved" / deal).unlink()
    assert waits.ask(contract)

    def decided_before_it_is_read(path: Path) -> bytes:
        monkeypatch.undo()
        waits.refuse(deal, now(), "not this one")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", decided_before_it_is_read)
    waits.ask(contract)
    assert waits.refused(deal) == "not this one"
    assert waits.waiting() == ()
