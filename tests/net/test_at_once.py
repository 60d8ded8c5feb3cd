"""A node that is dialled while something else happens: two streams of one peer, and a session that is over."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import pytest

from homes import home
from masquerade.errors import DataError
from masquerade.net import Channel, Identity, PartyAddress, Timings, listen
from masquerade.net.connect import Gathering, Hello, HelloRefused, Reason, decode, encode
from masquerade.net.stream_channel import StreamBroke, StreamChannel
from masquerade.net.tls_stream import ClientStream, ServerStream, TlsServer, serve
from net.nodes import AGREED, PEOPLE, TRUST, Party, session

HELLO = encode(Hello("bank", AGREED.version, AGREED.session))
BANK = PartyAddress("bank", "127.0.0.1:9")
QUICK = Timings(connect=900, silence=900, patience=900, grace=0.1)


def dialled(address: str) -> ClientStream:
    return ClientStream(address, PEOPLE["bank"], "loans", TRUST.pin("loans"))


class Slow:
    """Greetings that are on their way for as long as a test likes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.may_end = asyncio.Semaphore(0), asyncio.Event()
        write = ServerStream.write

        async def slowly(stream: ServerStream, frame: bytes) -> None:
            if not self.may_end.is_set():
                self.begun.release()
                await self.may_end.wait()
            await write(stream, frame)

        monkeypatch.setattr(ServerStream, "write", slowly)


def test_of_two_streams_that_a_peer_opens_at_once_one_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def part() -> None:
        slow = Slow(monkeypatch)
        async with asyncio.timeout(900), listen(PEOPLE["loans"], TRUST) as listener:
            streams = [dialled(listener.address), dialled(listener.address)]
            shop = asyncio.create_task(_greeted_by_nobody(listener))  # whom the gathering still waits for
            for stream in streams:
                await stream.write(HELLO)
                await slow.begun.acquire()
            slow.may_end.set()
            heard = [await stream.read() for stream in streams]
            assert [decode(frame or b"", BANK) for frame in heard] == [
                Hello("loans", AGREED.version, AGREED.session)
            ] * 2
            reading = {asyncio.create_task(_until_it_ends(stream)) for stream in streams}
            ended, _ = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
            assert len(ended) == 1
            streams.append(dialled(listener.address))
            await streams[-1].write(HELLO)
            answer = decode(await streams[-1].read() or b"", BANK)
            assert answer == HelloRefused(Reason.TWICE, AGREED.version)  # and the session goes on
            shop.cancel()
            await asyncio.gather(shop, *reading, return_exceptions=True)
            for stream in streams:
                await stream.end()

    asyncio.run(part())


async def _greeted_by_nobody(listener: Any) -> None:
    async with listener.connect([BANK, PartyAddress("shop", "127.0.0.1:9")], AGREED, QUICK):
        raise AssertionError("the shop is never there")


async def _until_it_ends(stream: ClientStream) -> None:
    with suppress(StreamBroke):
        while await stream.read() is not None:
            pass


def test_who_is_greeted_when_the_session_is_over_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[StreamChannel] = []
    build = StreamChannel.__init__

    def noted(channel: StreamChannel, *given: Any, **more: Any) -> None:
        build(channel, *given, **more)
        made.append(channel)

    monkeypatch.setattr(StreamChannel, "__init__", noted)

    async def part() -> None:
        slow = Slow(monkeypatch)
        async with asyncio.timeout(900), listen(PEOPLE["loans"], TRUST) as listener:
            stream = dialled(listener.address)
            session = asyncio.create_task(_greeted_by_nobody(listener))
            await stream.write(HELLO)
            await slow.begun.acquire()
            session.cancel()
            await asyncio.gather(session, return_exceptions=True)
            slow.may_end.set()
            await _until_it_ends(stream)
            await stream.end()
        assert made == []

    asyncio.run(part())


def test_a_peer_that_we_are_just_greeting_hears_who_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """shop has let bank in; bank has not read so yet when loans fails: shop must not miss bank, but blame loans."""
    together, told = asyncio.Event(), asyncio.Event()
    abort = Gathering.abort

    def noted(gathering: Gathering, error: Exception) -> None:
        abort(gathering, error)
        if gathering.identity.name == "bank":
            told.set()

    monkeypatch.setattr(Gathering, "abort", noted)

    class SlowToShop(ClientStream):
        def __init__(self, address: str, identity: Identity, peer: str, pin: bytes) -> None:
            super().__init__(address, identity, peer, pin)
            self.is_slow = (identity.name, peer) == ("bank", "shop")

        async def read(self) -> bytes | None:
            frame = await super().read()
            if self.is_slow:
                self.is_slow = False
                await together.wait()
                await told.wait()  # the word of loans comes first
            return frame

    async def stumble(_channels: dict[str, Channel]) -> None:
        together.set()
        raise DataError("people.csv: row 7: a secret")

    async def hear_bank(channels: dict[str, Channel]) -> bytes:
        return await channels["bank"].receive()

    monkeypatch.setattr(home(Gathering), "ClientStream", SlowToShop)
    parties = Party("bank", hear_bank), Party("loans", stumble), Party("shop", hear_bank)
    results = asyncio.run(session(*parties))
    assert [results[me].peer for me in ("bank", "shop")] == ["loans", "loans"]


# --- a server that stops while somebody connects ---


async def _listening() -> tuple[Any, socket.socket, int]:
    """A server that nobody has connected to yet, and its listening socket."""

    async def talk(stream: ServerStream) -> None:
        await stream.ended.wait()

    server, port = await serve("127.0.0.1:0", PEOPLE["loans"], TRUST, talk)
    assert isinstance(server, TlsServer)
    [listening] = server._sockets
    return server, listening, port


def test_a_server_that_is_cancelled_while_it_stops_listens_no_more() -> None:
    """As a session does that hears of a party's death while it ends because of it."""

    async def part() -> None:
        server, listening, port = await _listening()
        with socket.create_connection(("127.0.0.1", port)):  # says nothing, so that there is something to end
            while len(server._tasks) < 2:
                await asyncio.sleep(0)
            stopping = asyncio.create_task(server.stop())
            await asyncio.sleep(0)
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
            assert stopping.cancelled()
            assert listening.fileno() == -1

    asyncio.run(part())


@pytest.mark.parametrize("after", range(6))
def test_whoever_connects_while_the_server_stops_is_hung_up_on(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the server has done by then: accepted the connection, begun a task, or greeted."""
    accepted: list[socket.socket] = []
    accept = socket.socket.accept

    def noted(listening: socket.socket) -> tuple[socket.socket, Any]:
        connection, address = accept(listening)
        accepted.append(connection)
        woken.set_result(None)
        return connection, address

    async def part() -> None:
        nonlocal woken
        woken = asyncio.get_running_loop().create_future()
        server, _, port = await _listening()
        monkeypatch.setattr(socket.socket, "accept", noted)
        with socket.create_connection(("127.0.0.1", port)) as caller:
            await woken
            for _ in range(after):
                await asyncio.sleep(0)
            await server.stop()
            async with asyncio.timeout(900):
                while accepted[0].fileno() != -1:
                    await asyncio.sleep(0)
            with suppress(ConnectionResetError):
                assert caller.recv(1) == b""

    woken: asyncio.Future[None]
    asyncio.run(part())
