"""`tokens list`, `make` and `revoke` against a coordinator's real API."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command import Answer, here
from library.live_api import PASSWORD, LiveApi, live_api

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    with live_api(tmp_path_factory.mktemp("api"), requests_per_minute=100_000) as server:
        yield server


@pytest.fixture(autouse=True)
def _surroundings(api: LiveApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MASQUERADE_URL", api.url)
    monkeypatch.delenv("MASQUERADE_TOKEN", raising=False)


def signed_in(monkeypatch: pytest.MonkeyPatch, capsys: Capture, *words: str) -> Answer:
    """A command with ana's password on standard input."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
    return here(capsys, "tokens", *words, "--user", "ana", "--password-stdin")


def test_a_token_is_made_listed_used_and_revoked(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    words = ("make", "laptop", "--scope", "read", "--scope", "tokens", "--days", "3")
    made = signed_in(monkeypatch, capsys, *words)
    assert (made.code, made.err) == (0, "")
    monkeypatch.setenv("MASQUERADE_TOKEN", made.out.strip())
    assert here(capsys, "sessions").out == "no sessions\n"
    listed = {each["name"]: each for each in here(capsys, "tokens", "list", "--json").json["tokens"]}
    assert listed["laptop"]["scopes"] == ["read", "tokens"]
    assert made.out.strip() not in str(listed)
    assert listed["laptop"]["id"] in here(capsys, "tokens", "list").out
    refused = here(capsys, "tokens", "make", "more")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "error: the token that asks for it lacks the scope request, download itself\n"
    assert here(capsys, "tokens", "make", "less", "--scope", "read", "--json").json["scopes"] == ["read"]
    revoked = signed_in(monkeypatch, capsys, "revoke", listed["laptop"]["id"])
    assert (revoked.code, revoked.err) == (0, "")
    assert "not valid" in here(capsys, "tokens", "list").err


def test_what_goes_wrong_is_one_line(api: LiveApi, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("MASQUERADE_TOKEN", api.token)
    missing = here(capsys, "tokens", "list")
    assert missing.code == 1
    assert missing.err == ("error: this needs a token with the scope tokens; yours has read, request, download\n")
    for words, line in (
        (("revoke", "x"), '"x" is no token\'s identifier'),
        (("make", "laptop", "--scope", "king"), "king"),
        (("make", "laptop", "--days", "367"), "367"),
        (("make", "laptop", "--user", "ana"), "give it with --password-stdin"),
    ):
        wrong = here(capsys, "tokens", *words)
        assert (wrong.code, wrong.out, wrong.err.count("\n")) == (2, "", 1)
        assert line in wrong.err
