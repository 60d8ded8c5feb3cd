"""How a client's requests are sent: httpx, which certificates to accept, and what its failures mean."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
from pydantic import TypeAdapter, ValidationError

from masquerade import __version__
from masquerade.errors import (
    MasqueradeError,
    ParameterError,
    PeerBrokeProtocol,
    PeerError,
    PeerRefused,
    PeerUnreachable,
    one_line,
    shown,
)
from masquerade.service import SignedIn, error_of, read_problems

if TYPE_CHECKING:
    import httpx  # loaded by whoever connects: to read a client's settings or its help takes none

# --- address ------------------------------------------------------------------------------------------------
# Parse a coordinator's address.

_API = "/api/v1"


@dataclass(frozen=True)
class Address:
    """A coordinator's address; paths are appended to `base`."""

    base: str
    secure: bool
    loopback: bool

    @classmethod
    def read(cls, url: str) -> Address:
        """Parse a coordinator's URL; that of its API or of its console will do as well."""
        try:
            parts = urlsplit(url.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        else:
            if parts.username is not None or parts.password is not None:  # and the URL is not repeated
                raise ParameterError("the coordinator's URL holds a name or a password; give user and password apart")
        if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
            raise ParameterError(
                f"{shown(url)} is no coordinator's address; write it as https://coordinator.example:8080"
            )
        path = parts.path.rstrip("/").removesuffix("/console").removesuffix(_API).rstrip("/")
        host = f"[{host}]" if ":" in host else host
        base = f"{parts.scheme}://{host}{f':{port}' if port is not None else ''}{path}"
        loopback = _is_loopback(parts.hostname or "")
        if parts.scheme == "http" and not loopback:
            raise ParameterError(f"{base}: a token never travels over plain http to another machine; use https://")
        return cls(base, parts.scheme == "https", loopback)

    def of(self, path: str) -> str:
        """Return the URL of an API path."""
        return f"{self.base}{_API}{path}"


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# --- exchange -----------------------------------------------------------------------------------------------
# Requests, answers and their interpretation, without I/O, as used by the calls of both clients.

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


class ClientTransport(Protocol):
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


# --- signed in ----------------------------------------------------------------------------------------------
# The user's token, and repeating a request when its answer calls for that.

TRIES = 5  # per request, while the coordinator asks us to wait
LONGEST_PAUSE = 120.0  # seconds; if asked to wait longer, the call fails


class Caller:
    """A user with a token, or with a password that is exchanged for one when first needed."""

    def __init__(self, transport: ClientTransport, token: str | None, user: str | None, password: str | None) -> None:
        if (user is None) != (password is None):
            raise ParameterError("a sign-in needs both user and password")
        if token is None and user is None:
            raise ParameterError("no token: give one, or user and password, or set MASQUERADE_TOKEN")
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token and token):
            raise ParameterError("the token holds characters that no token has; was it copied whole, on one line?")
        self.transport = transport
        self._token = token
        self._user, self._password = user, password
        self._got: list[str] = []  # tokens obtained by password; concurrent calls may get one each

    async def ask(self, ask: Ask) -> Answer:
        """Send a request and return its answer; raise the error that a refusal stands for."""
        renewed = False
        for left in reversed(range(TRIES)):
            if self._token is None:
                await self._sign_in()
            sent = replace(ask, token=self._token)
            answer = await self.transport.send(sent)
            if answer.status == 401 and self._password is not None and not renewed:
                renewed = True
                self._forget(sent.token)  # a token lasts hours, and this client may outlive it
            elif await self._is_good(answer, left):
                return answer
        raise PeerUnreachable(COORDINATOR, "refuses the token that it has just given us")

    async def sign_out(self) -> None:
        """Revoke every token obtained by password; a token passed in stays valid."""
        for token in tuple(self._got):
            self._forget(token)
            with suppress(PeerError):  # it expires anyway if the request is lost
                await self.transport.send(Ask("DELETE", "/sign-in", token=token))

    def _forget(self, token: str | None) -> None:
        if self._token == token:
            self._token = None
        self._got = [each for each in self._got if each != token]

    async def _sign_in(self) -> None:
        ask = Ask("POST", "/sign-in", body={"user": self._user, "password": self._password})
        for left in reversed(range(TRIES)):
            answer = await self.transport.send(ask)
            if await self._is_good(answer, left):
                self._token = read(answer, SignedIn).token
                self._got.append(self._token)
                return

    async def _is_good(self, answer: Answer, left: int) -> bool:
        """Return whether an answer is a success; else wait if it asks us to and tries are left, or raise its error."""
        error = refusal(answer)
        if error is None:
            return True
        if not isinstance(error, TooMany) or not left or error.seconds > LONGEST_PAUSE:
            raise error
        await self.transport.sleep(error.seconds)
        return False


# --- transport ----------------------------------------------------------------------------------------------

_CONNECT = 10.0  # seconds
_SILENCE = 60.0  # between two pieces of an answer; a stream of events sends keep-alives far more often


