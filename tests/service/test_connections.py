"""Whoever connects and says nothing, or speaks slowly, keeps nobody out: real servers, real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from masquerade.audit import AuditLog
from masquerade.errors import NotAllowed, NotFound, PeerBrokeProtocol
from masquerade.net import Identity, TrustStore, make_trial, run_async, trial_identities
from masquerade.service import ConnectionLimits, Coordinator, CoordinatorSettings, Health, Parties, PeerHttp, serving
from masquerade.service.clock import SYSTEM_CLOCK
from masquerade.service.coordinator.directory import party_app
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.wire.control import ControlNotes, NotNoted, Progress, Published
from masquerade.service.wire.peers import TLS, serve
from service.coordinators import HEAD, PARTIES, read_settings
from service.party_nodes import PEOPLE, Folder, run, wish, world

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
            async with serving(made, APP) as address, httpx.AsyncClient(base_url=f"http://{address}") as client:

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


# --- Control messages in the audit logs of both ends: kind, size and digest, no content ---


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def control(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["fields"] for line in lines if line["event"] == "control"]


def settings_of(folder: Path, *parties: str) -> CoordinatorSettings:
    """A coordinator's, of parties at addresses where nobody is."""
    content = {"identity": "coordinator", "trust": "coordinator/trust"}
    addresses = {name: {"address": f"127.0.0.1:{number}"} for number, name in enumerate(parties, 1)}
    return CoordinatorSettings.of({**content, "parties": addresses}, folder / "coordinator.toml")


def test_a_node_and_its_coordinator_enter_the_same(folder: Folder, tmp_path: Path) -> None:
    """What is asked again and again is entered only where it says something new."""
    own = tmp_path / "coordinator.jsonl"

    async def part() -> str:
        async with world(folder) as here:
            coordinator = here.coordinator
            contract = coordinator.draw_up(await coordinator.deal())
            with AuditLog(own, PEOPLE["coordinator"]) as audit:
                notes = ControlNotes(audit)
                async with here.http("coordinator", "bank", notes) as line:
                    coordinator.https["bank"] = line
                    await line.call("GET", "/v1/health", answer=Health)
                    for _ in range(2):
                        await line.call("GET", "/v1/datasets", answer=Published)
                    await coordinator.offer("bank", wish())
                    signed = await coordinator.sign(contract)
                    await coordinator.ask_signature("bank", contract)
                    await coordinator.prepare("bank", signed)
                    for _ in range(3):  # the clock goes on, and nothing else
                        await coordinator.progress("bank", signed)
                    await coordinator.cancel("bank", signed)
                    assert (await coordinator.progress("bank", signed)).state == "cancelled"
                    with pytest.raises(NotFound):
                        await line.call("GET", f"/v1/sessions/{'x' * 500}", answer=Progress)
            return signed.hash.hex()

    name = run(part())
    session = "/v1/sessions/{contract}"
    told = control(own)
    assert [(each["direction"], each["kind"], each["status"], each["session"]) for each in told] == [
        ("sent", "GET /v1/datasets", None, None),
        ("received", "GET /v1/datasets", 200, None),
        ("sent", "POST /v1/offers", None, None),
        ("received", "POST /v1/offers", 200, None),
        ("sent", "POST /v1/contracts", None, None),
        ("received", "POST /v1/contracts", 200, None),
        ("sent", "POST /v1/sessions", None, None),
        ("received", "POST /v1/sessions", 200, None),
        ("sent", f"GET {session}", None, name),
        ("received", f"GET {session}", 200, name),
        ("sent", f"DELETE {session}", None, name),
        ("received", f"DELETE {session}", 200, name),
        ("received", f"GET {session}", 200, name),
        ("sent", f"GET {session}", None, None),
        ("received", f"GET {session}", 404, None),
    ]
    assert {each["peer"] for each in told} == {"bank"}
    other_way = {"sent": "received", "received": "sent"}
    heard = control(folder.state("bank") / "audit.jsonl")
    assert [each for each in heard if each["kind"] != "POST /v1/datasets"][-len(told) :] == [
        {**each, "direction": other_way[each["direction"]], "peer": "coordinator"} for each in told
    ]
    pushed = [each for each in heard if each["kind"] == "POST /v1/datasets"]
    assert [each["direction"] for each in pushed] == ["sent"]  # nobody is there, and it is tried again


