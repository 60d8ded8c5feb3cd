"""Outsiders without a certificate fill the places of a session's port and say nothing, for as long as it lasts.

Nothing here ends by the clock: a handshake may take as long as it likes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from masquerade.net import Listener, PartyAddress, Timings, listen, tls_stream
from masquerade.net.tls_stream import ClientStream, dialling
from net.nodes import AGREED, PEOPLE, TRUST

PLACES = 5
TIMINGS = Timings(connect=900, silence=900, patience=900, grace=0.1)


@pytest.fixture(autouse=True)
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_stream, "MOST_CONNECTIONS", PLACES)
    monkeypatch.setattr(tls_stream, "HANDSHAKE", 900.0)


@pytest.fixture
def outsiders() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def silent(stack: ExitStack, address: str, host: str) -> socket.socket:
    """A connection from an address of this machine on which nobody says anything."""
    place, port = address.rsplit(":", 1)
    made = stack.enter_context(socket.create_connection((place, int(port)), source_address=(host, 0)))
    made.setblocking(False)
    return made


async def hung_up_on(connections: list[socket.socket], n_many: int) -> list[bool]:
    """Which connections the server has ended, once it has ended so many of them."""
    loop = asyncio.get_running_loop()
    ends = [asyncio.create_task(loop.sock_recv(each, 1)) for each in connections]
    while sum(end.done() for end in ends) < n_many:
        await asyncio.wait([end for end in ends if not end.done()], return_when=asyncio.FIRST_COMPLETED)
    ended = [end.done() for end in ends]
    for end in ends:
        end.cancel()
    await asyncio.gather(*ends, return_exceptions=True)
    return ended


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"], ids=["the peer's address", "an address of their own"])
def test_silent_connections_keep_no_peer_out(outsiders: ExitStack, host: str) -> None:
    async def session() -> list[tuple[str, ...]]:
        async with asyncio.timeout(300), listen(PEOPLE["loans"], TRUST) as loans, listen(PEOPLE["bank"], TRUST) as bank:
            for _ in range(4 * PLACES):
                silent(outsiders, loans.address, host)

            async def joined(listener: Listener, peer: PartyAddress) -> tuple[str, ...]:
                async with listener.connect([peer], AGREED, TIMINGS) as channels:
                    return tuple(channels)

            return await asyncio.gather(
                joined(loans, PartyAddress("bank", bank.address)), joined(bank, PartyAddress("loans", loans.address))
            )

    assert asyncio.run(session()) == [("bank",), ("loans",)]


def test_a_peer_keeps_its_place_before_its_handshake_however_many_come_from_elsewhere(outsiders: ExitStack) -> None:
    async def welcomed() -> bytes:
        async with asyncio.timeout(300), listen(PEOPLE["loans"], TRUST) as loans:
            peer = silent(outsiders, loans.address, "127.0.0.1")
            many = [silent(outsiders, loans.address, "127.0.0.2") for _ in range(4 * PLACES)]
            ended = await hung_up_on([peer, *many], len(many) - (PLACES - 1))
            assert ended == [False, *(True for _ in many[: 1 - PLACES]), *(False for _ in many[1 - PLACES :])]
            context: ssl.SSLContext = dialling(PEOPLE["bank"], TRUST.pin("loans"))
            reader, writer = await asyncio.open_connection(sock=peer, ssl=context, server_hostname="loans")
            try:
                return (await reader.readexactly(14))[4:]
            finally:
                writer.transport.abort()

    assert asyncio.run(welcomed()) == b"masquerade"


def test_a_peer_that_has_joined_stays(outsiders: ExitStack) -> None:
    async def session() -> bool:
        async with asyncio.timeout(300), listen(PEOPLE["loans"], TRUST) as loans, listen(PEOPLE["bank"], TRUST) as bank:
            both = (
                (loans.connect([PartyAddress("bank", bank.address)], AGREED, TIMINGS)),
                (bank.connect([PartyAddress("loans", loans.address)], AGREED, TIMINGS)),
            )
            ready = asyncio.Barrier(2)

            async def part(connecting: object, sends: bool) -> bytes:
                async with connecting as channels:  # type: ignore[attr-defined]
                    (channel,) = channels.values()
                    await ready.wait()
                    if sends:
                        many = [silent(outsiders, loans.address, "127.0.0.1") for _ in range(4 * PLACES)]
                        await hung_up_on(many, len(many) - (PLACES - 1))
                        await channel.send(b"still there")
                        return b""
                    heard: bytes = await channel.receive()
                    return heard

            sent = await asyncio.gather(part(both[0], False), part(both[1], True))
            return sent == [b"still there", b""]

    assert asyncio.run(session())


def test_a_trusted_node_that_says_nothing_keeps_no_peer_out(outsiders: ExitStack) -> None:
    """Who has a certificate and no invitation may take every place, too: before the session nobody reads its hello."""

    async def session() -> bytes | None:
        async with asyncio.timeout(300), listen(PEOPLE["loans"], TRUST) as loans:
            quiet = [ClientStream(loans.address, PEOPLE["shop"], "loans", TRUST.pin("loans")) for _ in range(PLACES)]
            await asyncio.gather(*(stream._connected() for stream in quiet))
            peer = ClientStream(loans.address, PEOPLE["bank"], "loans", TRUST.pin("loans"))
            try:
                await peer._connected()
                return None if peer._is_over else b"welcome"
            finally:
                for stream in (*quiet, peer):
                    await stream.end()

    assert asyncio.run(session()) == b"welcome"
