"""Control calls to a peer over HTTP, with certificates on both sides; `mutual_tls.serve` is the other end.

async with PeerHttp("bank", "127.0.0.1:7001", identity, trust) as bank:
    health = await bank.call("GET", "/v1/health", answer=Health)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Self

import httpx
import msgspec
import structlog
import uvicorn
from cryptography import x509
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from masquerade.errors import ParameterError, PeerBrokeProtocol, PeerRefused, PeerUnreachable, Problem
from masquerade.net import Identity, Listener, PartyAddress, TrustStore, listen, out_of_date
from masquerade.service.clock import Clock
from masquerade.service.wire.control import ControlLink, ControlNotes, Health
from masquerade.service.wire.problems import MEDIA_TYPE, rendered
from masquerade.service.wire.serving import ConnectionLimits, PunctualHttp, check_free, listening_at, served

# --- mutual tls ---------------------------------------------------------------------------------------------
# A server for peers only, with certificates on both sides: who may connect, and who is calling.
#
# Each side trusts exactly the certificates in its own trust store. Nobody else gets as far as sending a
# request, and the server passes the caller's name to its application:
#
#     async with serve(app, "127.0.0.1:7001", identity, trust) as address:   # any ASGI application
#         ...                                                                # caller(scope) is the peer's name
#
# A store that changes counts at once: for new connections, and for the next request on those that are open.
#
# `peer_http` is the other end.

_log = structlog.get_logger("masquerade.peers")

MOST_BYTES = 4 << 20  # of a request or an answer; tables do not travel this way
_CALLER = "masquerade.caller"


def caller(scope: MutableMapping[str, Any]) -> str:
    """Return the name of the peer that sent a request."""
    name: str = scope[_CALLER]
    return name


@asynccontextmanager
async def serve(
    app: Any,
    address: str,
    identity: Identity,
    trust: TrustStore,
    limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 # frozen
) -> AsyncIterator[str]:
    """Serve an ASGI application to the peers of a trust store; yield the address with its actual port."""
    if not trust.names:
        raise ParameterError("the trust store is empty: put one <peer>.pem a peer into it")
    identity.check_dates()
    host = PartyAddress(identity.name, address).address.rpartition(":")[0]
    listening = listening_at(address, limits)

    class Knowing(_Knowing):  # uvicorn makes its connections by the class alone
        pass

    Knowing.trust, Knowing.books = trust, listening.books
    config = uvicorn.Config(
        app,
        http=Knowing,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=64 * 1024,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=75,  # longer than callers keep idle connections, so no call meets a closing one
    )
    config.load()
    config.ssl = tls_context(ssl.PROTOCOL_TLS_SERVER, identity, trust, *trust.names)
    _follow(trust, config.ssl)
    try:
        async with served(config, listening):
            try:
                yield f"{host}:{listening.getsockname()[1]}"
            finally:
                Knowing.is_ending = True
    finally:
        listening.close()


class _Knowing(PunctualHttp):
    """A connection that passes the caller's name, by its certificate, to the application.

    It turns callers away while its server shuts down, because uvicorn would wait for them.
    """

    trust: TrustStore
    is_ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.is_ending:
            transport.abort()
            return
        shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        name = self.trust.owner(shown)
        if name is None:  # signed by a pinned certificate, but not pinned itself
            transport.abort()
            return
        inner = self.app

        async def named(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            if self.trust.owner(shown) != name:  # taken out of the store since it connected
                transport.abort()
                return
            scope[_CALLER] = name
            await inner(scope, receive, send)

        self.app = named

    def shutdown(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()  # a peer that keeps a connection does not answer TLS's close_notify
        else:
            super().shutdown()


def tls_context(kind: int, identity: Identity, trust: TrustStore, *peers: str) -> ssl.SSLContext:
    """Return a TLS 1.3 context with our certificate that accepts exactly the pinned certificates of these peers."""
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    # A pinned certificate is an anchor, whatever its issuer
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata="".join(trust.pin(peer).decode() for peer in peers))
    _load_own(context, identity)
    return context


def _follow(trust: TrustStore, context: ssl.SSLContext) -> None:
    """Let a server's context accept certificates that are pinned later. Whether one still is, `owner` says."""
    accepted = {trust.pin(peer) for peer in trust.names}

    def greeted(_connection: object, _name: str | None, _context: ssl.SSLContext) -> None:
        new = {trust.pin(peer) for peer in trust.names} - accepted
        if new:
            _log.info("trust store read again", peers=list(trust.names))
            context.load_verify_locations(cadata=b"".join(new).decode())
            accepted.update(new)

    context.sni_callback = greeted  # called at the beginning of every handshake, also without a name


