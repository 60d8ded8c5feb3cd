"""Where the coordinator listens, what its server for parties answers, and what wakes its background work."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from masquerade.errors import ParameterError
from masquerade.service.clock import SYSTEM_CLOCK
from masquerade.service.coordinator.coordinator import Coordinator
from masquerade.service.coordinator.directory import party_app
from masquerade.service.coordinator.serving import serving
from masquerade.service.coordinator.wakeup import Wakeup
from service.coordinators import HEAD, PARTIES, read_settings


@pytest.mark.parametrize("key", ["address", "party_address"])
def test_an_address_that_is_taken_is_named_with_its_key(trial: Path, tmp_path: Path, key: str) -> None:
    async def served(made: Coordinator) -> None:
        async with serving(made, Starlette()):
            raise AssertionError("it listens")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        own = {"address": "127.0.0.1:0", "party_address": "127.0.0.1:0"}
        own[key] = f"127.0.0.1:{taken.getsockname()[1]}"
        lines = "".join(f'{name} = "{address}"\n' for name, address in own.items())
        found = read_settings(trial, lines + PARTIES, head=f'{HEAD}state = "{tmp_path / "state"}"\n')
        with Coordinator(found) as made, pytest.raises(ParameterError) as caught:
            asyncio.run(served(made))
    told = f"{found.path}: {key}: {own[key]}: cannot listen here; is the port taken"
    assert str(caught.value).startswith(told)


def test_what_the_party_server_has_not_is_told_as_a_problem(trial: Path, tmp_path: Path) -> None:
    found = read_settings(trial, PARTIES, head=f'{HEAD}state = "{tmp_path / "state"}"\n')
    with Coordinator(found) as made:
        app = party_app(found, made.directory, made.wakeup, SYSTEM_CLOCK)
        asked = httpx.ASGITransport(app)

        async def answers() -> list[httpx.Response]:
            async with httpx.AsyncClient(transport=asked, base_url="http://coordinator") as caller:
                return [await caller.get("/v1/nothing"), await caller.get("/v1/datasets")]

        missing, wrong = asyncio.run(answers())
    assert (missing.status_code, wrong.status_code) == (404, 405)
    for answer in (missing, wrong):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
    assert missing.json()["problems"] == ["GET /v1/nothing: there is no such address"]
    assert wrong.headers["allow"] == "POST"


def test_whoever_is_cancelled_when_the_bell_rings_ends() -> None:
    """Otherwise a coordinator that is told to end while a party publishes would run on for ever."""

    async def both_at_once() -> bool:
        wakeup = Wakeup(SYSTEM_CLOCK)
        wakeup.attach()
        waiting = asyncio.create_task(wakeup.wait(60))
        await asyncio.sleep(0)
        wakeup.ring()
        asyncio.get_running_loop().call_soon(waiting.cancel)  # after the bell, before whoever waits goes on
        await asyncio.wait({waiting})
        return waiting.cancelled()

    assert asyncio.run(both_at_once())
