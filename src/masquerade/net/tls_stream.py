"""Frames over TLS: one connection per pair of nodes.

    frame       its length (4 bytes), then so many bytes
    connection  the accepting end's welcome as the first frame, then frames both ways

In TLS 1.3 a client has shaken hands before the server has looked at its certificate: the welcome says that it is taken.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
import struct
from collections import Counter, deque
from contextlib import suppress
from functools import partial

from masquerade.net.identity import Identity, TrustStore
from masquerade.net.stream_channel import MOST_FRAME, Handler, Server, StreamBroke

# --- contexts -----------------------------------------------------------------------------------------------
# The TLS of a node: version 1.3, our certificate shown, and none accepted but those that are pinned.


def accepting(identity: Identity, pins: bytes) -> ssl.SSLContext:
    """Return the side of a server that takes clients with one of these certificates (PEM) and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # nothing is resumed
    return _pinning(context, identity, pins)


def dialling(identity: Identity, pin: bytes) -> ssl.SSLContext:
    """Return the side of a client that talks to the holder of this certificate (PEM) and to nobody else."""
    return _pinning(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), identity, pin)


def looking(identity: Identity) -> ssl.SSLContext:
    """Return the side of a client that shows who it is, and looks at whatever certificate it gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return _showing(context, identity)


def _pinning(context: ssl.SSLContext, identity: Identity, pins: bytes) -> ssl.SSLContext:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a pinned certificate needs no authority above it
    context.load_verify_locations(cadata=pins.decode())
    return _showing(context, identity)


def _showing(context: ssl.SSLContext, identity: Identity) -> ssl.SSLContext:
    """Load our certificate, through pipes, so that the key never is on disk."""
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    ends = [_descriptor_of(part) for part in (identity.certificate, identity.key)]
    try:
        context.load_cert_chain(*(f"/dev/fd/{end}" for end in ends))
    finally:
        for end in ends:
            os.close(end)
    return context


def _descriptor_of(data: bytes) -> int:
    """Return a descriptor from which these few bytes can be read."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
    finally:
        os.close(writing)
    return reading


# --- streams ------------------------------------------------------------------------------------------------

HANDSHAKE = 5.0  # seconds; whoever connects and says nothing does not stay
MOST_CONNECTIONS = 256  # far more than a session has peers

_WELCOME = b"masquerade"
_LENGTH = struct.Struct(">I")
_MOST = 2 * MOST_FRAME  # the check of frames comes first, and names the peer
_SMALL = 1 << 14  # bytes of a frame that is copied rather than encrypted apart from its length
_MOST_UNREAD = 4 * MOST_FRAME  # bytes; the peer waits while nobody reads
_FAREWELL = 0.5  # seconds for what was said last to be on its way
_BACKLOG = 128