def _load_own(context: ssl.SSLContext, identity: Identity) -> None:
    """Load our key from an unnamed in-memory file that no other user can open; Python's ssl reads only files."""
    in_memory = hasattr(os, "memfd_create")
    with os.fdopen(os.memfd_create("identity"), "wb") if in_memory else tempfile.NamedTemporaryFile() as file:
        file.write(identity.certificate + identity.key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}" if in_memory else file.name)


# --- peer http ----------------------------------------------------------------------------------------------

_MOST_TO_CONNECT = 10.0  # seconds: a running peer accepts connections at once
_MOST_CONNECTING = 2.0  # seconds that a cancelled call waits for a connection that is being made
_CONNECTED = ("connection.connect_tcp.failed", "connection.start_tls.failed", "connection.start_tls.complete")


class PeerHttp(ControlLink):
    """Calls to one peer over persistent connections."""

    def __init__(
        self,
        peer: str,
        address: str,
        identity: Identity,
        trust: TrustStore,
        *,
        timeout: float = 30.0,
        notes: ControlNotes | None = None,
    ) -> None:
        super().__init__(peer, notes)
        self.address = PartyAddress(peer, address).address
        self._identity, self._trust, self._timeout = identity, trust, timeout
        self._pinned, self._own = trust.pin(peer), identity.certificate
        self._http, self._retired = self._connections(), list[httpx.AsyncClient]()

    def _connections(self) -> httpx.AsyncClient:
        """Return a client that accepts only this peer's certificate, though others may be trusted."""
        return httpx.AsyncClient(
            base_url=f"https://{self.address}",
            verify=tls_context(ssl.PROTOCOL_TLS_CLIENT, self._identity, self._trust, self.peer),
            trust_env=False,
            follow_redirects=False,
            headers={"accept-encoding": "identity"},
        )

    def _follow_trust(self) -> None:
        """Connect anew when another certificate of the peer is pinned than before; PeerRefused when none is."""
        pinned = self._trust.pin(self.peer)
        if pinned != self._pinned:
            self._retired.append(self._http)  # calls may be under way there
            self._pinned, self._http = pinned, self._connections()

    async def exchange(self, method: str, path: str, content: bytes | None, timeout: float | None) -> tuple[int, bytes]:
        """Send a request to the peer; return the HTTP status and content of its answer.

        `timeout` bounds the whole exchange: a peer that answers byte by byte is as late as one that is silent.
        """
        self._follow_trust()
        within = self._timeout if timeout is None else timeout
        request = self._http.build_request(
            method,
            path,
            content=content,
            headers={"content-type": "application/json"} if content is not None else None,
            timeout=httpx.Timeout(within, connect=min(within, _MOST_TO_CONNECT)),
            extensions={"sni_hostname": self.peer},  # the name in its certificate, whatever its address
        )
        try:
            async with asyncio.timeout(within):
                return await self._uncut(request)
        except httpx.ConnectError as error:
            raise self._not_connected(error) from None
        except (httpx.TimeoutException, TimeoutError):
            raise PeerUnreachable(
                self.peer, f"did not answer at {self.address} in time; is it frozen, or overloaded?"
            ) from None
        except httpx.TransportError as error:
            if _refused_certificate(error):
                raise self._not_connected(error) from None
            raise PeerUnreachable(
                self.peer,
                f"hung up at {self.address} before it answered; has it ended, or is our certificate "
                "not the one in its trust store?",
            ) from None

    async def close(self) -> None:
        """Close the connections."""
        for each in (self._http, *self._retired):
            await each.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _uncut(self, request: httpx.Request) -> tuple[int, bytes]:
        """Return the status and content of the answer.

        httpcore leaks a connection cancelled during the TLS handshake, so a cancelled call waits for it to finish.
        """
        connecting = _Connecting()
        request.extensions = {**request.extensions, "trace": connecting.trace}
        exchange = asyncio.create_task(self._exchange(request))
        try:
            return await asyncio.shield(exchange)
        except asyncio.CancelledError:
            await connecting.over()
            exchange.cancel()
            await asyncio.gather(exchange, return_exceptions=True)
            raise

    async def _exchange(self, request: httpx.Request) -> tuple[int, bytes]:
        response, data = await self._http.send(request, stream=True), bytearray()
        try:
            # As sent: a compressed answer is not decoded, and refused as JSON
            async for chunk in response.aiter_raw():
                data += chunk
                if len(data) > MOST_BYTES:
                    raise PeerBrokeProtocol(self.peer, f"answered more than {MOST_BYTES:,} bytes")
            return response.status_code, bytes(data)
        finally:
            await response.aclose()

    def _not_connected(self, error: Exception) -> PeerUnreachable | PeerRefused:
        if _refused_certificate(error):
            for whose, pem in (("its", self._pinned), ("our", self._own)):
                if (why := out_of_date(pem)) is not None:
                    return PeerRefused(self.peer, f"at {self.address}: {whose} certificate {why}; renew it")
            return PeerRefused(
                self.peer,
                f"at {self.address}: one side does not know the other's certificate; compare the fingerprints "
                "in both trust stores, and the certificates' dates",
            )
        return PeerUnreachable(self.peer, f"nobody answers at {self.address}; start it, or correct its address")


