"""A coordinator that lies about its parties' addresses: it has a party connect to whatever it wants to know of.

The addresses are inside the party's network, where the coordinator sees nothing. What it hears must be the same, and no
earlier, whatever is at an address: nobody, a program that says nothing, one that hangs up, one without TLS, or one with
a certificate of its own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from masquerade.errors import PeerError, PeerUnreachable
from masquerade.net import PartyAddress, Timings, connect, listen, probing, self_signed
from masquerade.service.wire.control import ReadyAt
from net.nodes import AGREED, PEOPLE, TRUST
from service.party_nodes import Folder, run, world

TIMINGS = Timings(connect=0.4, silence=900, patience=900, grace=0.1)
PLACES = ["nobody", "says nothing", "hangs up", "no TLS", "stranger"]


@asynccontextmanager
async def place(kind: str) -> AsyncIterator[str]:
    """An address with such a program."""

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if kind == "no TLS":
            writer.write(b"220 mail.example.org ESMTP\r\n")
            await writer.drain()
        writer.close()

    if kind == "nobody":
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            yield f"127.0.0.1:{held.getsockname()[1]}"
    elif kind == "says nothing":
        with socket.create_server(("127.0.0.1", 0)) as mute:
            yield f"127.0.0.1:{mute.getsockname()[1]}"
    elif kind == "stranger":
        async with listen(self_signed("printer"), TRUST) as printer:
            yield printer.address
    else:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(("me", "peer"), [("bank", "loans"), ("loans", "bank")], ids=["dials", "is dialled"])
def test_whatever_is_at_an_address_ends_in_the_same_words_at_the_same_time(
    me: str, peer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "_PATIENCE", 0.2)
    monkeypatch.setattr(connect, "_MOST_TO_LOOK", 0.8)
    logged: list[str] = []

    async def heard(kind: str) -> tuple[str, str]:
        loop = asyncio.get_running_loop()
        async with place(kind) as address, listen(PEOPLE[me], TRUST) as listener:
            begun = loop.time()
            connecting = listener.connect(
                [PartyAddress(peer, address)], AGREED, TIMINGS, lambda found: logged.append(str(found))
            )
            with pytest.raises(PeerError) as caught:
                async with connecting:
                    pass
            assert loop.time() - begun >= TIMINGS.connect + 0.8
        return type(caught.value).__name__, str(caught.value)

    async def all_heard() -> list[tuple[str, str]]:
        return await asyncio.gather(*map(heard, PLACES))

    (told,) = {*asyncio.run(all_heard())}
    assert told[0] == PeerUnreachable.__name__
    assert peer in told[1]
    assert "127.0.0.1" not in told[1]
    assert len({line.partition(": at ")[2].partition(" ")[2] for line in logged}) == len(PLACES), "our log has them all"


def test_a_node_tells_its_coordinator_that_a_peer_was_not_reached_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "_MOST_TO_LOOK", 0.0)
    folder = Folder(tmp_path)
    for party in ("bank", "clinic"):
        conf = folder.conf(party)
        conf.write_text(conf.read_text().replace("connect = 900", "connect = 0.2"))

    async def part() -> None:
        async with world(folder) as here:
            contract = await here.coordinator.signed()
            async with here.coordinator.listening() as listener:
                ready = await here.coordinator.prepare("bank", contract)
                assert isinstance(ready, ReadyAt)
                book = {"bank": ready.address, "clinic": "10.0.0.5:443", "coordinator": listener.address}
                await here.coordinator.start("bank", contract, book)
                ended = await here.coordinator.ended("bank", contract)
            assert (ended.state, ended.kind) == ("failed", "PeerUnreachable")
            assert ended.culprit in ("clinic", "coordinator")
            assert not any("10.0.0.5" in str(problem) or "nobody" in str(problem) for problem in ended.problems)

    run(part())