class _Stream(asyncio.Protocol):
    """One end of a connection."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._frames: deque[bytes] = deque()
        self._unread = 0
        self._arrival: asyncio.Future[None] | None = None  # that a reader waits for
        self._room: asyncio.Event = asyncio.Event()  # to write more
        self._room.set()
        self._is_over = False
        self.ended = asyncio.Event()

    # --- what asyncio tells ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, whose handshake is over; break it if nobody waits for it any more."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._is_over:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived; break the stream at a frame that is too long."""
        self._received += data
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            end = _LENGTH.size + length
            if length > _MOST:
                self._stop()
                return
            if len(self._received) < end:
                break
            self._frames.append(bytes(self._received[_LENGTH.size : end]))
            del self._received[:end]
            self._unread += end
        if self._frames:
            self._wake()
        if self._unread > _MOST_UNREAD and self._transport is not None:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Let writers wait."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._room.set()

    def connection_lost(self, _error: Exception | None) -> None:
        """Tell readers and writers that it is over."""
        self._over()
        self.ended.set()

    # --- a stream of frames ---

    async def read(self) -> bytes | None:
        """Return the next frame; StreamBroke when there is none to come."""
        while not self._frames:
            if self._is_over:
                raise StreamBroke
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        frame = self._frames.popleft()
        before, self._unread = self._unread, self._unread - len(frame) - _LENGTH.size
        if before > _MOST_UNREAD >= self._unread and self._transport is not None:
            self._transport.resume_reading()
        return frame

    async def write(self, frame: bytes) -> None:
        """Send a frame; StreamBroke when the connection is gone."""
        if self._is_over or self._transport is None:
            raise StreamBroke
        self.write_at_once(frame)
        if not self._room.is_set():
            await self._room.wait()
            if self._is_over:
                raise StreamBroke

    @property
    def has_room(self) -> bool:
        """Whether a frame can be sent without waiting."""
        return self._room.is_set() and not self._is_over and self._transport is not None

    def write_at_once(self, frame: bytes) -> None:
        """Send a frame where there is room."""
        assert self._transport is not None
        length = _LENGTH.pack(len(frame))
        if len(frame) < _SMALL:
            self._transport.write(length + frame)
        else:
            self._transport.writelines((length, frame))

    async def end(self) -> None:
        """Disconnect at once; what was written is sent if the peer takes it."""
        self._over()
        if self._transport is None or self.ended.is_set():
            return
        self._transport.close()
        try:
            async with asyncio.timeout(_FAREWELL):
                await self.ended.wait()
        except TimeoutError:
            pass
        finally:
            self._transport.abort()

    def _stop(self) -> None:
        """Break the connection."""
        self._over()
        if self._transport is not None:
            self._transport.abort()

    def _over(self) -> None:
        self._is_over = True
        self._room.set()
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)


class ClientStream(_Stream):
    """The dialling end of a stream. It connects at once; reading and writing wait for it."""

    def __init__(self, address: str, identity: Identity, peer: str, pin: bytes) -> None:
        super().__init__()
        self._connecting = asyncio.create_task(self._connect(address, dialling(identity, pin), peer))

    async def read(self) -> bytes | None:
        """Return the next frame."""
        await self._connected()
        return await super().read()

    async def write(self, frame: bytes) -> None:
        """Send a frame; StreamBroke when the connection is gone."""
        await self._connected()
        await super().write(frame)

    async def end(self) -> None:
        """Disconnect at once, or no longer try to connect."""
        self._over()
        try:
            if not self._connecting.done():
                self._connecting.cancel()
                await asyncio.gather(self._connecting, return_exceptions=True)
        finally:
            await super().end()

    async def _connect(self, address: str, context: ssl.SSLContext, peer: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: self,
                host.strip("[]"),
                int(port),
                ssl=context,
                server_hostname=peer,
                ssl_handshake_timeout=HANDSHAKE,
                ssl_shutdown_timeout=_FAREWELL,
            )
            if await super().read() != _WELCOME:
                self._stop()
        except (OSError, StreamBroke):  # an ssl.SSLError is an OSError
            self._stop()

    async def _connected(self) -> None:
        if not self._connecting.done():
            await asyncio.wait({self._connecting})


