"""Clients and their line to the coordinator: signing in, restarts, HTTPS and pins."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import masquerade as mq
from library.live_api import PASSWORD, REQUEST, LiveApi, eventually, live_api
from masquerade.net import self_signed
from masquerade.service import ApiToken, Status

RUN = (Status.NEGOTIATING, Status.AGREED, Status.QUEUED, Status.RUNNING)


def test_signing_in_and_out(api: LiveApi) -> None:
    before = {each.id for each in api.coordinator.store.users.tokens(api.user.name)}

    def made() -> list[ApiToken]:
        return [each for each in api.coordinator.store.users.tokens(api.user.name) if each.id not in before]

    with mq.Client(api.url, user="ana", password=PASSWORD) as client:
        assert client.me().name == "ana"
        (token,) = made()
        assert token.name == "sign-in"
        api.coordinator.accounts.revoke(api.user, token.id)
        assert client.me().name == "ana"  # signed in again
        assert PASSWORD not in repr(client)
    assert [each.name for each in made()] == ["sign-in"] * 2
    assert all(each.revoked for each in made())
    wrong = mq.Client(api.url, user="ana", password="not the password")
    with pytest.raises(mq.NotAllowed) as caught:
        wrong.me()
    assert "not the password" not in str(caught.value)
    wrong.close()
    with mq.Client(api.url, "mq_false") as false, pytest.raises(mq.NotAllowed, match="token is not valid"):
        false.providers()


def test_over_a_restart_of_the_coordinator(tmp_path: Path) -> None:
    with live_api(tmp_path / "api") as api, mq.Client(api.url, api.token) as client:
        session = client.request(REQUEST).id
        numbers: list[int] = []
        states: list[str | None] = []
        ended: list[object] = []

        def watch() -> None:
            for event in client.watch(session):
                numbers.append(event.number)
                states.append(event.status)
            ended.append(True)

        watching = threading.Thread(target=watch)
        watching.start()
        eventually(lambda: len(numbers) == 1)
        api.move(session, Status.NEGOTIATING)
        eventually(lambda: len(numbers) == 2)
        api.stop()
        api.start()
        api.move(session, *RUN[1:])
        eventually(lambda: len(numbers) == 5)
        api.stop()
        api.start()
        api.move(session, Status.FAILED, cause="bank: gone")
        watching.join(900)
        assert ended == [True]
        assert numbers == [1, 2, 3, 4, 5, 6]
        assert states[-1] == "failed"
        assert client.wait(session).problems == ("bank: gone",) or client.session(session).cause == "bank: gone"


def test_async_over_a_restart(tmp_path: Path) -> None:
    async def scenario() -> list[int]:
        async with mq.AsyncClient(api.url, api.token) as client:
            session = (await client.request(REQUEST)).id
            numbers = []
            async for event in client.watch(session):
                numbers.append(event.number)
                if len(numbers) == 1:
                    await asyncio.to_thread(api.stop)
                    await asyncio.to_thread(api.start)
                    await asyncio.to_thread(api.move, session, Status.NEGOTIATING, Status.CANCELLED)
            return numbers

    with live_api(tmp_path / "api") as api:
        assert asyncio.run(scenario()) == [1, 2, 3]


def test_a_coordinator_that_stays_away(tmp_path: Path) -> None:
    with live_api(tmp_path / "api") as api, mq.Client(api.url, api.token) as client:
        session = client.request(REQUEST).id
        events = client.watch(session, patience=0.5)
        assert next(events).number == 1
        api.stop()
        with pytest.raises(mq.PeerUnreachable, match="coordinator"):
            next(events)
        with pytest.raises(mq.PeerUnreachable):
            next(client.watch(session))


def test_https_and_pins(tmp_path: Path) -> None:
    for name in ("web", "other"):
        self_signed(name).save(tmp_path / name)
    web = str(tmp_path / "web" / "identity.pem")
    https = (web, str(tmp_path / "web" / "key.pem"))
    with live_api(tmp_path / "api", https=https) as api:
        with mq.Client(api.url, api.token, ca=web) as client:
            assert client.me().name == "ana"
            session = client.request(REQUEST).id
            api.publish(session)
            assert client.wait(session).published
        for ca in (None, tmp_path / "other" / "identity.pem"):
            with mq.Client(api.url, api.token, ca=ca) as client, pytest.raises(mq.PeerRefused, match="not trusted"):
                client.me()
        with (
            mq.Client(api.url.replace("https", "http"), api.token) as client,
            pytest.raises(mq.PeerUnreachable, match=r"hangs up without an answer; .* begins with https://"),
        ):
            client.me()
        with pytest.raises(mq.ParameterError, match="cannot be read"):
            mq.Client(api.url, api.token, ca=tmp_path / "nothing.pem")
        with pytest.raises(mq.ParameterError, match="not a certificate"):
            mq.Client(api.url, api.token, ca=tmp_path / "api" / "coordinator.toml")


def test_https_where_there_is_none(api: LiveApi) -> None:
    url = api.url.replace("http", "https")
    with mq.Client(url, api.token) as client, pytest.raises(mq.PeerError, match="TLS"):
        client.me()