class _Http:
    """What both transports share; only the coordinator ever gets the token."""

    def __init__(self, address: Address, ca: str | Path | None) -> None:
        import httpx

        self._address, self._failed = address, httpx.HTTPError
        self._options: dict[str, Any] = {
            "verify": trust(ca) if address.secure else False,  # plain http is for this machine only
            "timeout": httpx.Timeout(_SILENCE, connect=_CONNECT),
            "follow_redirects": False,
            "trust_env": address.secure and not address.loopback,  # a proxy sees only ciphertext
            "headers": {"user-agent": f"masquerade/{__version__}"},
        }

    def _request(self, http: httpx.Client | httpx.AsyncClient, ask: Ask) -> httpx.Request:
        if http.is_closed:
            raise ParameterError("this client is closed; make another one to ask more")
        headers = {"accept": ask.accept, **ask.headers}
        if ask.token is not None:
            headers["authorization"] = f"Bearer {ask.token}"
        content = None
        if ask.body is not None:
            headers["content-type"] = "application/json"
            content = msgspec.json.encode(ask.body)
        url, query = self._address.of(ask.path), dict(ask.query) or None
        return http.build_request(ask.method, url, params=query, headers=headers, content=content)

    def _failure(self, error: httpx.HTTPError, response: httpx.Response | None) -> PeerError:
        return failure(error, self._address, answered=response is not None)


class HttpTransport(_Http):
    """Blocking requests: nothing here suspends the coroutine that awaits it."""

    def __init__(self, address: Address, ca: str | Path | None) -> None:
        import httpx

        super().__init__(address, ca)
        self._http = httpx.Client(**self._options)

    async def send(self, ask: Ask) -> Answer:
        """Send a request; PeerError if no answer comes."""
        response = None
        try:
            response = self._http.send(self._request(self._http, ask), stream=True)
            if ask.streamed and response.is_success:
                return _answer(response, chunks=self._chunks(response))
            with closing(response):
                return _answer(response, response.read())
        except self._failed as error:
            raise self._failure(error, response) from None

    async def _chunks(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        with closing(response):
            try:
                for chunk in response.iter_bytes():
                    yield chunk
            except self._failed as error:
                raise self._failure(error, response) from None

    async def sleep(self, seconds: float) -> None:
        """Block for a number of seconds."""
        time.sleep(seconds)  # there is no event loop to block

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class AsyncHttpTransport(_Http):
    """Requests on the event loop."""

    def __init__(self, address: Address, ca: str | Path | None) -> None:
        import httpx

        super().__init__(address, ca)
        self._http = httpx.AsyncClient(**self._options)

    async def send(self, ask: Ask) -> Answer:
        """Send a request; PeerError if no answer comes."""
        response = None
        try:
            response = await self._http.send(self._request(self._http, ask), stream=True)
            if ask.streamed and response.is_success:
                return _answer(response, chunks=self._chunks(response))
            async with aclosing(response):
                return _answer(response, await response.aread())
        except self._failed as error:
            raise self._failure(error, response) from None

    async def _chunks(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        async with aclosing(response):
            try:
                async for chunk in response.aiter_bytes():
                    yield chunk
            except self._failed as error:
                raise self._failure(error, response) from None

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def trust(ca: str | Path | None) -> ssl.SSLContext:
    """Return which certificates to accept: the system's authorities, or only what a PEM file holds."""
    if ca is None:
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context = ssl.create_default_context(cafile=str(ca))
    except ssl.SSLError:
        raise ParameterError(f"{ca}: not a certificate in PEM") from None
    except OSError as error:
        raise ParameterError(f"{ca}: cannot be read: {error.strerror}") from None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a pinned certificate needs no authority above it
    return context


def _answer(response: httpx.Response, body: bytes = b"", chunks: AsyncGenerator[bytes, None] | None = None) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, body, chunks)


def failure(error: httpx.HTTPError, address: Address, *, answered: bool) -> PeerError:
    """Return a helpful error for a failure in transit; `answered`: after the coordinator had begun to answer."""
    import httpx

    cause: BaseException | None = error  # the underlying TLS error, however deeply it is nested
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    tls = cause
    if isinstance(tls, ssl.SSLCertVerificationError):
        return PeerRefused(
            COORDINATOR,
            f"{address.base} shows a certificate that is not trusted: {one_line(tls.verify_message)}; "
            "if it is its own, give it as ca once you have compared its fingerprint",
        )
    if tls is not None and "WRONG_VERSION" in (tls.reason or ""):
        return PeerRefused(COORDINATOR, f"{address.base} does not speak TLS; is it an http:// address?")
    if tls is not None:
        return PeerUnreachable(COORDINATOR, f"{address.base}: no TLS connection: {tls.reason or 'it hangs up'}")
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        return PeerUnreachable(
            COORDINATOR, f"nobody answers at {address.base}; is it running, and is that its address?"
        )
    if isinstance(error, httpx.TimeoutException):
        return PeerUnreachable(COORDINATOR, f"{address.base} has fallen silent")
    if isinstance(error, httpx.ProxyError):
        return PeerUnreachable(COORDINATOR, f"{address.base} cannot be reached through the proxy that is set")
    if answered:
        return PeerUnreachable(COORDINATOR, f"{address.base} breaks off in the middle of an answer")
    hint = "" if address.secure else "; if it speaks TLS, its address begins with https://"
    return PeerUnreachable(COORDINATOR, f"{address.base} hangs up without an answer{hint}")
