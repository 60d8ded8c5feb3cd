"""A channel over a stream of frames: numbering, pulses, silence, leave messages. Independent of TLS.

Two tasks serve a channel: one reads frames as they come, so that peers that send to each other at the same time never
deadlock; one keeps time. They notice failures whether or not the channel is in use.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import msgspec

from masquerade.errors import ParameterError, PeerBrokeProtocol, PeerError, PeerUnreachable
from masquerade.forms import msgpack_decoder
from masquerade.net.channel import DONE, Agreement, LeaveMessage, PartyAddress, Timings, blame

# --- framing ------------------------------------------------------------------------------------------------
# Encode messages as numbered frames of bounded size, in one canonical form. No I/O.
#
#     frame      after the kind (1 byte) and the number (8 bytes; counts from 0, separately in each direction)
#     first      the whole message's length (8 bytes), then its first CHUNK bytes
#     more       the next CHUNK bytes; the last frame of a message has the remainder
#     pulse      empty: "I am alive"
#     leave      why the sender leaves (channel.py); afterwards it sends nothing but `heard`
#     heard      empty: "I have read your leave and everything before it"
#
# Chunk sizes are fixed, so that an announced length followed by many tiny pieces cannot exhaust memory. A
# lost, repeated, misordered or malformed frame raises `FrameError`.

CHUNK = 512 * 1024
MOST_FRAME = 1024 * 1024
"""No frame is larger than this."""

_HEAD = struct.Struct(">cQ")
_LENGTH = struct.Struct(">Q")
_FIRST, _MORE, _PULSE, _LEAVE, _HEARD = b"M", b"C", b"P", b"B", b"H"
_MOST_LEAVE = 256


class FrameError(ValueError):
    """A frame that the protocol does not allow; the error text reveals none of its content."""


class Sign(Enum):
    """A received frame without content."""

    PULSE = "pulse"
    HEARD = "heard"


@dataclass(frozen=True)
class Arrived:
    """A complete message and its size on the wire, including framing."""

    data: bytes
    wire_bytes: int


@dataclass
class Outbound:
    """Encodes the frames of one direction and numbers them."""

    number: int = 0

    def message(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames of a message."""
        view = memoryview(data)
        yield self._frame(_FIRST, _LENGTH.pack(len(data)), view[:CHUNK])
        for at in range(CHUNK, len(data), CHUNK):
            yield self._frame(_MORE, view[at : at + CHUNK])

    def pulse(self) -> bytes:
        """Return a frame that shows that this node is alive."""
        return self._frame(_PULSE)

    def leave(self, leave: LeaveMessage) -> bytes:
        """Return the leave frame; it may interrupt a message."""
        return self._frame(_LEAVE, msgspec.msgpack.encode(leave))

    def heard(self) -> bytes:
        """Return the acknowledgement of the peer's leave frame."""
        return self._frame(_HEARD)

    def _frame(self, kind: bytes, *parts: bytes | memoryview) -> bytes:
        head = _HEAD.pack(kind, self.number)
        self.number += 1
        return b"".join((head, *parts))


