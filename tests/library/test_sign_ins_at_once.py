"""Calls of one client at once, step by step: each may sign in for itself, and no token is left behind."""

from __future__ import annotations

from typing import cast

from masquerade.library.client_core import Answer, Ask, Core, Script


def signed_in(token: str) -> Answer:
    return Answer(200, {"content-type": "application/json"}, b'{"token": "%b"}' % token.encode())


def begun(script: Script[Answer]) -> Ask:
    return cast(Ask, next(script))


def answered(script: Script[Answer], answer: Answer) -> Ask:
    return cast(Ask, script.send(answer))


def two_calls() -> tuple[Core, Script[Answer], Script[Answer]]:
    """A client with a password, whose two calls both had to sign in."""
    core = Core("https://coordinator.example", None, "ana", "a long password")
    first, second = core.ask(Ask("GET", "/me")), core.ask(Ask("GET", "/sessions"))
    assert begun(first).path == begun(second).path == "/sign-in"
    assert answered(first, signed_in("one")).token == "one"
    assert answered(second, signed_in("two")).token == "two"
    return core, first, second


def test_leaving_takes_back_every_token_that_the_password_got() -> None:
    core, _first, _second = two_calls()
    assert {cast(Ask, each).token for each in core.leave()} == {"one", "two"}
    assert list(core.leave()) == []


def test_a_refused_token_does_not_cost_the_one_that_came_after_it() -> None:
    core, first, _second = two_calls()
    asked_again = answered(first, Answer(401, {}))
    assert (asked_again.path, asked_again.token) == ("/me", "two")
    assert [cast(Ask, each).token for each in core.leave()] == ["two"]
