"""What both clients do, without I/O: which request is sent, what its answer means, when it is sent again.

A method is a script: it yields an `Ask`, or seconds to wait, and gets the `Answer`, or the PeerError that came instead.
`Client` and `AsyncClient` (client.py) run the same scripts, each in its own way.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from masquerade.errors import (
    Conflict,
    MasqueradeError,
    NotAllowed,
    NotFound,
    ParameterError,
    PeerBrokeProtocol,
    PeerError,
    PeerUnreachable,
    one_line,
    shown,
)

COORDINATOR = "coordinator"
TRIES = 5  # of one request, while the coordinator tells us to wait
LONGEST_PAUSE = 120.0  # seconds; told to wait for longer, we give up and say so

_API = "/api/v1"
_REFUSALS: Mapping[int, type[MasqueradeError]] = {
    400: ParameterError,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    413: ParameterError,
    415: ParameterError,
    422: ParameterError,
}

Result = TypeVar("Result")


@dataclass(frozen=True)
class Ask:
    """One request. A `sink` takes the body of a good answer as it comes, instead of the answer."""

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: Any = field(default=None, repr=False)  # it may hold a password
    accept: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    sink: Callable[[bytes], object] | None = None
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Answer:
    """What came back; header names are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


Script = Generator[Ask | float, Answer | PeerError, Result]


class TooMany(PeerUnreachable):
    """We ask too often; `seconds` says when to come back."""

    def __init__(self, seconds: float) -> None:
        super().__init__(COORDINATOR, f"is asked too often; try again in {seconds:.0f} s")
        self.seconds = seconds


@dataclass(frozen=True)
class Address:
    """Where a coordinator is: `base` is what paths are added to."""

    base: str
    secure: bool
    loopback: bool

    @classmethod
    def read(cls, url: str) -> Address:
        """A coordinator's URL, as people have it: of the API, of the console, or of neither."""
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        else:
            if parts.username is not None or parts.password is not None:  # and it is not repeated
                raise ParameterError(
                    "the coordinator's URL holds a name or a password; give user and password apart"
                )
        if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
            raise ParameterError(
                f"{shown(url)} is no coordinator's address; write it as https://coordinator.example:8080"
            )
        path = parts.path.rstrip("/").removesuffix("/console").removesuffix(_API).rstrip("/")
        host = f"[{host}]" if ":" in host else host
        base = f"{parts.scheme}://{host}{f':{port}' if port is not None else ''}{path}"
        loopback = _is_loopback(parts.hostname or "")
        if parts.scheme == "http" and not loopback:
            raise ParameterError(
                f"{base}: a token never travels over plain http to another machine; use https://"
            )
        return cls(base, parts.scheme == "https", loopback)

    def of(self, path: str) -> str:
        """The URL of a path of the API."""
        return f"{self.base}{_API}{path}"


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Core:
    """Who asks, and how: every request goes through `ask`."""

    def __init__(self, url: str, token: str | None, user: str | None, password: str | None) -> None:
        if (user is None) != (password is None):
            raise ParameterError("a sign-in needs both user and password")
        if token is None and user is None:
            raise ParameterError("no token: give one, or user and password, or set MASQUERADE_TOKEN")
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token and token):
            raise ParameterError("the token holds signs that no token has; was it copied whole, on one line?")
        self.address = Address.read(url)
        self._token = token
        self._user, self._password = user, password
        self._signed_in: list[str] = []  # tokens that our password got us; calls at once may get one each

    def ask(self, ask: Ask) -> Script[Answer]:
        """The answer to a request; when it is a refusal, the error that it means."""
        renewed = False
        for left in reversed(range(TRIES)):
            if self._token is None:
                yield from self._sign_in()
            sent = self.signed(ask)
            answer = yield sent
            if isinstance(answer, PeerError):
                raise answer
            if answer.status == 401 and self._password is not None and not renewed:
                renewed = True
                self._forget(sent.token)  # it lives for hours, and we may live longer
                continue
            error = refusal(answer)
            if error is None:
                return answer
            if not isinstance(error, TooMany) or not left or error.seconds > LONGEST_PAUSE:
                raise error
            yield error.seconds
        raise PeerUnreachable(COORDINATOR, "refuses the token that it has just given us")

    def signed(self, ask: Ask) -> Ask:
        """The request with our token."""
        return replace(ask, token=self._token)

    def leave(self) -> Script[None]:
        """Make every token that a password got us worthless; a token that was given stays."""
        for token in tuple(self._signed_in):
            self._forget(token)
            yield Ask("DELETE", "/sign-in", token=token)  # it ends by itself too, if nobody hears us

    def _forget(self, token: str | None) -> None:
        if self._token == token:
            self._token = None
        self._signed_in = [each for each in self._signed_in if each != token]

    def _sign_in(self) -> Script[None]:
        ask = Ask("POST", "/sign-in", body={"user": self._user, "password": self._password})
        for left in reversed(range(TRIES)):
            answer = yield ask
            if isinstance(answer, PeerError):
                raise answer
            error = refusal(answer)
            if error is None:
                self._token = read(answer, _SignedIn).token
                self._signed_in.append(self._token)
                return
            if not isinstance(error, TooMany) or not left or error.seconds > LONGEST_PAUSE:
                raise error
            yield error.seconds


class _SignedIn(msgspec.Struct, frozen=True):
    token: str

    def __repr__(self) -> str:
        return "_SignedIn(…)"


class _Problem(msgspec.Struct, frozen=True):
    title: str = ""
    detail: str = ""
    problems: tuple[str, ...] = ()


def refusal(answer: Answer) -> MasqueradeError | None:
    """The error that an answer means, or None when it is a good one."""
    status = answer.status
    if 200 <= status < 300:
        return None
    if status == 429:
        return TooMany(pause_told(answer))
    lines = _told(answer)
    if status in _REFUSALS and lines:
        return _REFUSALS[status](*lines)
    if status >= 500:
        detail = f": {'; '.join(lines)}" if lines else ""
        return PeerUnreachable(COORDINATOR, f"cannot answer now (status {status}){detail}")
    if 300 <= status < 400:
        return PeerBrokeProtocol(
            COORDINATOR, f"sends us elsewhere (status {status}); a token follows nobody: give its own address"
        )
    return PeerBrokeProtocol(
        COORDINATOR, f"does not answer as a coordinator's API does (status {status}); is its address right?"
    )


def _told(answer: Answer) -> tuple[str, ...]:
    """The problems in an RFC 9457 answer; none when it is something else."""
    if "json" not in answer.headers.get("content-type", ""):
        return ()
    try:
        problem = msgspec.json.decode(answer.body, type=_Problem)
    except (msgspec.MsgspecError, RecursionError):
        return ()
    lines = problem.problems or (problem.detail or problem.title,)
    return tuple(one_line(line) for line in lines if line)


def pause_told(answer: Answer) -> float:
    """How long to wait, as Retry-After says: seconds, or a date."""
    told = answer.headers.get("retry-after", "")
    if told.isascii() and told.isdigit():
        return float(told[:9])
    date = _date(told)
    return 1.0 if date is None else max(0.0, (date - datetime.now(UTC)).total_seconds())


def date_told(answer: Answer) -> datetime | None:
    """What the coordinator's clock says."""
    return _date(answer.headers.get("date", ""))


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def read(answer: Answer, kind: type[Result]) -> Result:
    """What an answer says, checked before it is used."""
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise PeerBrokeProtocol(
            COORDINATOR, f"answers what this version does not understand: {one_line(str(error))}"
        ) from None
