"""A server for peers only, with certificates on both sides: who may connect, and who is calling.

Each side trusts exactly the certificates in its own trust store. Nobody else gets as far as sending a request, and the
server passes the caller's name to its application:

    async with serve(app, "127.0.0.1:7001", identity, trust) as address:   # any ASGI application
        ...                                                                # caller(scope) is the peer's name

A store that changes counts at once: for new connections, and for the next request on those that are open.

`peer_http` is the other end.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import structlog
import uvicorn

from masquerade.errors import ParameterError
from masquerade.net.channel import Node
from masquerade.net.identity import Identity
from masquerade.net.trust import TrustStore
from masquerade.service.connections import ConnectionLimits, Connections, PunctualHttp
from masquerade.service.listening import listening_at, served

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
    host = Node(identity.name, address).address.rpartition(":")[0]
    listening = listening_at(address, limits)
    protocol = _knowing(trust, listening.books)
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
                protocol.is_ending = True
    finally:
        listening.close()


class _Knowing(PunctualHttp):
    """A connection that turns callers away while its server shuts down, because uvicorn would wait for them."""

    is_ending: bool


def _knowing(trust: TrustStore, books: Connections) -> type[_Knowing]:
    """Return an HTTP connection class that passes the caller's name, by its certificate, to the application."""

    class Knowing(_Knowing):
        is_ending = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if self.is_ending:
                transport.abort()
                return
            shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            name = trust.owner(shown)
            if name is None:  # signed by a pinned certificate, but not pinned itself
                transport.abort()
                return
            inner = self.app

            async def named(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
                if trust.owner(shown) != name:  # taken out of the store since it connected
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

    Knowing.books = books
    return Knowing


def tls_context(kind: int, identity: Identity, trust: TrustStore, *peers: str) -> ssl.SSLContext:
    """Return a TLS 1.3 context with our certificate that accepts exactly the pinned certificates of these peers."""
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= (
        ssl.VERIFY_X509_PARTIAL_CHAIN
    )  # a pinned certificate is an anchor, whatever its issuer
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
