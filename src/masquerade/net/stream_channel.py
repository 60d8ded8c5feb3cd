"""A channel over a stream of frames: numbering, pulses, silence, leave messages. Independent of TLS.

Two tasks serve a channel: one reads frames as they come, so that peers that send to each other at the same time never
deadlock; one keeps time. They notice failures whether or not the channel is in use.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Protocol

from masquerade.errors import ParameterError, PeerBrokeProtocol, PeerError, PeerUnreachable
from masquerade.net.channel import Agreement, Node, Timings
from masquerade.net.framing import CHUNK, Arrived, FrameError, Inbound, Outbound, Sign
from masquerade.net.leave_message import DONE, LeaveMessage, blame

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


class StreamChannel:
    """A `Channel` over a `FrameStream` after its handshake. `known` are all peers of the session."""

    def __init__(
        self,
        peer: Node,
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
        return PeerUnreachable(
            self.peer,
            f"at {self._node.address} is alive, but has said nothing for {self._timings.patience:g} s",
        )

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
            self._fail(
                PeerUnreachable(
                    self.peer,
                    f"at {self._node.address} is alive, but has read nothing for {self.patience:g} s",
                )
            )
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
                self._fail(
                    PeerUnreachable(
                        self.peer,
                        f"at {self._node.address} fell silent for {self._timings.silence:g} s;"
                        " is it or its network frozen?",
                    )
                )
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
            self._fail(
                PeerUnreachable(
                    self.peer,
                    f"at {self._node.address} vanished in the middle of the session; was it stopped or killed?",
                )
            )

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
