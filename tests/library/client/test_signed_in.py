"""Calls of one client at once, step by step: each may sign in for itself, and no token is left behind."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Generator
from contextlib import suppress
from typing import Any

from masquerade.client.transport import Answer, Ask, Caller


class Step:
    """A request that waits until a test answers it."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def __await__(self) -> Generator[Ask, Answer, Answer]:
        return (yield self._ask)


class ByHand:
    """A transport whose answers are given by a test."""

    async def send(self, ask: Ask) -> Answer:
        return await Step(ask)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody lets us wait")


Asking = Coroutine[Ask, Answer | None, Answer]


def signed_in(token: str) -> Answer:
    body = {"token": token, "expires": "2026-03-01T12:00:00Z", "user": "ana", "role": "analyst"}
    return Answer(200, {"content-type": "application/json"}, json.dumps(body).encode())


def two_calls() -> tuple[Caller, Asking, Asking]:
    """A client with a password, whose two calls both had to sign in."""
    caller = Caller(ByHand(), None, "ana", "a long password")
    first: Any = caller.ask(Ask("GET", "/me"))
    second: Any = caller.ask(Ask("GET", "/sessions"))
    assert first.send(None).path == second.send(None).path == "/sign-in"
    assert first.send(signed_in("one")).token == "one"
    assert second.send(signed_in("two")).token == "two"
    return caller, first, second


def ended(caller: Caller) -> list[str | None]:
    """The tokens that signing out makes worthless."""
    leaving: Any = caller.sign_out()
    tokens: list[str | None] = []
    with suppress(StopIteration):
        while True:
            tokens.append(leaving.send(Answer(204, {}) if tokens else None).token)
    return tokens


def test_leaving_takes_back_every_token_that_the_password_got() -> None:
    caller, first, second = two_calls()
    assert set(ended(caller)) == {"one", "two"}
    assert ended(caller) == []
    first.close()
    second.close()


def test_a_refused_token_does_not_cost_the_one_that_came_after_it() -> None:
    caller, first, second = two_calls()
    asked_again = first.send(Answer(401, {}))
    assert (asked_again.path, asked_again.token) == ("/me", "two")
    assert ended(caller) == ["two"]
    first.close()
    second.close()
