"""Control messages in the audit logs of both ends: kind, size and digest, no content."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from masquerade.audit.log import AuditLog
from masquerade.errors import NotFound, PeerBrokeProtocol
from masquerade.net.identity import Identity, TrustStore, make_trial
from masquerade.service.clock import SYSTEM_CLOCK
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.directory import party_app
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.coordinator.settings import CoordinatorSettings
from masquerade.service.wire.control import ControlNotes, Health, NotNoted, Parties, Progress, Published
from masquerade.service.wire.peers import TLS, PeerHttp, serve
from service.party_nodes import PEOPLE, Folder, run, wish, world


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def control(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["fields"] for line in lines if line["event"] == "control"]


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
    (tmp_path / "coordinator.toml").write_text(
        'identity = "coordinator"\ntrust = "coordinator/trust"\n[parties.bank]\naddress = "127.0.0.1:1"\n'
    )
    own = CoordinatorSettings.load(tmp_path / "coordinator.toml")
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

    with (
        Coordinator(own) as made,
        AuditLog(own.audit, own.identity) as audit,
        AuditLog(theirs, bank[0]) as noted,
    ):
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
    (tmp_path / "coordinator.toml").write_text(
        'identity = "coordinator"\ntrust = "coordinator/trust"\n[parties.bank]\naddress = "127.0.0.1:1"\n'
    )
    own = CoordinatorSettings.load(tmp_path / "coordinator.toml")

    async def course(made: Coordinator, audit: AuditLog) -> None:
        async with PartyLinks(own, made.directory, SYSTEM_CLOCK, TLS, ControlNotes(audit)) as links:
            with pytest.raises(NotNoted, match="the audit log is closed"):
                await links.datasets("bank")

    with Coordinator(own) as made:
        audit = AuditLog(own.audit, own.identity)
        audit.close()
        asyncio.run(course(made, audit))
