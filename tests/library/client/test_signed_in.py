"""Calls of one client at once, step by step: each may sign in for itself, and no token is left behind."""

from __future__ import annotations

import json
from typing import cast

from masquerade.library.client.exchange import Answer, Ask, Script
from masquerade.library.client.signed_in import Caller


def signed_in(token: str) -> Answer:
    body = {"token": token, "expires": "2026-03-01T12:00:00Z", "user": "ana", "role": "analyst"}
    return Answer(200, {"content-type": "application/json"}, json.dumps(body).encode())


def begun(script: Script[Answer]) -> Ask:
    return cast(Ask, next(script))


def answered(script: Script[Answer], answer: Answer) -> Ask:
    return cast(Ask, script.send(answer))


def two_calls() -> tuple[Caller, Script[Answer], Script[Answer]]:
    """A client with a password, whose two calls both had to sign in."""
    caller = Caller(None, "ana", "a long password")
    first, second = caller.ask(Ask("GET", "/me")), caller.ask(Ask("GET", "/sessions"))
    assert begun(first).path == begun(second).path == "/sign-in"
    assert answered(first, signed_in("one")).token == "one"
    assert answered(second, signed_in("two")).token == "two"
    return caller, first, second


def test_leaving_takes_back_every_token_that_the_password_got() -> None:
    caller, _first, _second = two_calls()
    assert {cast(Ask, each).token for each in caller.sign_out()} == {"one", "two"}
    assert list(caller.sign_out()) == []


def test_a_refused_token_does_not_cost_the_one_that_came_after_it() -> None:
    caller, first, _second = two_calls()
    asked_again = answered(first, Answer(401, {}))
    assert (asked_again.path, asked_again.token) == ("/me", "two")
    assert [cast(Ask, each).token for each in caller.sign_out()] == ["two"]