@dataclass
class Inbound:
    """Decodes and checks the frames of one direction."""

    most_bytes: int
    number: int = 0
    _length: int = -1  # of the message being received; -1 for none
    _chunks: list[bytes] = field(default_factory=list)
    _arrived: int = 0
    _wire_bytes: int = 0
    _said_bye: bool = False

    def take(self, frame: bytes) -> Arrived | Sign | LeaveMessage | None:
        """Return what this frame completes, or None while a message is incomplete; FrameError if it is invalid."""
        if not _HEAD.size <= len(frame) <= MOST_FRAME:
            raise FrameError(f"sent a frame of {len(frame)} bytes")
        kind, number = _HEAD.unpack_from(frame)
        if number != self.number:
            happened = "again" if number < self.number else "too early"
            raise FrameError(f"sent frame {number} {happened}: frame {self.number} is next")
        self.number += 1
        body = frame[_HEAD.size :]
        if self._said_bye and kind != _HEARD:
            raise FrameError("went on after its last word")
        if kind in (_FIRST, _MORE):
            return self._piece(kind, body, len(frame))
        if kind == _LEAVE:
            self._said_bye = True
            return _leave(body)
        if kind in (_PULSE, _HEARD) and not body:
            return Sign.PULSE if kind == _PULSE else Sign.HEARD
        raise FrameError("sent a frame of no known form")

    def _piece(self, kind: bytes, chunk: bytes, wire_bytes: int) -> Arrived | None:
        if (kind == _FIRST) != (self._length < 0):
            raise FrameError("sent a message in the middle of another" if kind == _FIRST else "sent a stray piece")
        if kind == _FIRST:
            if len(chunk) < _LENGTH.size:
                raise FrameError("sent a message without a length")
            (self._length,) = _LENGTH.unpack_from(chunk)
            if self._length > self.most_bytes:
                raise FrameError(f"announced {self._length} bytes; at most {self.most_bytes} are agreed")
            chunk = chunk[_LENGTH.size :]
        if len(chunk) != min(CHUNK, self._length - self._arrived):
            raise FrameError("sent a piece of the wrong size")
        self._chunks.append(chunk)
        self._arrived += len(chunk)
        self._wire_bytes += wire_bytes
        if self._arrived < self._length:
            return None
        whole = Arrived(b"".join(self._chunks), self._wire_bytes)
        self._length, self._arrived, self._wire_bytes = -1, 0, 0
        self._chunks.clear()
        return whole


def _leave(body: bytes) -> LeaveMessage:
    try:
        return msgpack_decoder(LeaveMessage).decode(body[:_MOST_LEAVE])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise FrameError("sent a last word of no known form") from None


# --- stream channel -----------------------------------------------------------------------------------------

_PULSES = 4  # a peer counts as silent after missing this many
_SLOWEST_PULSE = 5.0
_UPKEEP = 128  # bytes of overhead per unread message


class StreamBroke(Exception):
    """The stream ended unexpectedly."""


class FrameStream(Protocol):
    """A reliable, ordered stream of frames."""

    async def read(self) -> bytes | None:
        """Return the next frame; None when the peer ended the stream. StreamBroke when it broke."""

    async def write(self, frame: bytes) -> None:
        """Send a frame. StreamBroke when the peer can no longer receive it."""

    @property
    def has_room(self) -> bool:
        """Whether a frame can be sent without waiting, by `write_at_once`."""

    def write_at_once(self, frame: bytes) -> None:
        """Send a frame where there is room."""

    async def end(self) -> None:
        """Disconnect at once."""


class AcceptedStream(FrameStream, Protocol):
    """The accepting end of a stream."""

    @property
    def ended(self) -> asyncio.Event:
        """Set once the stream is over, so that its handler may return."""

    @property
    def certificate(self) -> bytes:
        """The certificate (PEM or DER) that the dialling node presented and whose key it has proved to hold."""

    @property
    def caller(self) -> str:
        """The address of the dialling node, `host:port`."""


class Server(Protocol):
    """A running server that accepts streams."""

    async def stop(self, grace: float | None) -> object:
        """Accept no more streams, and end those that are open."""


Handler = Callable[[AcceptedStream], Awaitable[None]]


