"""The stream of a session's events: in order, from where one stopped, to its end, for many at once."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest

from masquerade.service import Status
from masquerade.service.api import events
from service.api_server import Room, room, until

STREAM = {"Accept": "text/event-stream"}
LISTENERS = 200


def read(text: str) -> list[dict[str, Any]]:
    """The events in a stream; each number, kind and data agree with its lines."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in lines:
            event = json.loads(lines["data"])
            assert (str(event["number"]), event["kind"]) == (lines["id"], lines["event"])
            found.append(event)
    return found


def test_the_events_of_a_session_that_has_ended(place: Room) -> None:
    session = place.published()
    with place.client("ana") as ana:
        listed = ana.get(f"/sessions/{session.id}/events").json()
        streamed = ana.get(f"/sessions/{session.id}/events", headers=STREAM)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert streamed.headers["cache-control"] == "no-store"
    assert read(streamed.text) == listed["items"]
    assert [each["number"] for each in listed["items"]] == list(range(1, len(listed["items"]) + 1))
    assert listed["items"][-1]["data"]["to"] == "published"
    assert listed["next"] is None


@pytest.mark.parametrize("how", ["after", "Last-Event-ID"])
def test_going_on_where_one_stopped(place: Room, how: str) -> None:
    session = place.published()
    asked: dict[str, Any] = {"params": {"after": 3}} if how == "after" else {}
    header = {"Last-Event-ID": "3"} if how != "after" else {}
    with place.client("ana") as ana:
        rest = read(ana.get(f"/sessions/{session.id}/events", headers=STREAM | header, **asked).text)
        assert [each["number"] for each in rest] == [4, 5, 6, 7]
        listed = ana.get(f"/sessions/{session.id}/events", headers=header, **asked).json()["items"]
        assert listed == rest
        # After the last one there is nothing to wait for.
        over = ana.get(f"/sessions/{session.id}/events", headers=STREAM, params={"after": 7})
        assert read(over.text) == []


def test_numbers_that_are_none_and_a_stream_of_somebody_else(place: Room) -> None:
    path = f"/sessions/{place.ask('ana').id}/events"
    with place.client("ana") as ana, place.client("ben") as ben:
        for wrong in ("-1", "one", "1; DROP TABLE events", "9999999999999"):
            assert ana.get(path, params={"after": wrong}).status_code == 422
            assert ana.get(path, headers={**STREAM, "Last-Event-ID": wrong}).status_code == 422
        assert ben.get(path, headers=STREAM).status_code == 404


def test_events_that_come_while_one_listens(place: Room) -> None:
    session = place.ask()
    store = place.coordinator.store
    with place.client("ana") as ana, ana.stream("GET", f"/sessions/{session.id}/events", headers=STREAM) as stream:
        texts = stream.iter_text()
        text = ""
        while not read(text):
            text += next(texts)
        store.events.append(session.id, "problem", {"party": "bank", "text": "two\nlines ☂"})
        while len(read(text)) < 2:
            text += next(texts)
        assert read(text)[-1]["data"]["text"] == "two\nlines ☂"
        store.sessions.advance(store.sessions.get(session.id), Status.CANCELLED, "enough")
        text += "".join(texts)  # it ends by itself
    assert read(text)[-1]["data"]["to"] == "cancelled"


def test_more_events_than_a_page(place: Room) -> None:
    session = place.ask()
    for number in range(events.MOST_EVENTS):
        place.coordinator.store.events.append(session.id, "progress", {"round": number})
    place.coordinator.store.sessions.advance(place.coordinator.store.sessions.get(session.id), Status.CANCELLED)
    with place.client("ana") as ana:
        first = ana.get(f"/sessions/{session.id}/events").json()
        assert first["next"] == events.MOST_EVENTS
        rest = ana.get(f"/sessions/{session.id}/events", params={"after": first["next"]}).json()
        assert [each["number"] for each in rest["items"]] == [events.MOST_EVENTS + 1, events.MOST_EVENTS + 2]
        few = ana.get(f"/sessions/{session.id}/events", params={"after": 2, "limit": 3}).json()
        assert ([each["number"] for each in few["items"]], few["next"]) == ([3, 4, 5], 5)
        for wrong in (0, events.MOST_EVENTS + 1):
            assert ana.get(f"/sessions/{session.id}/events", params={"limit": wrong}).status_code == 422
        streamed = read(ana.get(f"/sessions/{session.id}/events", headers=STREAM, params={"limit": 3}).text)
    assert [each["number"] for each in streamed] == list(range(1, events.MOST_EVENTS + 3))


