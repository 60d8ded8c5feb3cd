"""Whoever sends too much or too cleverly: bodies, traps, floods, and signs that mean something elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from masquerade.service import OverLimit, RateLimit, address_key
from masquerade.service.api.middleware import MOST_BYTES
from service.api_server import WISH, Room, raw, room

SECRETS = ("argon2", "Traceback", "sqlalchemy", "sqlite", 'File "')
METACHARACTERS = (
    "' OR '1'='1",
    "'; DROP TABLE users; --",
    'ana" --',
    "%",
    "_",
    "\\",
    "ana\0",
    "x' UNION SELECT name FROM users --",
    "\ud800",
    "ａｎａ",
    "ANA",
)


# --- too much ---


def test_bodies_that_are_too_large(place: Room, ana: httpx.Client) -> None:
    large = b'{"purpose": "' + b"x" * MOST_BYTES + b'"}'
    for path in ("/sessions", "/previews", "/sign-in", "/tokens"):
        answer = ana.post(path, content=large, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413, path
        assert answer.headers["content-type"] == "application/problem+json"
    # One that is just small enough is read, and refused for what it says.
    fits = b'{"purpose": "' + b"x" * (MOST_BYTES - 100) + b'"}'
    answer = ana.post("/sessions", content=fits, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert len(answer.content) < 10_000  # it is not sent back


def test_bodies_that_do_not_tell_their_length(place: Room) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"purpose": "'
        for _ in range(40):
            yield b"x" * 65536

    with place.client("ana") as ana:
        answer = ana.post("/sessions", content=pieces(), headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
    # Told small and sent large: no more is read than was told.
    head = f"POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {place.tokens['ana']}\r\n"
    lie = f"{head}Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    assert b" 422 " in raw(place, lie.encode() + b"{}" + b"x" * 1000).split(b"\r\n")[0]
    huge = f"{head}Content-Length: {'9' * 30}\r\nConnection: close\r\n\r\n"
    assert int(raw(place, huge.encode()).split(b" ", 2)[1]) in (400, 413)


TWICE = b'{"purpose": "a", "privacy": [{"k": 2, "k": 50}], "purpose": "b"}'
TRAPS = (b"[" * 100_000, b'{"a":' * 50_000, b'{"budget": ' + b"9" * 10_000 + b"}", b"\xff\xfe", b"", b"null", b"NaN")


@pytest.mark.parametrize("path", ["/sessions", "/previews", "/sign-in"])
def test_json_that_is_a_trap(ana: httpx.Client, path: str) -> None:
    for content in (*TRAPS, TWICE):
        answer = ana.post(path, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, content[:20]
        assert answer.headers["content-type"] == "application/problem+json"
    if path != "/sign-in":  # what is missing there is told first
        assert answer.json()["problems"] == ['"k": given twice', '"purpose": given twice']


def test_too_many_requests(tmp_path: Path) -> None:
    with (
        room(tmp_path / "room", requests_per_minute=5) as place,
        place.client("ana") as ana,
        place.client("ben") as ben,
        place.client() as nobody,
    ):
        first = ana.get("/me")
        assert first.headers["ratelimit-limit"] == "5"
        left = int(first.headers["ratelimit-remaining"])
        assert left == 4
        answers = [ana.get("/sessions") for _ in range(30)]
        refused = [each for each in answers if each.status_code == 429]
        assert refused
        assert {each.status_code for each in answers} == {200, 429}
        assert 1 <= int(refused[0].headers["retry-after"]) <= 60
        assert refused[0].headers["ratelimit-remaining"] == "0"
        assert "5 a minute" in refused[0].json()["detail"]
        assert ben.get("/me").status_code == 200  # everybody has their own
        guesses = [nobody.post("/sign-in", json={"user": "x", "password": "y"}) for _ in range(30)]
        assert 429 in {each.status_code for each in guesses}
        assert ben.get("/me").status_code == 200  # though they come from one address


def test_a_bucket_refills_steadily() -> None:
    now = [0.0]
    limit = RateLimit(60, clock=lambda: now[0])
    assert [limit.take("a").remaining for _ in range(60)] == list(range(59, -1, -1))
    with pytest.raises(OverLimit) as caught:
        limit.take("a")
    assert (caught.value.headers or {})["Retry-After"] == "1"
    limit.take("b")
    now[0] += 2
    limit.take("a")
    limit.take("a")
    with pytest.raises(OverLimit):
        limit.take("a")
    now[0] += 1_000
    assert limit.take("a").remaining == 59


def test_whose_bucket_an_address_counts_for() -> None:
    assert address_key("192.0.2.1") == address_key("::ffff:192.0.2.1") != address_key("192.0.2.2")
    assert address_key("2001:db8::1") == address_key("2001:db8::ffff:2") != address_key("2001:db8:0:1::1")
    assert address_key(None) == address_key("no address") == "address"


# --- what strings can do ---


def sent(client: httpx.Client, method: str, path: str, body: Any) -> httpx.Response:
    """JSON with its signs escaped, so that it can hold what is no text."""
    return client.request(method, path, content=json.dumps(body), headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("text", METACHARACTERS)
def test_signs_that_mean_something_elsewhere(place: Room, ana: httpx.Client, text: str) -> None:
    users = len(place.coordinator.store.users.all())
    quoted = quote(text, safe="", errors="surrogatepass")
    with place.client("root") as root:
        answers = [
            sent(ana, "post", "/sign-in", {"user": text, "password": text}),
            sent(ana, "post", "/sessions", {**WISH, "purpose": text}),
            sent(ana, "post", "/sessions", {**WISH, "attributes": [text]}),
            sent(ana, "post", "/sessions", {**WISH, "recipients": [text]}),
            sent(ana, "post", "/sessions", {**WISH, "providers": {"age": text}}),
            sent(ana, "post", "/previews", {**WISH, "class": text, text: text}),
            sent(ana, "post", "/tokens", {"name": text}),
            root.get(f"/users?after={quoted}"),
            root.get(f"/users/{quoted}"),
            sent(root, "patch", f"/users/{quoted}", {"disabled": False}),
            sent(root, "post", "/users", {"name": text, "password": "a long password"}),
            root.get(f"/ledger?user={quoted}&party={quoted}"),
            ana.get(f"/providers?after={quoted}"),
            ana.get(f"/providers/{quoted}"),
            ana.get(f"/sessions?status={quoted}"),
            ana.get(f"/sessions?after={quoted}"),
            ana.get(f"/sessions/{quoted}"),
            ana.get("/me", headers={"Authorization": f"Bearer mq_{quoted}"}),
        ]
    for answer in answers:
        assert answer.status_code < 500, (str(answer.request.url), answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert not [each for each in SECRETS if each in answer.text and each not in text]
    assert answers[0].status_code in (401, 422)  # nobody signs in by it
    assert len(place.coordinator.store.users.all()) == users
    assert answers[11].json().get("items", []) == []


def test_no_header_of_theirs_comes_back(place: Room, ana: httpx.Client) -> None:
    for path in ("/me?a=%0d%0aX-Evil:%201", "/%0d%0aX-Evil:%201", "/providers/%0d%0aX-Evil:%201"):
        answer = ana.get(path)
        assert "x-evil" not in answer.headers
        assert answer.status_code in (404, 422)
        assert all("\n" not in line for line in answer.json()["problems"])
    smuggled = raw(place, b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-A: b\rX-Evil: 1\r\nConnection: close\r\n\r\n")
    assert int(smuggled.split(b" ", 2)[1]) in (400, 401)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/sign-in", {"user": "ana", "password": "x", "role": "admin"}),
        ("/tokens", {"name": "n", "days": 1, "user": "root"}),
        ("/tokens", {"name": "n", "days": "1"}),
        ("/tokens", {"name": "n", "days": 100_000}),
        ("/sessions", {**WISH, "client": "root"}),
        ("/sessions", {**WISH, "status": "published"}),
    ],
)
def test_unknown_and_converted_fields_are_refused(ana: httpx.Client, path: str, body: dict[str, Any]) -> None:
    assert ana.post(path, json=body).status_code == 422


def test_a_password_is_never_sent_back(ana: httpx.Client, place: Room) -> None:
    secret = "hunter2-hunter2-hunter2"
    with place.client("root") as root:
        for answer in (
            ana.post("/sign-in", json={"user": "ana", "password": [secret]}),
            ana.post("/sign-in", json={"user": 1, "password": secret}),
            ana.post("/sign-in", json={"user": "ana", "password": secret * 100}),
            root.post("/users", json={"name": "Ä", "password": secret}),
            root.patch("/users/ana", json={"password": secret, "role": "queen"}),
        ):
            assert answer.status_code == 422
            assert secret not in answer.text


# --- our own mistakes ---


def test_a_mistake_of_ours_is_told_without_its_text(
    place: Room, ana: httpx.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_arguments: Any, **_more: Any) -> Any:
        raise RuntimeError("the cell of Mrs Smith is HIV")

    monkeypatch.setattr(place.coordinator, "providers", fails)
    answer = ana.get("/providers")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    said = capsys.readouterr()
    assert "Smith" not in answer.text + said.out + said.err
    assert "RuntimeError" not in answer.text
    assert "RuntimeError" in said.out + said.err  # the log says what kind, and where