class StreamChannel:
    """A `Channel` over a `FrameStream` after its handshake. `known` are all peers of the session."""

    def __init__(
        self,
        peer: PartyAddress,
        stream: FrameStream,
        agreement: Agreement,
        timings: Timings,
        known: Collection[str],
        on_failure: Callable[[PeerError], None] | None = None,
    ) -> None:
        self.bytes_sent = self.bytes_received = 0
        self.messages_sent = self.messages_received = 0
        self._node = peer
        self._stream = stream
        self._agreement = agreement
        self._timings = timings
        self._known = known
        self._on_failure = on_failure
        self._outbound = Outbound()
        self._inbound = Inbound(agreement.most_bytes)
        self.on_change: Callable[[], None] | None = None
        self._inbox: deque[bytes] = deque()
        self._bytes_put = self._bytes_taken = 0  # of the inbox, each counted by one thread alone
        self._writing = asyncio.Lock()
        self._changed = asyncio.Event()  # a message, a leave message or a failure came
        self._failed: asyncio.Future[PeerError] = asyncio.get_running_loop().create_future()
        self._peer_left: LeaveMessage | None = None
        self._over = asyncio.Event()  # nothing more will be read
        self._closing = False
        self._quiet_ticks = 0
        self._wrote = False
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._keep_time())]
        self._pulse: asyncio.Task[None] | None = None

    @property
    def peer(self) -> str:
        """The peer's name."""
        return self._node.name

    async def send(self, data: bytes) -> None:
        """Send one message; return when the transport has accepted it."""
        if len(data) > self._agreement.most_bytes:
            raise ParameterError(
                f"a message of {len(data)} bytes for party {self.peer}: {self._agreement.most_bytes} are agreed"
            )
        async with self._writing:
            for frame in self._outbound.message(data):
                self._check_open()
                await self._write(frame)
                self.bytes_sent += len(frame)
            self.messages_sent += 1

    def send_at_once(self, data: bytes) -> bool:
        """Send one message if that takes no waiting; return whether it did."""
        is_busy = self._writing.locked() or self._is_closed or len(data) > CHUNK
        if is_busy or not self._stream.has_room:
            return False
        (frame,) = self._outbound.message(data)
        self._stream.write_at_once(frame)
        self._wrote = True
        self.bytes_sent += len(frame)
        self.messages_sent += 1
        return True

    def take(self) -> bytes | None:
        """Return the peer's next message if it is there; PeerError if none will come. One thread may call this.

        What a peer had said before it vanished is still delivered; one that gives up is heard at once.
        """
        if self._inbox and not self._gave_up:
            data = self._inbox.popleft()
            self._bytes_taken += len(data) + _UPKEEP
            return data
        self._check_open()
        return None

    async def receive(self) -> bytes:
        """Return the peer's next message; PeerUnreachable after `patience` seconds without one."""
        try:
            async with asyncio.timeout(self.patience):
                while True:
                    self._changed.clear()
                    data = self.take()
                    if data is not None:
                        return data
                    await self._changed.wait()
        except TimeoutError:
            raise self.impatience() from None

    @property
    def patience(self) -> float:
        """How many seconds to wait for one message."""
        return self._timings.patience

    def impatience(self) -> PeerUnreachable:
        """Return the error for a peer that is waited for in vain."""
        return self._lost(f"is alive, but has said nothing for {self.patience:g} s")

    def _lost(self, how: str) -> PeerUnreachable:
        return PeerUnreachable(self.peer, f"at {self._node.address} {how}")

    async def failure(self) -> PeerError:
        """Wait until the channel fails and return the error."""
        return await asyncio.shield(self._failed)

    async def close(self, leave: LeaveMessage | None = None) -> None:
        """Send the reason for leaving (by default: done), wait until the peer has read it, and disconnect."""
        if self._closing:
            return
        leave = leave if leave is not None else DONE
        self._closing = True
        self._notify()
        try:
            # A live peer gets time to read everything; after a failure we do not wait long.
            async with asyncio.timeout(self._timings.silence if leave.is_orderly else self._timings.grace):
                if not self._over.is_set():
                    async with self._writing:
                        await self._write(self._outbound.leave(leave))
                    await self._over.wait()
        except (TimeoutError, PeerError):
            pass
        finally:
            await self._hang_up()

    async def _hang_up(self) -> None:
        for task in (*self._tasks, *([self._pulse] if self._pulse is not None else [])):
            task.cancel()
        with suppress(StreamBroke):
            await self._stream.end()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def _gave_up(self) -> bool:
        return self._failed.done() and not isinstance(self._failed.result(), PeerUnreachable)

    @property
    def _is_closed(self) -> bool:
        return self._failed.done() or self._peer_left is not None or self._closing

    def _check_open(self) -> None:
        if self._failed.done():
            raise self._failed.result()
        if self._peer_left is not None:
            raise blame(self.peer, self._peer_left, self._known)
        if self._closing:
            raise PeerUnreachable(self.peer, "is no longer connected: we have closed the channel ourselves")

    async def _write(self, frame: bytes) -> None:
        """Send a frame. A peer that gives signs of life and takes nothing is waited for as long as for a message."""
        try:
            async with asyncio.timeout(self.patience):
                await self._stream.write(frame)
            self._wrote = True
        except TimeoutError:
            self._fail(self._lost(f"is alive, but has read nothing for {self.patience:g} s"))
            self._check_open()
        except StreamBroke:
            # The reader knows the cause better: it may still have a leave message to read.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timings.grace):
                    await self._over.wait()
            self._vanished()
            self._check_open()
            raise PeerUnreachable(self.peer, "left") from None  # we are closing, or it had left

    async def _read(self) -> None:
        try:
            while True:
                frame = await self._stream.read()
                self._quiet_ticks = 0
                if frame is None:
                    self._vanished()
                    return
                if await self._take(frame):
                    return
        except StreamBroke:
            self._vanished()
        except FrameError as error:
            self._fail(PeerBrokeProtocol(self.peer, f"at {self._node.address} {error}"))
            with suppress(StreamBroke):  # its frames are ignored, but it should still learn why we leave
                while await self._stream.read() is not None:
                    pass
        finally:
            self._over.set()
            self._notify()

    async def _take(self, frame: bytes) -> bool:
        """Process a frame; return whether it was the last."""
        match self._inbound.take(frame):
            case Arrived() as message:
                self._arrived(message)
            case Sign.HEARD:
                if not self._closing:
                    raise FrameError("answered a last word that we have not said")
                return True
            case LeaveMessage() as leave:
                self._peer_left = leave  # this interrupts any message being sent
                if not leave.is_orderly:
                    self._fail(blame(self.peer, leave, self._known))
                self._notify()
                async with self._writing:
                    await self._stream.write(self._outbound.heard())
                return True
            case _:
                pass
        return False

    def _arrived(self, message: Arrived) -> None:
        self.bytes_received += message.wire_bytes
        self.messages_received += 1
        if self._closing:
            return  # nobody will read it
        self._bytes_put += len(message.data) + _UPKEEP
        if self._bytes_put - self._bytes_taken > self._agreement.most_bytes + _UPKEEP:
            raise FrameError(f"sent more than {self._agreement.most_bytes} bytes that nobody waits for")
        self._inbox.append(message.data)
        self._notify()

    async def _keep_time(self) -> None:
        """Send pulses while we say nothing else, and count the peer's silence.

        In ticks, not in seconds: peers are not to blame when this process itself was suspended.
        """
        tick = min(_SLOWEST_PULSE, self._timings.silence / _PULSES)
        while True:
            self._wrote = False
            await asyncio.sleep(tick)
            self._quiet_ticks += 1
            if self._quiet_ticks * tick > self._timings.silence and not self._over.is_set():
                self._fail(self._lost(f"fell silent for {self._timings.silence:g} s; is it or its network frozen?"))
                self._over.set()
                with suppress(StreamBroke):
                    await self._stream.end()
                return
            busy = self._writing.locked() or self._closing or self._peer_left is not None
            if not self._wrote and not busy and (self._pulse is None or self._pulse.done()):
                self._pulse = asyncio.create_task(self._send_pulse())

    async def _send_pulse(self) -> None:
        with suppress(PeerError):  # it is recorded
            async with self._writing:
                await self._write(self._outbound.pulse())

    def _vanished(self) -> None:
        if self._peer_left is None:
            self._fail(self._lost("vanished in the middle of the session; was it stopped or killed?"))

    def _fail(self, error: PeerError) -> None:
        """Record a failure; only the first one counts."""
        if not self._failed.done():
            self._failed.set_result(error)
            if self._on_failure is not None:
                self._on_failure(error)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        if self.on_change is not None:
            self.on_change()
