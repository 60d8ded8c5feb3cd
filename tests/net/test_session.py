"""A script over real channels does what it does in memory; what goes wrong is named."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from masquerade.errors import BadInput, DataError, PeerBrokeProtocol, PeerError
from masquerade.net import Channel, Message, Move, Receive, Script, Send, Transcript, read_transcript, run_script
from masquerade.net.memory import Wire, run_together
from masquerade.net.script import encode
from net.nodes import PEOPLE, Party, session

NAMES = tuple(PEOPLE)


class Number(Message, tag="number", frozen=True):
    value: int


class Load(Message, tag="load", frozen=True):
    data: bytes


def add_up(me: str, mine: int) -> Script[int]:
    """Everybody tells everybody a number; the sum of all."""
    others = tuple(name for name in NAMES if name != me)
    yield Send(others, Number(mine))
    total = mine
    for name in others:
        heard = yield Receive(name, Number)
        total += heard.value
    return total


def run(scripts: dict[str, Script[Any]], **options: Any) -> dict[str, Any]:
    """Each script as a node of its own; `options` are given by name of the node."""

    def part(name: str) -> Any:
        async def drive(channels: dict[str, Channel]) -> Any:
            extra = {key: values[name] for key, values in options.items()}
            return await run_script(scripts[name], channels, **extra)

        return drive

    async def bounded() -> dict[str, Any]:
        async with asyncio.timeout(900):
            return await session(*(Party(name, part(name)) for name in scripts))

    return asyncio.run(bounded())


def test_a_script_gives_what_it_gives_in_memory() -> None:
    scripts = {name: add_up(name, number) for number, name in enumerate(NAMES, 1)}
    again = {name: add_up(name, number) for number, name in enumerate(NAMES, 1)}
    assert run(scripts) == run_together(again) == dict.fromkeys(NAMES, 6)


def test_transcripts_of_both_ends_agree_with_each_other_and_with_the_bytes(tmp_path: Path) -> None:
    transcripts = {name: Transcript(tmp_path / f"{name}.jsonl") for name in NAMES}
    run({name: add_up(name, number) for number, name in enumerate(NAMES)}, transcript=transcripts)
    written = {name: read_transcript(tmp_path / f"{name}.jsonl") for name in NAMES}
    assert written == {name: tuple(transcript.entries) for name, transcript in transcripts.items()}
    for transcript in transcripts.values():
        transcript.close()
    for me in NAMES:
        assert [entry.number for entry in written[me]] == [0, 1, 2, 3]
        assert [entry.seconds for entry in written[me]] == sorted(entry.seconds for entry in written[me])
        for other in set(NAMES) - {me}:
            said = [(e.kind, e.size, e.digest) for e in written[me] if (e.direction, e.peer) == ("sent", other)]
            heard = [(e.kind, e.size, e.digest) for e in written[other] if (e.direction, e.peer) == ("received", me)]
            assert said == heard
            assert len(said) == 1
    wire = Wire()
    run_together({name: add_up(name, number) for number, name in enumerate(NAMES)}, wire)
    sizes = sorted((heard.sender, heard.receiver, heard.kind, len(heard.data)) for heard in wire.heard)
    entered = sorted((e.peer, me, e.kind, e.size) for me in NAMES for e in written[me] if e.direction == "received")
    assert sizes == entered


def test_everybody_may_send_much_at_once() -> None:
    """Nobody reads before it has sent: channels drain what arrives, so nobody waits for ever."""

    def pour(me: str) -> Script[int]:
        others = tuple(name for name in NAMES if name != me)
        for _ in range(3):
            yield Send(others, Load(bytes(5_000_000)))
        got = 0
        for name in others * 3:
            heard = yield Receive(name, Load)
            got += len(heard.data)
        return got

    assert run({name: pour(name) for name in NAMES}) == dict.fromkeys(NAMES, 30_000_000)


def test_moves_are_told_and_the_script_computes_outside_the_event_loop() -> None:
    moves: dict[str, list[Move]] = {name: [] for name in NAMES}
    threads: set[int] = set()

    def curious(me: str) -> Script[int]:
        threads.add(threading.get_ident())
        return (yield from add_up(me, 1))

    run({name: curious(name) for name in NAMES}, on_move={name: moves[name].append for name in NAMES})
    assert threading.get_ident() not in threads
    assert [type(move) for move in moves["bank"]] == [Send, Receive, Receive]
    assert [move.peer for move in moves["bank"] if isinstance(move, Receive)] == ["loans", "shop"]


def test_a_peer_that_fails_ends_even_a_long_computation() -> None:
    """The script of bank is stuck in a computation; that loans gives up is told all the same."""
    released = threading.Event()

    def stuck(_me: str) -> Script[None]:
        released.wait(900)
        yield Receive("loans", Number)

    def failing(_me: str) -> Script[None]:
        raise DataError("people.csv: no")
        yield

    try:
        results = run({"bank": stuck("bank"), "loans": failing("loans")})
    finally:
        released.set()
    assert isinstance(results["loans"], BadInput)
    assert isinstance(results["bank"], PeerError)
    assert results["bank"].peer == "loans"


def test_another_kind_than_expected_breaks_the_protocol() -> None:
    def loads(_me: str) -> Script[None]:
        yield Send(("bank",), Load(b"secret content"))
        yield Receive("bank", Number)

    def numbers(_me: str) -> Script[None]:
        yield Receive("loans", Number)

    transcripts = {"bank": Transcript(), "loans": Transcript()}
    results = run({"bank": numbers("bank"), "loans": loads("loans")}, transcript=transcripts)
    assert isinstance(results["bank"], PeerBrokeProtocol)
    assert results["bank"].peer == "loans"
    assert "not a well-formed number message" in str(results["bank"])
    assert "secret" not in str(results["bank"])
    assert "blames us (broke protocol)" in str(results["loans"])
    assert [entry.kind for entry in transcripts["bank"].entries] == ["?"]
    assert [entry.kind for entry in transcripts["loans"].entries] == ["load"]


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x81", encode(Number(1))[:-1], encode(Number(1)) + b"\0", b"\x91" * 5000, b"\xdf\xff\xff\xff\xff"],
)
def test_bytes_that_are_no_message(data: bytes) -> None:
    async def hear(channels: dict[str, Channel]) -> Any:
        def listening() -> Script[None]:
            yield Receive("loans", Number)

        return await run_script(listening(), channels)

    async def babble(channels: dict[str, Channel]) -> None:
        await channels["bank"].send(data)
        await channels["bank"].receive()

    results = asyncio.run(session(Party("bank", hear), Party("loans", babble)))
    assert isinstance(results["bank"], PeerBrokeProtocol), results["bank"]
    assert results["bank"].peer == "loans"


def test_a_message_after_the_other_has_left_is_an_error_and_no_hang() -> None:
    def short(_me: str) -> Script[str]:
        return "done"
        yield

    def longer(_me: str) -> Script[None]:
        yield Receive("bank", Number)

    results = run({"bank": short("bank"), "loans": longer("loans")})
    assert results["bank"] == "done"
    assert isinstance(results["loans"], PeerError)
    assert "has left the session, and we still waited for it" in str(results["loans"])
