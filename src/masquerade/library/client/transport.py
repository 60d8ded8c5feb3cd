"""How a client's requests are sent: httpx, which certificates to accept, and what its failures mean."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import httpx
import msgspec

from masquerade import __version__
from masquerade.errors import ParameterError, PeerError, PeerRefused, PeerUnreachable, one_line
from masquerade.library.client.address import Address
from masquerade.library.client.exchange import COORDINATOR, Answer, Ask

_CONNECT = 10.0  # seconds
_SILENCE = 60.0  # between two pieces of an answer; a stream of events sends keep-alives far more often


class _Http:
    """What both transports share; only the coordinator ever gets the token."""

    def __init__(self, address: Address, ca: str | Path | None) -> None:
        self._address = address
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
        except httpx.HTTPError as error:
            raise self._failure(error, response) from None

    async def _chunks(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        with closing(response):
            try:
                for chunk in response.iter_bytes():
                    yield chunk
            except httpx.HTTPError as error:
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
        except httpx.HTTPError as error:
            raise self._failure(error, response) from None

    async def _chunks(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        async with aclosing(response):
            try:
                async for chunk in response.aiter_bytes():
                    yield chunk
            except httpx.HTTPError as error:
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


def _answer(
    response: httpx.Response, body: bytes = b"", chunks: AsyncGenerator[bytes, None] | None = None
) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, body, chunks)


def failure(error: httpx.HTTPError, address: Address, *, answered: bool) -> PeerError:
    """Return a helpful error for a failure in transit; `answered`: after the coordinator had begun to answer."""
    tls = _tls_error(error)
    if isinstance(tls, ssl.SSLCertVerificationError):
        return PeerRefused(
            COORDINATOR,
            f"{address.base} shows a certificate that is not trusted: {one_line(tls.verify_message)}; "
            "if it is its own, give it as ca once you have compared its fingerprint",
        )
    if tls is not None and "WRONG_VERSION" in (tls.reason or ""):
        return PeerRefused(COORDINATOR, f"{address.base} does not speak TLS; is it an http:// address?")
    if tls is not None:
        return PeerUnreachable(
            COORDINATOR, f"{address.base}: no TLS connection: {tls.reason or 'it hangs up'}"
        )
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


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return the underlying TLS error, however deeply it is nested."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None