class ServerStream(_Stream):
    """The accepting end of a stream."""

    def __init__(self, connection: socket.socket, network: str) -> None:
        super().__init__()
        self.connection, self.network = connection, network
        self._is_heard = False

    @property
    def stage(self) -> int:
        """How far it has come: 0 in its handshake, 1 before its first frame was read, 2 afterwards."""
        return 0 if self._transport is None else 2 if self._is_heard else 1

    async def read(self) -> bytes | None:
        """Return the next frame."""
        frame = await super().read()
        self._is_heard = True
        return frame

    @property
    def certificate(self) -> bytes:
        """The certificate (DER) that the dialling node presented and whose key it has proved to hold."""
        assert self._transport is not None
        shown: bytes = self._transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown

    @property
    def caller(self) -> str:
        """The address of the dialling node, `host:port`."""
        assert self._transport is not None
        host, port, *_ = self._transport.get_extra_info("peername") or ("unknown", 0)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class TlsServer:
    """Accepts streams at some sockets, and lets `talk` handle each. Once it has stopped, no socket is open.

    When all places are taken, a newcomer gets that of one which has said nothing: the oldest of the address that has
    most of them in one stage. So whoever has no certificate, or no invitation, keeps nobody out, however often it
    connects.
    """

    def __init__(self, sockets: list[socket.socket], context: ssl.SSLContext, talk: Handler) -> None:
        self._sockets, self._context, self._talk = sockets, context, talk
        self._open: dict[ServerStream, asyncio.Task[None]] = {}  # the oldest first
        self._waiting: set[socket.socket] = set()  # accepted, and their tasks have not begun
        self._tasks = {asyncio.create_task(self._accept(each)) for each in sockets}

    async def stop(self, _grace: float | None = None) -> None:
        """Accept no more streams, and end those that are open."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:  # even if the session is cancelled meanwhile
            for each in (*self._sockets, *self._waiting):
                each.close()

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                await _readable(listening)
                connection, (host, *_) = listening.accept()  # nothing can be cancelled between this and the task
            except OSError as error:  # the caller is gone already, or we have too many files open
                if not isinstance(error, BlockingIOError):
                    await asyncio.sleep(0.1)
                continue
            if len(self._open) >= MOST_CONNECTIONS and not self._make_room():
                connection.close()
                continue
            stream = ServerStream(connection, network_of(host))
            self._waiting.add(connection)
            task = self._open[stream] = asyncio.create_task(self._serve(stream))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, stream))

    def _make_room(self) -> bool:
        """Break a connection off that has said nothing; return False when there is none."""
        quiet = [(each.stage, each.network, each) for each in self._open if each.stage < 2]
        if not quiet:
            return False
        crowds = Counter((stage, network) for stage, network, _ in quiet)
        *_, oldest = max(quiet, key=lambda each: (crowds[each[:2]], -each[0]))  # the first of them
        self._open.pop(oldest).cancel()
        return True

    def _ended(self, stream: ServerStream, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._open.pop(stream, None)
        if stream.connection in self._waiting:  # broken off before its task began
            self._waiting.remove(stream.connection)
            stream.connection.close()

    async def _serve(self, stream: ServerStream) -> None:
        connection = stream.connection
        self._waiting.remove(connection)
        try:
            # asyncio does it of its own accord where a socket names its protocol, which accepted ones do not. Without
            # it, the second of two messages in a row waits for the peer's acknowledgement of the first: 40 ms.
            with suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(OSError):  # no TLS, or a certificate that is not pinned: the caller finds out by itself
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: stream,
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=HANDSHAKE,
                    ssl_shutdown_timeout=_FAREWELL,
                )
            if stream.has_room:  # otherwise the caller is gone already
                stream.write_at_once(_WELCOME)
                await self._talk(stream)
        finally:
            await stream.end()


def network_of(host: str | None) -> str:
    """Return who counts as one address: in IPv6 the network, since one host there can use many addresses."""
    try:
        found = ipaddress.ip_address(host or "")
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return str(found)


async def _readable(listening: socket.socket) -> None:
    """Wait until somebody connects."""
    loop, somebody = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listening, somebody.set)
    try:
        await somebody.wait()
    finally:
        loop.remove_reader(listening)


async def serve(address: str, identity: Identity, trust: TrustStore, talk: Handler) -> tuple[Server, int]:
    """Start a server; return it and its port. OSError when the address is not available."""
    host, _, wanted = address.rpartition(":")
    loop, port = asyncio.get_running_loop(), int(wanted)
    found = await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, *_, place in dict.fromkeys(found):
            listening = socket.create_server((place[0], port or int(place[1])), family=family, backlog=_BACKLOG)
            listening.setblocking(False)
            sockets.append(listening)
            port = listening.getsockname()[1]
    except OSError:
        for each in sockets:
            each.close()
        raise
    pins = b"".join(trust.pin(name) for name in trust.names)
    return TlsServer(sockets, accepting(identity, pins), talk), port