def test_the_party_server_enters_what_it_hears_and_tells(tmp_path: Path) -> None:
    make_trial(tmp_path, ["coordinator", "bank", "clinic"])
    own = settings_of(tmp_path, "bank")
    bank = Identity.load(tmp_path / "bank"), TrustStore.load(tmp_path / "bank" / "trust")
    theirs = tmp_path / "bank.jsonl"

    async def course(made: Coordinator, audit: AuditLog, noted: AuditLog) -> None:
        app = party_app(own, made.directory, made.wakeup, SYSTEM_CLOCK, ControlNotes(audit))
        async with (
            serve(app, "127.0.0.1:0", own.identity, own.trust) as address,
            PeerHttp("coordinator", address, *bank, notes=ControlNotes(noted)) as line,
        ):
            await line.call("POST", "/v1/datasets", Published("bank", ()))
            await line.call("GET", "/v1/parties", answer=Parties)
            audit.close()
            with pytest.raises(PeerBrokeProtocol, match="its log says more"):  # and not which file it is
                await line.call("POST", "/v1/datasets", Published("bank", ()))

    with Coordinator(own) as made, AuditLog(own.audit, own.identity) as audit, AuditLog(theirs, bank[0]) as noted:
        asyncio.run(course(made, audit, noted))
    kinds = [(each["direction"], each["kind"], each["status"]) for each in control(own.audit)]
    assert kinds == [
        ("received", "POST /v1/datasets", None),
        ("sent", "POST /v1/datasets", 204),
        ("received", "GET /v1/parties", None),
        ("sent", "GET /v1/parties", 200),
    ]
    assert [each["digest"] for each in control(own.audit)] == [each["digest"] for each in control(theirs)][:4]


def test_what_cannot_be_entered_is_not_said_and_is_no_fault_of_the_party(tmp_path: Path) -> None:
    make_trial(tmp_path, ["coordinator", "bank"])
    own = settings_of(tmp_path, "bank")

    async def course(made: Coordinator, audit: AuditLog) -> None:
        async with PartyLinks(own, made.directory, SYSTEM_CLOCK, TLS, ControlNotes(audit)) as links:
            with pytest.raises(NotNoted, match="the audit log is closed"):
                await links.datasets("bank")

    with Coordinator(own) as made:
        audit = AuditLog(own.audit, own.identity)
        audit.close()
        asyncio.run(course(made, audit))


# --- Whom the coordinator tells which parties it knows: its parties, over real TLS, and nobody else ---


def test_parties_hear_of_each_other_and_others_of_nobody(tmp_path: Path) -> None:
    identities = make_trial(tmp_path, ["coordinator", "bank", "clinic", "visitor"])
    own = settings_of(tmp_path, "bank", "clinic")

    async def asked(name: str, address: str) -> Parties:
        folder = tmp_path / name
        identity, trust = Identity.load(folder), TrustStore.load(folder / "trust")
        async with PeerHttp("coordinator", address, identity, trust) as line:
            told: Parties = await line.call("GET", "/v1/parties", answer=Parties)
            return told

    async def scenario(made: Coordinator) -> None:
        app = party_app(own, made.directory, made.wakeup, SYSTEM_CLOCK)
        async with serve(app, "127.0.0.1:0", own.identity, own.trust) as address:
            for name in ("bank", "clinic"):
                assert (await asked(name, address)).fingerprints == {
                    party: identities[party].fingerprint for party in ("bank", "clinic")
                }
            with pytest.raises(NotAllowed, match="visitor is not among the parties"):
                await asked("visitor", address)

    with Coordinator(own) as made:
        asyncio.run(scenario(made))
