"""Requests, answers and their interpretation, without I/O, as used by the calls of both clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from masquerade.errors import MasqueradeError, PeerBrokeProtocol, PeerUnreachable, one_line
from masquerade.service.problem_document import error_of, read_problems

COORDINATOR = "coordinator"

Result = TypeVar("Result")


@dataclass(frozen=True)
class Ask:
    """One request. The body of a successful answer that is `streamed` is read from its `chunks`."""

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: Any = field(default=None, repr=False)  # it may hold a password
    accept: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    streamed: bool = False
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Answer:
    """An answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    chunks: AsyncGenerator[bytes, None] | None = None


class Transport(Protocol):
    """How requests are sent, and how to wait."""

    async def send(self, ask: Ask) -> Answer:
        """Send a request; PeerError if no answer comes."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""


class TooMany(PeerUnreachable):
    """The rate limit was exceeded; try again after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(COORDINATOR, f"is asked too often; try again in {seconds:.0f} s")
        self.seconds = seconds


def read(answer: Answer, kind: type[Result]) -> Result:
    """Parse and validate an answer; PeerBrokeProtocol if it does not fit."""
    try:
        return TypeAdapter(kind).validate_json(answer.body, strict=True)
    except ValidationError as error:
        raise not_understood("answers what", error) from None


def not_understood(what: str, error: ValidationError) -> PeerBrokeProtocol:
    """Return the error for an answer of the wrong form."""
    first = error.errors(include_url=False, include_input=False)[0]
    why = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
    return PeerBrokeProtocol(COORDINATOR, f"{what} this version does not understand: {one_line(why)}")


def refusal(answer: Answer) -> MasqueradeError | None:
    """Return the error that an answer stands for, or None if it is a success."""
    status = answer.status
    if 200 <= status < 300:
        return None
    if status == 429:
        return TooMany(told_pause(answer))
    is_json = "json" in answer.headers.get("content-type", "")
    problems = read_problems(answer.body) if is_json else ()
    if problems and (error := error_of(status, problems)) is not None:
        return error
    if status >= 500:
        detail = f": {'; '.join(map(str, problems))}" if problems else ""
        return PeerUnreachable(COORDINATOR, f"cannot answer now (status {status}){detail}")
    if 300 <= status < 400:
        return PeerBrokeProtocol(
            COORDINATOR, f"sends us elsewhere (status {status}); a token follows nobody: give its own address"
        )
    return PeerBrokeProtocol(
        COORDINATOR, f"does not answer as a coordinator's API does (status {status}); is its address right?"
    )


def told_pause(answer: Answer) -> float:
    """Return the seconds to wait according to Retry-After, which holds seconds or a date."""
    told = answer.headers.get("retry-after", "")
    if told.isascii() and told.isdigit():
        return float(told[:9])
    date = _date(told)
    return 1.0 if date is None else max(0.0, (date - datetime.now(UTC)).total_seconds())


def told_date(answer: Answer) -> datetime | None:
    """Return the coordinator's clock time, from the Date header."""
    return _date(answer.headers.get("date", ""))


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
