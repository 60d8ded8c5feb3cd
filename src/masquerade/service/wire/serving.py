"""Who is connected to a server: how many at most, and how long a client may take to say what it wants.

A client has `request_within` seconds for the head of a request, the TLS handshake before its first one included, and
as long again for its body. When an address has as many connections as it may, or all have together, a newcomer takes
the place of the one that has kept us waiting longest; those that never sent a request go first, and those that are
being answered stay. So whoever connects and says nothing, or speaks slowly, keeps nobody out.

    listening = listening_at(address, limits)              # counts what it accepts
    config = uvicorn.Config(app, http=punctual(listening.books))
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from masquerade.errors import ParameterError
from masquerade.net import network_of
from masquerade.service.logs import log

_INTERNET = (socket.AF_INET, socket.AF_INET6)
_TELL_EVERY = 60.0  # seconds between two lines of the log about a limit


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections there may be, of everybody and of one address, and the seconds for a head or a body."""

    connections: int = 500
    per_address: int = 100
    request_within: float = 20.0


class ConnectionStage(IntEnum):
    """What a connection waits for. The lowest ones make room first; one that is being answered never does."""

    FIRST_HEAD = 0
    HEAD = 1
    BODY = 2
    NEXT = 3  # between two requests
    CLIENT = 4  # a WebSocket, or a client that does not read its answer
    ANSWER = 5


_TIMED = (ConnectionStage.FIRST_HEAD, ConnectionStage.HEAD, ConnectionStage.BODY)


class Connection(socket.socket):
    """An accepted socket, which leaves the books when it is closed."""

    books: Connections
    network: str
    number: int  # its file descriptor, also when it is closed
    stage = ConnectionStage.ANSWER
    since = 0.0
    http: PunctualHttp | None = None
    timer: asyncio.TimerHandle | None = None

    def waits_for(self, stage: ConnectionStage) -> None:
        """Note what it waits for; the clock starts anew when that changes."""
        if stage is not self.stage and self.fileno() >= 0:
            self.stage, self.since = stage, time.monotonic()
            self._start_clock()

    def drop(self) -> None:
        """Break it off, wherever it stands."""
        self._stop_clock()
        self.books.forget(self)
        if self.http is not None:
            self.http.transport.abort()
        else:  # in the TLS handshake, which finds it ended
            with suppress(OSError):
                self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket."""
        self._stop_clock()
        self.books.forget(self)
        super().close()

    def _start_clock(self) -> None:
        self._stop_clock()
        if self.stage in _TIMED:
            within = self.books.limits.request_within
            self.timer = asyncio.get_running_loop().call_later(within, self._time_is_up)

    def _time_is_up(self) -> None:
        if self.http is not None and self.http.flow.read_paused:
            self._start_clock()  # the application takes its time, not the client
        else:
            self.drop()

    def _stop_clock(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Connections:
    """The open connections of one listener."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: dict[int, Connection] = {}  # by file descriptor
        self._of: dict[str, set[Connection]] = defaultdict(set)  # by address
        self._told = float("-inf")

    def admit(self, connection: Connection) -> bool:
        """Take a new connection in, making room for it; return False when there is none."""
        limits, there = self.limits, self._of.get(connection.network, set())
        if len(there) >= limits.per_address and not self._make_room(there):
            return False
        if len(self._open) >= limits.connections and not self._make_room(self._open.values()):
            return False
        self._open[connection.number] = connection
        self._of[connection.network].add(connection)
        return True

    def at(self, transport: asyncio.Transport) -> Connection | None:
        """Return the connection under a transport; None when it was broken off already."""
        return self._open.get(transport.get_extra_info("socket").fileno())

    def forget(self, connection: Connection) -> None:
        """Strike a connection off the books."""
        there = self._of.get(connection.network)
        if there is None or connection not in there:
            return
        there.discard(connection)
        if not there:
            del self._of[connection.network]
        del self._open[connection.number]

    def _make_room(self, among: Iterable[Connection]) -> bool:
        if time.monotonic() - self._told > _TELL_EVERY:
            self._told = time.monotonic()
            log().warning("as many connections as allowed", limits=str(self.limits), open=len(self._open))
        oldest = min(among, key=lambda each: (each.stage, each.since))
        if oldest.stage is ConnectionStage.ANSWER:
            return False
        oldest.drop()
        return True


class ListeningSocket(socket.socket):
    """A listening socket that keeps to its limits."""

    books: Connections

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection that there is room for."""
        while True:
            accepted, address = super().accept()
            connection = Connection(fileno=accepted.detach())
            connection.books, connection.number = self.books, connection.fileno()
            connection.network = network_of(address[0] if self.family in _INTERNET else None)
            connection.waits_for(ConnectionStage.FIRST_HEAD)
            if self.books.admit(connection):
                return connection, address
            connection.close()


class PunctualHttp(H11Protocol):
    """An HTTP/1.1 connection that notes what it waits for."""

    books: Connections
    connection: Connection | None = None
    upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Find the connection on the books."""
        super().connection_made(transport)
        self.connection = self.books.at(transport)
        if self.connection is None:
            transport.abort()
        else:
            self.connection.http = self

    def data_received(self, data: bytes) -> None:
        """Take in what the client sent."""
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        if self.connection is not None:
            self.connection.waits_for(ConnectionStage.CLIENT)

    def resume_writing(self) -> None:
        """The client reads on."""
        super().resume_writing()
        self._note()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the connection over to a WebSocket."""
        self.upgraded = True
        if self.connection is not None:
            self.connection.waits_for(ConnectionStage.CLIENT)
        super().handle_websocket_upgrade(event)

    def _note(self) -> None:
        if self.connection is not None and not self.upgraded:
            self.connection.waits_for(self._stage(self.connection.stage))

    def _stage(self, before: ConnectionStage) -> ConnectionStage:
        their_state = self.conn.their_state
        if their_state is h11.SEND_BODY:
            return ConnectionStage.BODY
        if their_state is not h11.IDLE:
            return ConnectionStage.ANSWER
        if before is ConnectionStage.FIRST_HEAD:
            return before
        return ConnectionStage.HEAD if self.conn.trailing_data[0] else ConnectionStage.NEXT


def punctual(books: Connections) -> type[PunctualHttp]:
    """Return the class of HTTP connections that are on these books."""

    class Punctual(PunctualHttp):
        pass

    Punctual.books = books
    return Punctual


# --- listening ----------------------------------------------------------------------------------------------
# Serve HTTP on a port that is reserved from the start, without taking over signal handling.


def listening_at(address: str, limits: ConnectionLimits, *, key: str = "") -> ListeningSocket:
    """Return a socket that listens at `host:port`; `key` names the setting in error messages."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
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