def test_a_stream_ends_when_its_token_is_revoked(place: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_HEARTBEAT", 0.2)
    session = place.ask()
    accounts, ana = place.coordinator.accounts, place.coordinator.store.users.get("ana")
    token, made = accounts.create_token(ana, "short-lived")
    with (
        place.client(Authorization=f"Bearer {token}") as client,
        client.stream("GET", f"/sessions/{session.id}/events", headers=STREAM) as stream,
    ):
        texts = stream.iter_text()
        text = ""
        while "still here" not in text:  # heartbeats keep a quiet stream open
            text += next(texts)
        accounts.revoke(ana, made.id)
        rest = "".join(texts)  # it ends, though the session goes on
    assert read(rest) == []
    until(lambda: place.app.state.streams.open.total() == 0)


def test_two_hundred_listeners(place: Room) -> None:
    sessions = [place.ask() for _ in range(10)]
    store = place.coordinator.store
    threads = threading.active_count()

    async def listen(client: httpx.AsyncClient, session_id: str) -> list[dict[str, Any]]:
        headers = STREAM | {"Authorization": f"Bearer {place.tokens['ana']}"}
        answer = await client.get(f"{place.url}/api/v1/sessions/{session_id}/events", headers=headers)
        return read(answer.text)

    async def everybody() -> tuple[list[list[dict[str, Any]]], int, int]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=900) as client:
            listening = [asyncio.create_task(listen(client, sessions[n % len(sessions)].id)) for n in range(LISTENERS)]
            await asyncio.to_thread(until, lambda: place.app.state.streams.open.total() == LISTENERS)
            waiting = threading.active_count()
            # With all of them waiting, others are answered.
            bearer = {"Authorization": f"Bearer {place.tokens['ben']}"}
            other = await client.get(f"{place.url}/api/v1/me", headers=bearer)
            for session in sessions:
                store.sessions.advance(session, Status.CANCELLED, "enough")
            return await asyncio.gather(*listening), waiting, other.status_code

    heard, waiting, other = asyncio.run(everybody())
    assert other == 200
    assert all([each["data"]["to"] for each in one] == ["requested", "cancelled"] for one in heard)
    assert waiting - threads < LISTENERS / 2  # no thread for each
    until(lambda: place.app.state.streams.open.total() == 0)


def test_one_user_has_so_many_streams(place: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_MOST_OF_ONE", 1)
    session = place.ask("ben")
    path = f"/sessions/{session.id}/events"
    with place.client("ben") as ben, ben.stream("GET", path, headers=STREAM) as first:
        texts = first.iter_text()
        next(texts)
        refused = ben.get(path, headers=STREAM)
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "10"
    until(lambda: place.app.state.streams.open.total() == 0)  # whoever goes is noticed


def test_closing_ends_all_streams(tmp_path: Any) -> None:
    heard: list[str] = []
    with room(tmp_path / "room") as place:
        session = place.ask()

        def listen() -> None:
            path = f"/sessions/{session.id}/events"
            with place.client("ana") as ana, ana.stream("GET", path, headers=STREAM) as stream:
                heard.extend(stream.iter_text())

        listener = threading.Thread(target=listen)
        listener.start()
        until(lambda: read("".join(heard)))
    listener.join()  # the server has stopped, though the session has not ended
    assert [each["data"]["to"] for each in read("".join(heard))] == ["requested"]
