"""The client that is awaited does what the other one does."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

import masquerade as mq
from library.live_api import PASSWORD, REQUEST, TABLE, LiveApi


def test_both_kinds_have_the_same_face() -> None:
    def face(kind: type) -> dict[str, list[str]]:
        methods = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(each).parameters) for name, each in methods if name[0] != "_"}

    assert face(mq.Client) == face(mq.AsyncClient)
    assert inspect.signature(mq.Client) == inspect.signature(mq.AsyncClient)


def test_everything_awaited(api: LiveApi, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with mq.AsyncClient(api.url, user="ana", password=PASSWORD) as client:
            assert (await client.me()).name == "ana"
            assert len(await client.providers()) == 2
            assert (await client.preview(REQUEST)).problems == ()
            session = (await client.request(REQUEST)).id
            assert (await client.sessions(limit=1))[0].id == session
            assert (await client.session(session)).id == session
            assert await client.offers(session) == ()
            assert await client.contract(session) is None
            seen: list[str | None] = []

            async def watch() -> None:
                async for event in client.watch(session):
                    seen.append(event.status)

            watching = asyncio.create_task(watch())
            while not seen:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(api.hold, session)
            assert (await client.wait(session)).status == "awaiting_client"
            await client.accept(session)
            await asyncio.wait_for(watching, 900)
            assert seen[-2:] == ["awaiting_client", "published"]
            assert (await client.wait(session)).published
            assert (await client.release(session)).rows == 4
            assert (await client.table(session)).to_pylist() == TABLE.to_pylist()
            await client.download(session, tmp_path / "release.csv")
            await client.report(session, tmp_path / "report.html")
            other = (await client.request(REQUEST)).id
            await asyncio.to_thread(api.hold, other)
            assert (await client.relax(other, {"attempts": 4})).status == "negotiating"
            assert (await client.cancel(other)).status == "cancelled"
            third = (await client.request(REQUEST)).id
            await asyncio.to_thread(api.hold, third)
            assert (await client.withdraw(third)).status == "cancelled"
            with pytest.raises(mq.NotFound):
                await client.session("00" * 16)

    asyncio.run(scenario())
    assert {path.name for path in tmp_path.iterdir()} == {"release.csv", "report.html"}
