"""Serve HTTP on a port that is reserved from the start, without taking over signal handling."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

from masquerade.errors import ParameterError
from masquerade.service.connections import ConnectionLimits, Connections, ListeningSocket


def listening_at(address: str, limits: ConnectionLimits, *, key: str = "") -> ListeningSocket:
    """Return a socket that listens at `host:port`; `key` names the setting in error messages."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM
        )[0]
        listening = ListeningSocket(family, kind, protocol)
        listening.books = Connections(limits)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
            listening.listen()  # now, not when the server starts: until then the port could be bound once more
        except BaseException:
            listening.close()
            raise
    except OSError:
        where = f"{key}: {address}" if key else address
        text = "cannot listen here; is the port taken, or the address another machine's?"
        raise ParameterError.about(where, text) from None
    return listening


def check_free(address: str) -> None:
    """Raise ParameterError unless one could listen at `host:port` now: to be known before anything is written."""
    listening_at(address, ConnectionLimits()).close()


@contextlib.asynccontextmanager
async def served(config: uvicorn.Config, listening: socket.socket) -> AsyncIterator[None]:
    """Serve on a socket while the block runs; then stop within the configuration's graceful-shutdown time."""
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        while not server.started:
            if task.done():
                task.result()
                raise ParameterError("the server did not start")
            await asyncio.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        for left in list(server.server_state.connections):
            left.transport.abort()  # uvicorn gives up on it, and leaves it open


class _Server(uvicorn.Server):
    """A server that leaves signals to the process that runs it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Install no signal handlers."""
        yield
