"""What a client makes of answers: errors, waiting, addresses; and that a token goes nowhere else."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import masquerade as mq
from library.scripted_server import Reply, problem, scripted
from masquerade.client.transport import Address, Answer, refusal, told_pause
from masquerade.errors import MasqueradeError
from masquerade.service import PublishedRelease, Session, Status

TOKEN = "mq_a-very-secret-token"
ID = "5e" * 16
NOW = datetime(2026, 3, 1, tzinfo=UTC)
SESSION = Reply(
    body=Session(
        id=ID,
        client="ana",
        recipients=(),
        providers=("bank",),
        purpose="research",
        status=Status.RUNNING,
        cause=None,
        attempts=1,
        attempt_limit=3,
        request={},
        terms_hash=None,
        contract_hash=None,
        created=NOW,
        updated=NOW,
        queued=NOW,
        started=NOW,
        finished=None,
        expires=None,
    )
    .model_dump_json()
    .replace("{", '{"of a newer version": 1, ', 1)
    .encode()
)


def release(sha256: str) -> Reply:
    told = PublishedRelease(
        session=ID,
        rows=1,
        sha256=sha256,
        terms_hash="00",
        created=NOW,
        published=NOW,
        expires=NOW,
        snapshots={},
        summary={},
    )
    return Reply(body=told.model_dump_json().encode())


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://coordinator.example", "https://coordinator.example"),
        ("https://coordinator.example:8443/", "https://coordinator.example:8443"),
        ("https://example.org/mq/console", "https://example.org/mq"),
        ("https://example.org/api/v1/", "https://example.org"),
        ("http://127.0.0.1:8080/console", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://localhost:1", "http://localhost:1"),
    ],
)
def test_addresses_as_people_have_them(url: str, base: str) -> None:
    address = Address.read(url)
    assert address.base == base
    assert address.of("/me") == f"{base}/api/v1/me"
    assert address.secure == base.startswith("https")


@pytest.mark.parametrize(
    "url", ["http://coordinator.example", "http://10.0.0.1:8080", "http://127.0.0.1.example", "http://0.0.0.0"]
)
def test_no_token_over_plain_http_to_another_machine(url: str) -> None:
    with pytest.raises(mq.ParameterError, match="never travels over plain http"):
        mq.Client(url, TOKEN)


@pytest.mark.parametrize(
    "url",
    ["", "coordinator.example", "ftp://example.org", "https://", "https://h:port", "https://[::1", "https://h?a=1"],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(mq.ParameterError, match="is no coordinator's address") as caught:
        mq.Client(url, TOKEN)
    assert TOKEN not in str(caught.value)


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(mq.ParameterError, match="holds a name or a password") as caught:
        mq.Client("https://ana:hunter2hunter2@coordinator.example", TOKEN)
    assert "hunter2" not in str(caught.value)


def test_who_asks_must_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASQUERADE_TOKEN", raising=False)
    with pytest.raises(mq.ParameterError, match="set MASQUERADE_TOKEN"):
        mq.Client("https://coordinator.example")
    with pytest.raises(mq.ParameterError, match="both user and password"):
        mq.Client("https://coordinator.example", user="ana")
    with pytest.raises(mq.ParameterError, match="characters that no token has") as caught:
        mq.Client("https://coordinator.example", "two words\n")
    assert "two words" not in str(caught.value)
    monkeypatch.setenv("MASQUERADE_TOKEN", f"{TOKEN}\n")
    mq.Client("https://coordinator.example").close()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, mq.NotAllowed),
        (403, mq.NotAllowed),
        (404, mq.NotFound),
        (409, mq.Conflict),
        (413, mq.ParameterError),
        (422, mq.ParameterError),
        (500, mq.PeerUnreachable),
        (503, mq.PeerUnreachable),
    ],
)
def test_errors_come_back_as_what_they_are(status: int, kind: type[MasqueradeError]) -> None:
    body = b'{"title": "Bad", "status": 1, "detail": "one", "problems": ["one", "two\\nlines"]}'
    with scripted(problem(status, body)) as server, mq.Client(server.url, TOKEN) as client:
        with pytest.raises(kind) as caught:
            client.session(ID)
        if issubclass(kind, mq.PeerError):
            assert str(caught.value) == f"party coordinator: cannot answer now (status {status}): one; two\\nlines"
        else:
            assert caught.value.lines == ("one", "two\\nlines")


@pytest.mark.parametrize("body", [b"<html>nginx</html>", b"", b"{", b"[1]", b'{"problems": 5}', b'{"a": ' * 9999])
@pytest.mark.parametrize("status", [302, 404, 418])
def test_what_is_no_coordinator_is_named(status: int, body: bytes) -> None:
    reply = Reply(status, body, {"location": "https://evil.example/"}, kind="text/html")
    with scripted(reply) as server, mq.Client(server.url, TOKEN) as client:
        with pytest.raises(mq.PeerBrokeProtocol, match="address"):
            client.session(ID)
        assert len(server.asked) == 1  # and no redirect is followed


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"id": 5, "status": "x"}', b'{"id": "%s"}' % ID.encode()])
def test_an_answer_that_is_not_understood(body: bytes) -> None:
    with (
        scripted(Reply(body=body)) as server,
        mq.Client(server.url, TOKEN) as client,
        pytest.raises(mq.PeerBrokeProtocol, match="this version does not understand"),
    ):
        client.session(ID)


def test_waits_as_it_is_told_and_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    replies = [problem(429, retry_after="7"), problem(429, retry_after="2"), SESSION]
    with scripted(*replies) as server, mq.Client(server.url, TOKEN) as client:
        assert client.session(ID).status == "running"
    assert slept == [7.0, 2.0]


def test_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with scripted(problem(429, retry_after="1")) as server, mq.Client(server.url, TOKEN) as client:
        with pytest.raises(mq.PeerUnreachable, match="asked too often"):
            client.session(ID)
        assert len(server.asked) == len(slept) + 1 == 5
        server.replies = [problem(429, retry_after="86400")]
        with pytest.raises(mq.PeerUnreachable, match="try again in 86400 s"):
            client.session(ID)
        assert len(server.asked) == 6


@given(st.text(max_size=40))
def test_any_retry_after_is_some_pause(told: str) -> None:
    assert told_pause(Answer(429, {"retry-after": told})) >= 0


def test_retry_after_may_be_a_date() -> None:
    assert 3000 < told_pause(Answer(429, {"retry-after": formatdate(usegmt=True).replace("GMT", "-0100")})) <= 3600
    assert told_pause(Answer(429, {"retry-after": formatdate(0, usegmt=True)})) == 0


@given(st.integers(100, 599), st.binary(max_size=60), st.sampled_from(["application/json", "text/html", ""]))
def test_every_answer_is_good_or_an_error(status: int, body: bytes, kind: str) -> None:
    error = refusal(Answer(status, {"content-type": kind}, body))
    assert (error is None) == (200 <= status < 300)
    assert error is None or all(line.isprintable() for line in error.lines)


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with mq.Client(url, TOKEN) as client, pytest.raises(mq.PeerUnreachable, match="nobody answers") as caught:
            client.providers()
    assert caught.value.peer == "coordinator"
    assert url in str(caught.value)


def test_a_connection_that_breaks(tmp_path: Path) -> None:
    with scripted(Reply(body=b'{"id"', cut=True)) as server, mq.Client(server.url, TOKEN) as client:
        with pytest.raises(mq.PeerUnreachable, match="breaks off"):
            client.session(ID)
        server.replies = [release("00"), Reply(body=b"a,b\n1,", cut=True)]
        with pytest.raises(mq.PeerUnreachable, match="breaks off"):
            client.download(ID, tmp_path / "release.csv")
    assert list(tmp_path.iterdir()) == []


def test_another_table_than_the_published_one_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("old")
    with scripted(release("ab" * 32)) as server, mq.Client(server.url, TOKEN) as client:
        for name in ("new.csv", "old.csv"):
            server.replies = [release("ab" * 32), Reply(body=b"age\n1\n", kind="text/csv")]
            with pytest.raises(mq.PeerBrokeProtocol, match="another table than the one it published"):
                client.download(ID, tmp_path / name)
        server.replies = [release("ab" * 32), Reply(body=b"no parquet at all")]
        with pytest.raises(mq.PeerBrokeProtocol, match="not Parquet"):
            client.table(ID)
    assert [path.name for path in tmp_path.iterdir()] == ["old.csv"]
    assert (tmp_path / "old.csv").read_text() == "old"


def test_the_token_is_sent_and_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with scripted(SESSION, problem(401)) as server:
        client = mq.Client(server.url, TOKEN)
        client.session(ID)
        with pytest.raises(mq.NotAllowed) as caught:
            client.session(ID)
        client.close()
        assert [heard["authorization"] for _, _, heard in server.asked] == [f"Bearer {TOKEN}"] * 2
    assert repr(client) == f"Client('{server.url}')"
    assert TOKEN not in str(caught.value)
    assert TOKEN not in caplog.text


@pytest.mark.parametrize(
    "session", ["", ".", "..", "deadbeef", "../users?x=1#y", f"{ID}/", ID.upper(), f"{ID}\n", 3, None, b"5e" * 16]
)
def test_what_is_no_session_is_asked_of_nobody(session: Any) -> None:
    with scripted(SESSION) as server, mq.Client(server.url, TOKEN) as client:
        calls: list[Callable[[], object]] = [
            lambda: client.session(session),
            lambda: client.table(session),
            lambda: client.cancel(session),
            lambda: client.accept(session),
            lambda: client.wait(session),
            lambda: next(client.watch(session)),
        ]
        for call in calls:
            with pytest.raises(mq.ParameterError, match="is no session's identifier: that has 32 characters"):
                call()
        assert server.asked == []
        assert client.session(ID).id == ID


def test_a_closed_client_says_so() -> None:
    with scripted(SESSION) as server:
        with mq.Client(server.url, TOKEN) as client:
            client.session(ID)
        client.close()  # once more is no failure
        for call in (client.me, lambda: client.session(ID), lambda: next(client.watch(ID))):
            with pytest.raises(mq.ParameterError, match="this client is closed"):
                call()

        async def scenario() -> None:
            async with mq.AsyncClient(server.url, TOKEN) as other:
                await other.session(ID)
            with pytest.raises(mq.ParameterError, match="this client is closed"):
                await other.session(ID)

        asyncio.run(scenario())


@pytest.mark.parametrize("limit", [0, -1, "ten", 1.5, None])
def test_how_many_sessions_are_listed(limit: Any) -> None:
    with (
        mq.Client("https://coordinator.example", TOKEN) as client,
        pytest.raises(mq.ParameterError, match="limit: must be a whole number of at least 1; got"),
    ):
        client.sessions(limit=limit)
