"""Frames over gRPC: one bidirectional stream per pair of nodes, raw bytes, TLS with pinned certificates.

This and `connect.py` are the only modules that depend on gRPC.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

# Read when the library is loaded: its log would otherwise mix with our own output on standard error.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
import grpc.aio

from masquerade.net.framing import MOST_FRAME
from masquerade.net.identity import Identity
from masquerade.net.stream_channel import StreamBroke
from masquerade.net.transport import Handler, Server
from masquerade.net.trust import TrustStore

logging.getLogger("grpc").addHandler(
    logging.NullHandler()
)  # visible only to applications that configure logging

_SERVICE = "masquerade.Party"
_METHOD = "Talk"

_OPTIONS: list[tuple[str, Any]] = [
    # Twice the largest frame: our own check comes first and names the peer.
    ("grpc.max_receive_message_length", 2 * MOST_FRAME),
    ("grpc.max_send_message_length", 2 * MOST_FRAME),
    ("grpc.enable_http_proxy", 0),  # peers are reached directly or not at all
    ("grpc.enable_retries", 0),  # a repeated message would be a replayed one; we count our own attempts
    ("grpc.use_local_subchannel_pool", 1),  # so that an attempt does not inherit another's failure
    ("grpc.so_reuseport", 0),  # two processes on one port would split the peers at random
]

_SERVER_OPTIONS: list[tuple[str, Any]] = [
    *_OPTIONS,
    ("grpc.server_handshake_timeout_ms", 5_000),  # whoever connects and says nothing does not stay
    ("grpc.max_allowed_incoming_connections", 256),  # far more than a session has peers
]

# A server that stops during a read also raises BaseError.
_GONE = (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError)


class ClientStream:
    """The dialling end of a stream."""

    def __init__(self, address: str, identity: Identity, peer: str, pin: bytes) -> None:
        credentials = grpc.ssl_channel_credentials(pin, identity.key, identity.certificate)
        options = [*_OPTIONS, ("grpc.ssl_target_name_override", peer)]
        self._channel = grpc.aio.secure_channel(address, credentials, options=options)
        self._call = self._channel.stream_stream(f"/{_SERVICE}/{_METHOD}")()

    async def read(self) -> bytes | None:
        """Return the next frame; None when the peer ended the stream."""
        try:
            frame = await self._call.read()
        except _GONE:
            raise StreamBroke from None
        except asyncio.CancelledError:
            raise self._broken_or_cancelled() from None
        return None if frame is grpc.aio.EOF else frame

    async def write(self, frame: bytes) -> None:
        """Send a frame; StreamBroke when the connection is gone."""
        try:
            await self._call.write(frame)
        except _GONE:
            raise StreamBroke from None
        except asyncio.CancelledError:
            raise self._broken_or_cancelled() from None

    async def end(self) -> None:
        """Cancel the call and close the connection at once."""
        self._call.cancel()
        await self._channel.close()

    def _broken_or_cancelled(self) -> BaseException:
        """Return the error for a CancelledError, which gRPC also raises when the call, not our task, was cancelled."""
        task = asyncio.current_task()
        return asyncio.CancelledError() if task is not None and task.cancelling() else StreamBroke()


class ServerStream:
    """The accepting end of a stream."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.ended = asyncio.Event()

    @property
    def certificate(self) -> bytes:
        """The certificate (PEM) that the dialling node presented and whose key it has proved to hold."""
        (pem,) = self._context.auth_context()["x509_pem_cert"]
        return bytes(pem)

    @property
    def caller(self) -> str:
        """The address of the dialling node, `host:port`."""
        return unquote(self._context.peer()).partition(":")[2]

    async def read(self) -> bytes | None:
        """Return the next frame; None when the peer ended the stream."""
        return await self._unless_ended(self._context.read)

    async def write(self, frame: bytes) -> None:
        """Send a frame; StreamBroke when the connection is gone."""
        await self._unless_ended(self._context.write, frame)

    async def end(self) -> None:
        """Disconnect by letting the handler return."""
        self.ended.set()

    async def _unless_ended(self, step: Callable[..., Awaitable[Any]], *words: bytes) -> bytes | None:
        """Run a read or write until the stream ends: gRPC alone would wait forever for a peer that does not read."""
        if self.ended.is_set():
            raise StreamBroke
        working = asyncio.ensure_future(step(*words))
        ending = asyncio.ensure_future(self.ended.wait())
        try:
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise StreamBroke
            result = working.result()
        except _GONE:
            raise StreamBroke from None
        finally:
            ending.cancel()
            working.cancel()
        return None if result is grpc.aio.EOF else result


async def serve(address: str, identity: Identity, trust: TrustStore, talk: Handler) -> tuple[Server, int]:
    """Start a server; return it and its port. OSError when the address is not available."""

    async def handle(_requests: Any, context: Any) -> None:
        stream = ServerStream(context)
        try:
            await talk(stream)
        finally:
            stream.ended.set()

    server = grpc.aio.server(options=_SERVER_OPTIONS)
    methods = {_METHOD: grpc.stream_stream_rpc_method_handler(handle)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, methods),))
    roots = b"".join(trust.pin(name) for name in trust.names)
    credentials = grpc.ssl_server_credentials(
        [(identity.key, identity.certificate)], roots, require_client_auth=True
    )
    try:
        port = server.add_secure_port(address, credentials)
    except RuntimeError:
        raise OSError from None
    await server.start()
    return server, port
