"""HTTP between nodes, with certificates on both sides: who may connect, and who it is that calls.

Each side trusts exactly the certificates in its own trust store. Nobody else gets as far as sending a request, and a
server tells its application the caller's name:

    async with serve(app, "127.0.0.1:7001", identity, trust) as address:   # any ASGI application
        ...                                                                # caller(scope) is the peer's name

    async with PeerHttp("bank", "127.0.0.1:7001", identity, trust) as bank:
        health = await bank.call("GET", "/v1/health", answer=Health)

What the other end answers is checked before it is used. Failures are PeerErrors that name it; an error that it tells
(RFC 9457) comes back as the exception that it was there, as far as it concerns who asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from masquerade.errors import (
    Conflict,
    NotAllowed,
    NotFound,
    ParameterError,
    PeerBrokeProtocol,
    PeerRefused,
    PeerUnreachable,
)
from masquerade.net.channel import Node
from masquerade.net.identity import Identity
from masquerade.net.trust import TrustStore
from masquerade.service.control import Problem

MOST_BYTES = 4 << 20  # of a request or an answer; tables do not travel this way
_MOST_CONNECTING = 2.0  # seconds that a cancelled call waits for a connection that is being made
_CONNECTED = ("connection.connect_tcp.failed", "connection.start_tls.failed", "connection.start_tls.complete")
_CALLER = "masquerade.caller"
_TOLD = {401: NotAllowed, 403: NotAllowed, 404: NotFound, 409: Conflict, 422: ParameterError}


def caller(scope: MutableMapping[str, Any]) -> str:
    """The name of the peer that sent a request."""
    name: str = scope[_CALLER]
    return name


# --- the server's side ---


@asynccontextmanager
async def serve(app: Any, address: str, identity: Identity, trust: TrustStore) -> AsyncIterator[str]:
    """Serve an ASGI application to the peers of a trust store; the address with its real port."""
    if not trust.names:
        raise ParameterError("the trust store is empty: put one <peer>.pem a peer into it")
    identity.check_dates()
    host, _, port = Node(identity.name, address).address.rpartition(":")
    listening = _bound(host, int(port), address)
    protocol = _knowing(trust)
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=64 * 1024,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=75,  # callers let go of an idle connection first, or a call meets one that closes
    )
    config.load()
    config.ssl = _context(ssl.PROTOCOL_TLS_SERVER, identity, trust, *trust.names)
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        while not server.started:
            if task.done():
                task.result()
                raise ParameterError(f"{address}: cannot listen here")
            await asyncio.sleep(0.01)
        yield f"{host}:{listening.getsockname()[1]}"
    finally:
        protocol.is_ending = True
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        listening.close()
        for left in list(server.server_state.connections):
            left.transport.abort()  # uvicorn gives up on it, and leaves it open


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


class _Knowing(H11Protocol):
    """A connection; while its server ends, whoever comes is turned away, because uvicorn would wait for it."""

    is_ending: bool


def _knowing(trust: TrustStore) -> type[_Knowing]:
    """HTTP connections whose application is told who called, by the certificate that was shown."""

    class Knowing(_Knowing):
        is_ending = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if self.is_ending:
                transport.abort()
                return
            shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            name = trust.owner(shown)
            if name is None:  # signed by a pinned certificate, and not one itself
                transport.abort()
                return
            inner = self.app

            async def named(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
                scope[_CALLER] = name
                await inner(scope, receive, send)

            self.app = named

        def shutdown(self) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()  # a peer that keeps a connection does not answer TLS's goodbye
            else:
                super().shutdown()

    return Knowing


def _bound(host: str, port: int, address: str) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen()  # now, not when the server starts: until then the port could be bound once more
        except BaseException:
            listening.close()
            raise
    except OSError:
        raise ParameterError(
            f"{address}: cannot listen here; is the port taken, or the address another machine's?"
        ) from None
    return listening


# --- the client's side ---


class PeerHttp:
    """Calls to one peer, over connections that are kept."""

    def __init__(
        self, peer: str, address: str, identity: Identity, trust: TrustStore, *, timeout: float = 30.0
    ) -> None:
        self.peer, self.address = peer, Node(peer, address).address
        # Only this peer's certificate will do here, whoever else is trusted.
        context = _context(ssl.PROTOCOL_TLS_CLIENT, identity, trust, peer)
        self._http = httpx.AsyncClient(
            base_url=f"https://{self.address}",
            verify=context,
            timeout=_within(timeout),
            trust_env=False,
            follow_redirects=False,
        )

    async def call(
        self, method: str, path: str, said: Any = None, *, answer: Any = None, timeout: float | None = None
    ) -> Any:
        """The peer's answer, as one of the kinds in `answer`; None when nothing is awaited."""
        content = msgspec.json.encode(said) if said is not None else None
        request = self._http.build_request(
            method,
            path,
            content=content,
            headers={"content-type": "application/json"} if content is not None else None,
            extensions={"sni_hostname": self.peer}  # the name in its certificate, wherever it is
            | ({"timeout": _within(timeout).as_dict()} if timeout is not None else {}),
        )
        try:
            status, data = await self._uncut(request)
        except httpx.ConnectError as error:
            raise self._not_connected(error) from None
        except httpx.TimeoutException:
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
        if status >= 400:
            raise self._told(status, data)
        if answer is None:
            return None
        try:
            return msgspec.json.decode(data, type=answer)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise PeerBrokeProtocol(self.peer, f"answered {method} {path} with {error}") from None

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _uncut(self, request: httpx.Request) -> tuple[int, bytes]:
        """Status and content of the answer.

        httpcore leaves a connection open that is cut off while TLS begins: whoever is cancelled then waits for it.
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
        response = await self._http.send(request, stream=True)
        try:
            return response.status_code, await self._read(response)
        finally:
            await response.aclose()

    async def _read(self, response: httpx.Response) -> bytes:
        data = bytearray()
        async for chunk in response.aiter_bytes():
            data += chunk
            if len(data) > MOST_BYTES:
                raise PeerBrokeProtocol(self.peer, f"answered more than {MOST_BYTES:,} bytes")
        return bytes(data)

    def _not_connected(self, error: Exception) -> PeerUnreachable | PeerRefused:
        if _refused_certificate(error):
            return PeerRefused(
                self.peer,
                f"at {self.address}: one side does not know the other's certificate; compare the fingerprints "
                "in both trust stores, and the certificates' dates",
            )
        return PeerUnreachable(
            self.peer, f"nobody answers at {self.address}; start it, or correct its address"
        )

    def _told(self, status: int, data: bytes) -> Exception:
        try:
            problem = msgspec.json.decode(data, type=Problem)
            lines = problem.problems or (problem.detail or problem.title,)
        except msgspec.MsgspecError:
            lines = (f"answered with status {status}",)
        if status in _TOLD:
            return _TOLD[status](*(f"party {self.peer}: {line}" for line in lines))
        return PeerBrokeProtocol(self.peer, f"failed: {'; '.join(lines)}")


class _Connecting:
    """Whether a connection is being made, as httpcore tells it."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self._over.set()

    async def trace(self, name: str, _info: Any) -> None:
        """Take in what httpcore tells."""
        if name == "connection.connect_tcp.started":
            self._over.clear()
        elif name in _CONNECTED:
            self._over.set()

    async def over(self) -> None:
        """Wait until none is, though not for ever."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MOST_CONNECTING):
                await self._over.wait()


def _within(seconds: float) -> httpx.Timeout:
    """So long for an answer, and less for a connection: a peer that is there makes one at once."""
    return httpx.Timeout(seconds, connect=min(seconds, 10.0))


def _refused_certificate(error: BaseException | None) -> bool:
    """Whether TLS is what went wrong, however deep it is told."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


# --- both ---


def _context(kind: int, identity: Identity, trust: TrustStore, *peers: str) -> ssl.SSLContext:
    """TLS 1.3 with our certificate, in which exactly the pinned certificates of these peers will do."""
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= (
        ssl.VERIFY_X509_PARTIAL_CHAIN
    )  # a pinned certificate is an anchor, whoever signed it
    context.load_verify_locations(cadata="".join(trust.pin(peer).decode() for peer in peers))
    _load_own(context, identity)
    return context


def _load_own(context: ssl.SSLContext, identity: Identity) -> None:
    """Python's ssl takes keys from files alone: one in memory, which no other user can open, and which has no name."""
    descriptor = os.memfd_create("identity", os.MFD_CLOEXEC) if hasattr(os, "memfd_create") else -1
    if descriptor < 0:
        with tempfile.NamedTemporaryFile() as file:
            file.write(identity.certificate + identity.key)
            file.flush()
            context.load_cert_chain(file.name)
        return
    with os.fdopen(descriptor, "wb") as memory:
        memory.write(identity.certificate + identity.key)
        memory.flush()
        context.load_cert_chain(f"/proc/self/fd/{memory.fileno()}")
