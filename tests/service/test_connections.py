"""Whoever connects and says nothing, or speaks slowly, keeps nobody out: real servers, real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from masquerade.net.identity import TrustStore, trial_identities
from masquerade.net.session import run_async
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.serving import serving
from masquerade.service.wire.peers import PeerHttp, serve
from masquerade.service.wire.serving import ConnectionLimits
from service.coordinators import HEAD, PARTIES, read_settings

_, IDENTITIES = trial_identities(["bank", "clinic"])
FEW = ConnectionLimits(connections=30, per_address=20, request_within=300)
HASTY = ConnectionLimits(request_within=0.3)
HEADERS = b"POST /said HTTP/1.1\r\nhost: bank\r\ncontent-length: 1000\r\n"


async def hello(request: Request) -> Response:
    return PlainTextResponse(f"{len(await request.body())} bytes")


APP = Starlette(routes=[Route("/said", hello, methods=["GET", "POST"])])


class Answers(PeerHttp):
    """A peer that is asked for any text."""

    async def ask(self, said: bytes) -> str:
        return (await self.exchange("POST", "/said", said, None))[1].decode()


Ask = Callable[[bytes], Awaitable[str]]
Served = Callable[[ConnectionLimits], AbstractAsyncContextManager[tuple[str, Ask]]]


@pytest.fixture(params=["people", "peers"])
def served(request: pytest.FixtureRequest, trial: Path, tmp_path: Path) -> Served:
    """Either kind of server: its address, and how to ask it something."""

    @asynccontextmanager
    async def people(limits: ConnectionLimits) -> AsyncIterator[tuple[str, Ask]]:
        keys = f"connections = {limits.connections}\nconnections_per_address = {limits.per_address}\n"
        keys += 'address = "127.0.0.1:0"\nparty_address = "127.0.0.1:0"\n'
        keys += f"[timings]\nrequest = {limits.request_within}\n{PARTIES}"
        settings = read_settings(trial, keys, head=f'{HEAD}state = "{tmp_path / "state"}"\n')
        assert settings.limits == limits
        with Coordinator(settings) as made:
            async with (
                serving(made, APP) as address,
                httpx.AsyncClient(base_url=f"http://{address}") as client,
            ):

                async def ask(said: bytes) -> str:
                    return (await client.post("/said", content=said)).text

                yield address, ask

    @asynccontextmanager
    async def peers(limits: ConnectionLimits) -> AsyncIterator[tuple[str, Ask]]:
        known = {name: TrustStore({name: IDENTITIES[name].certificate}) for name in IDENTITIES}
        async with (
            serve(APP, "127.0.0.1:0", IDENTITIES["bank"], known["clinic"], limits) as address,
            Answers("bank", address, IDENTITIES["clinic"], known["bank"]) as bank,
        ):
            yield address, bank.ask

    return {"people": people, "peers": peers}[request.param]


def is_cut_off(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_silent_connections_shut_nobody_out(served: Served) -> None:
    async def crowded() -> None:
        async with served(FEW) as (address, ask):
            host, port = address.split(":")
            place = host, int(port)
            with ExitStack() as opened:
                silent = [opened.enter_context(socket.create_connection(place)) for _ in range(300)]
                assert await ask(b"one") == "3 bytes"
                while not all(map(is_cut_off, silent[:280])):  # the oldest made room, at most 20 are left
                    await asyncio.sleep(0.02)
                for _ in range(40):  # whoever has been served is not the one who makes room
                    opened.enter_context(socket.create_connection(place))
                assert await ask(b"two two") == "7 bytes"

    run_async(crowded())


def test_a_slow_sender_is_cut_off(served: Served) -> None:
    """Silence, a head that does not end, a body that does not come: each has its time, however often a byte comes."""

    async def until_cut_off(address: str, first: bytes, drop: bytes) -> bytes:
        host, port = address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(first)
            while True:
                if drop:
                    writer.write(drop)
                try:
                    return await asyncio.wait_for(reader.read(), 0.05)
                except TimeoutError:
                    continue
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()

    async def slow() -> None:
        async with served(HASTY) as (address, _):
            starts = [(b"", b""), (HEADERS, b"x-more: 1\r\n"), (HEADERS + b"\r\n", b"x")]
            endings = await asyncio.gather(*(until_cut_off(address, *start) for start in starts))
            assert [b"200" in ending for ending in endings] == [False] * 3

    run_async(slow())