class _Connecting:
    """Track from httpcore's trace whether a connection is being made."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self._over.set()

    async def trace(self, name: str, _info: Any) -> None:
        """Record a step of httpcore's trace."""
        if name == "connection.connect_tcp.started":
            self._over.clear()
        elif name in _CONNECTED:
            self._over.set()

    async def over(self) -> None:
        """Wait until no connection is being made, for `_MOST_CONNECTING` seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MOST_CONNECTING):
                await self._over.wait()


def _refused_certificate(error: BaseException | None) -> bool:
    """Return whether a TLS error is anywhere in the chain of causes."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


# --- network ------------------------------------------------------------------------------------------------
# The transport between coordinator and nodes: TLS in production; in memory, within one process, in tests.


@dataclass(frozen=True)
class Network:
    """How to reach others and to be reached; each function takes the same arguments as its counterpart in `TLS`."""

    link: Callable[..., AbstractAsyncContextManager[ControlLink]]  # control calls to a peer
    serve: Callable[..., AbstractAsyncContextManager[str]]  # answers the control calls of peers
    listen: Callable[..., AbstractAsyncContextManager[Listener]]  # the channels of a session
    check_free: Callable[[str], None]  # that `serve` could listen at an address


TLS = Network(link=PeerHttp, serve=serve, listen=listen, check_free=check_free)


# --- answers ------------------------------------------------------------------------------------------------
# What both servers of `control.py` share: answers in JSON, problem documents (RFC 9457), and their audit.


def said(content: Any) -> Response:
    """Return a JSON answer."""
    return Response(msgspec.json.encode(content, order="deterministic"), media_type="application/json")


def problem(status: int, *problems: Problem | str) -> Response:
    """Return a problem document."""
    return Response(rendered(status, problems), status, media_type=MEDIA_TYPE)


def health_of(identity: Identity, clock: Clock) -> Health:
    """Report this process's identity and clock."""
    until = x509.load_pem_x509_certificate(identity.certificate).not_valid_after_utc
    return Health(identity.name, version("masquerade"), clock.now().timestamp(), int(until.timestamp()))


async def audited(
    notes: ControlNotes | None, sender: str, request: Request, answer: Callable[[bytes], Awaitable[Response]]
) -> Response:
    """Read a message and answer it; raise NotNoted when either cannot be entered in the audit log."""
    method, path = request.method, request.scope["path"]
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise ParameterError(f"a message has at most {MOST_BYTES:,} bytes")
    if notes is not None:
        await notes.note("received", sender, method, path, bytes(body))
    response = await answer(bytes(body))
    if notes is not None:
        await notes.note("sent", sender, method, path, bytes(response.body), response.status_code)
    return response


async def no_route(request: Request, error: Exception) -> Response:
    """Answer unknown routes and methods with the usual problem document."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.scope['path']}"
    told = f"{what}: there is no such address" if error.status_code == 404 else f"{what}: not a method of it"
    answer = problem(error.status_code, told)
    answer.headers.update(error.headers or {})  # the allowed methods
    return answer
