"""Drive a party's script over its channels.

The script computes in its own thread: meanwhile pulses are sent, messages arrive, and a failing peer ends the session
at once, whatever this party is doing, unless the script makes tolerant moves (`net/script.py`).
"""

from __future__ import annotations

import asyncio
import atexit
import queue
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from masquerade.errors import PeerBrokeProtocol, PeerError
from masquerade.net.channel import Channel
from masquerade.net.script import (
    Message,
    Move,
    Receive,
    Script,
    Send,
    TolerantReceive,
    TolerantSend,
    decode,
    encode,
    kind_of,
    kinds_of,
)
from masquerade.net.transcript import Transcript

# --- losses -------------------------------------------------------------------------------------------------
# The failures of a session's channels: fatal, or at tolerant moves reported to the script.


class Losses:
    """The first failure is fatal or, at tolerant moves, each waits to be reported to the script."""

    def __init__(self) -> None:
        self.fatal: asyncio.Future[PeerError] = asyncio.get_running_loop().create_future()
        self._untold: list[PeerError] = []
        self._told: list[PeerError] = []
        self._tolerant = False
        self._noticed = asyncio.Event()

    def note(self, error: PeerError) -> None:
        """Note the failure of a channel."""
        if not any(each is error for each in self._told):
            self._untold.append(error)
            self._noticed.set()
        self._settle()

    def before(self, move: Move) -> None:
        """Note what the script does next."""
        self._tolerant = isinstance(move, TolerantSend | TolerantReceive)
        self._settle()

    async def unless_lost(self, moved: Coroutine[Any, Any, bytes | None]) -> bytes | PeerError | None:
        """Return what a tolerant move gives, or a failure that came first; a message that has arrived is not lost."""
        moving, losing = asyncio.ensure_future(moved), asyncio.ensure_future(self._noticed.wait())
        try:
            await asyncio.wait({moving, losing}, return_when=asyncio.FIRST_COMPLETED)
            return moving.result() if moving.done() else self._tell()
        except PeerError as error:
            return self._tell(error)
        finally:
            for each in (moving, losing):
                each.cancel()
                each.add_done_callback(forget)

    def _tell(self, error: PeerError | None = None) -> PeerError:
        """Return the failure that is reported to the script now; by default the first that was not."""
        told = error if error is not None else self._untold[0]
        self._told.append(told)
        self._untold = [each for each in self._untold if each is not told]
        if not self._untold:
            self._noticed.clear()
        return told

    def _settle(self) -> None:
        if self._untold and not self._tolerant and not self.fatal.done():
            self.fatal.set_result(self._untold[0])


def forget(future: asyncio.Future[Any]) -> None:
    """Retrieve the error, so that asyncio does not complain when nobody else does."""
    if not future.cancelled():
        future.exception()


# --- running ------------------------------------------------------------------------------------------------
# Run a session in an event loop that signals stop in an orderly way.
#
# An interrupt raised at an arbitrary point may hit the loop in the middle of a callback, and leave half of
# it done. So while a session runs, signals ask the loop to end it: peers are informed that we were stopped,
# sockets are closed, and only then KeyboardInterrupt is raised.
#
# All sessions of the main thread share one loop.

Result = TypeVar("Result")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LAST_STEPS = 0.5  # seconds for tasks that are about to end by themselves
_runners: list[asyncio.Runner] = []  # that of the main thread, made when first needed


def run_async(session: Coroutine[Any, Any, Result]) -> Result:
    """Run a session like `asyncio.run`; on SIGINT or SIGTERM end it in order, then raise KeyboardInterrupt.

    Where this thread runs a loop already, as that of a notebook does, the session runs in a thread of its own.
    """
    if _is_in_loop():
        return _run_in_a_thread(session)
    if threading.current_thread() is not threading.main_thread():  # other threads get no signals
        return asyncio.run(session)
    stopped = False

    async def stoppable() -> Result:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def stop() -> None:
            nonlocal stopped
            if not ending:
                stopped = True
                task.cancel()

        ending = False
        await _end_all_others(task)  # left by an earlier session that was interrupted
        for number in _SIGNALS:
            loop.add_signal_handler(number, stop)
        try:
            return await session
        finally:
            ending = True  # further signals are ignored until all tasks have ended
            await _end_all_others(task)
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        if not _runners:
            _runners.append(asyncio.Runner())
            atexit.register(_runners[0].close)
        return _runners[0].run(stoppable())
    except asyncio.CancelledError:
        if stopped:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: not set from Python
                signal.signal(number, handler)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_in_a_thread(session: Coroutine[Any, Any, Result]) -> Result:
    """Run a session beside the loop of this thread, which stands still meanwhile; an interrupt ends it in order."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
    given_up = threading.Event()

    async def stoppable() -> Result:
        task = asyncio.current_task()
        assert task is not None
        started.set_result((asyncio.get_running_loop(), task))
        if given_up.is_set():  # whoever gave up before we had started could not cancel us
            session.close()
            raise asyncio.CancelledError
        return await session

    with ThreadPoolExecutor(1) as threads:
        # An interrupt while the pool starts its thread would make it forget the thread, and not wait for its end.
        threads.submit(int).result()
        try:
            return threads.submit(copy_context().run, lambda: asyncio.run(stoppable())).result()
        except KeyboardInterrupt:
            given_up.set()
            if started.done():
                loop, task = started.result()
                with suppress(RuntimeError):  # it has ended by itself
                    loop.call_soon_threadsafe(task.cancel)
            raise


async def _end_all_others(task: asyncio.Task[Any]) -> None:
    """End the tasks that a session leaves running, those first that are about to end by themselves."""
    others = asyncio.all_tasks() - {task}
    if others:
        await asyncio.wait(others, timeout=_LAST_STEPS)
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


# --- script thread ------------------------------------------------------------------------------------------
# The thread in which a party's script runs, and what it leaves to the event loop.
#
# Every change between threads takes longer than most steps of a script, so the thread makes plain moves by
# itself: it hands over what is to be sent and goes on, and it takes messages from the channels as soon as
# they are there, sleeping only for one that is not. Tolerant moves (`net/script.py`) are made in the event
# loop.

OnMove = Callable[[Move], None]

_MOST_AHEAD = 4 << 20  # bytes that the script may be ahead of the network


class _Stopped(Exception):
    """Nobody wants the script's result any more."""


class ScriptThread:
    """Runs a script; `ended` has its result once all that it sent is on its way.

    A daemon thread, not an executor's: when a peer fails, the process need not wait for a long computation.
    """

    def __init__(
        self,
        script: Script[Any],
        channels: Mapping[str, Channel],
        losses: Losses,
        transcript: Transcript | None,
        on_move: OnMove | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Any] = self._loop.create_future()
        self._script, self._channels, self._losses = script, channels, losses
        self._transcript, self._on_move = transcript, on_move
        self._lanes = {name: _Lane(channel, self._sent, self._fail) for name, channel in channels.items()}
        self._outbox: deque[tuple[tuple[str, ...], bytes]] = deque()
        self._is_flushing = False
        self._bytes_out = self._bytes_sent = 0  # the former counted by the thread, the latter by the loop
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()  # rung for what the thread sleeps for
        self._awaited: Channel | None = None
        self._is_full = self._is_tolerant = self._is_stopped = False
        for channel in channels.values():
            channel.on_change = partial(self._changed, channel)
        threading.Thread(target=self._work, name="script", daemon=True).start()

    def stop(self) -> None:
        """Let the thread finish its current step, close the script, and end."""
        self._is_stopped = True
        self._bell.put(None)

    # --- in the thread ---

    def _work(self) -> None:
        result, error = None, None
        try:
            result = self._play()
        except _Stopped:
            pass
        except BaseException as raised:
            error = raised
        finally:
            self._script.close()
        with suppress(_Stopped):
            self._in_loop(self._finish, result, error)

    def _play(self) -> Any:
        heard: Message | PeerError | None = None
        try:
            while True:
                move = self._script.throw(heard) if isinstance(heard, PeerError) else self._script.send(heard)
                if self._is_stopped:
                    raise _Stopped
                heard = self._make(move)
                if self._on_move is not None:
                    self._in_loop(self._tell, move)
        except StopIteration as end:
            return end.value

    def _make(self, move: Move) -> Message | PeerError | None:
        """Make a move. Return what the script hears: a message, or an error that it tolerates."""
        tolerant = isinstance(move, TolerantSend | TolerantReceive)
        if tolerant or self._is_tolerant:
            self._is_tolerant = tolerant
            self._in_loop(self._losses.before, move)
        if isinstance(move, Send):
            data = encode(move.message)
            if self._transcript is not None:
                for peer in move.peers:
                    self._transcript.sent(peer, kind_of(move.message), data)
            if tolerant:
                lost: PeerError | None = self._tolerate(self._send_all(move.peers, data))
                return lost
            self._post(move, data)
            return None
        while True:
            channel = self._channels[move.peer]
            data_or_loss = self._tolerate(channel.receive()) if tolerant else self._next(channel)
            if isinstance(data_or_loss, PeerError):
                return data_or_loss
            heard = self._heard(move, data_or_loss)
            if heard is not None:
                return heard

    def _post(self, move: Send, data: bytes) -> None:
        """Hand a message to the event loop; wait only while too much is on its way."""
        self._bytes_out += len(data) * len(move.peers)
        self._outbox.append((move.peers, data))
        if not self._is_flushing:
            self._is_flushing = True
            self._in_loop(self._flush)
        while self._bytes_out - self._bytes_sent > _MOST_AHEAD:
            self._is_full = True
            if self._bytes_out - self._bytes_sent > _MOST_AHEAD:
                self._sleep()

    def _next(self, channel: Channel) -> bytes:
        """Return the peer's next message."""
        data = channel.take()
        while data is None:
            self._awaited = channel
            data = channel.take()  # or it came before we could be woken
            if data is None and not self._sleep(channel.patience):
                raise channel.impatience()
        self._awaited = None
        return data

    def _sleep(self, seconds: float | None = None) -> bool:
        """Sleep until the bell rings; return whether it did."""
        try:
            self._bell.get(timeout=seconds)
        except queue.Empty:
            return False
        if self._is_stopped:
            raise _Stopped
        return True

    def _heard(self, move: Receive, data: bytes) -> Message | None:
        """Decode and log a peer's message, of a kind that the script waits for; None if it is to be skipped."""
        try:
            message = decode(data, kinds_of(move))
        except ValueError as error:
            if self._transcript is not None:
                self._transcript.received(move.peer, "?", data)
            if isinstance(move, TolerantReceive) and move.skips:
                return None
            raise PeerBrokeProtocol(move.peer, f"sent {error}") from None
        if self._transcript is not None:
            self._transcript.received(move.peer, kind_of(message), data)
        return message

    def _tolerate(self, moving: Coroutine[Any, Any, Any]) -> Any:
        """Let the event loop make a move. Return what it gives, or a loss that came first."""
        told: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        async def move() -> None:
            try:
                told.put((await self._losses.unless_lost(moving), None))
            except BaseException as error:
                told.put((None, error))

        try:
            self._in_loop(lambda: self._loop.create_task(move()))
        except _Stopped:
            moving.close()
            raise
        result, error = told.get()
        if error is not None:
            raise error
        return result

    def _in_loop(self, call: Callable[..., object], *given: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *given)
        except RuntimeError:  # the loop has ended: nobody waits for the result
            raise _Stopped from None

    # --- in the event loop ---

    async def _send_all(self, peers: tuple[str, ...], data: bytes) -> None:
        sending = asyncio.gather(*(self._channels[peer].send(data) for peer in peers))
        sending.add_done_callback(forget)
        await asyncio.shield(sending)  # an incomplete frame would break the channel

    def _flush(self) -> None:
        self._is_flushing = False
        while self._outbox:
            peers, data = self._outbox.popleft()
            for peer in peers:
                self._lanes[peer].send(data)

    def _sent(self, n_bytes: int) -> None:
        self._bytes_sent += n_bytes
        if self._is_full and self._bytes_out - self._bytes_sent <= _MOST_AHEAD:
            self._is_full = False
            self._bell.put(None)

    def _changed(self, channel: Channel) -> None:
        if self._awaited is channel:
            self._awaited = None
            self._bell.put(None)

    def _tell(self, move: Move) -> None:
        assert self._on_move is not None
        try:
            self._on_move(move)
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)

    def _finish(self, result: Any, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
        if self.ended.done():
            return
        sending = [lane.sending for lane in self._lanes.values() if lane.sending is not None]
        if sending:
            waiting = asyncio.gather(*sending, return_exceptions=True)
            waiting.add_done_callback(lambda _: self._finish(result, None))
        else:
            self.ended.set_result(result)


class _Lane:
    """What is to be sent to one peer, in order."""

    def __init__(self, channel: Channel, sent: Callable[[int], None], failed: Callable[[BaseException], None]) -> None:
        self._channel, self._sent, self._failed = channel, sent, failed
        self._waiting: deque[bytes] = deque()
        self.sending: asyncio.Task[None] | None = None

    def send(self, data: bytes) -> None:
        """Send a message, at once if that takes no waiting.

        Sending goes on if the session ends meanwhile: an incomplete frame would break the channel to a peer that should
        still get our leave message. Closing the channel ends it.
        """
        if self.sending is None and self._channel.send_at_once(data):
            self._sent(len(data))
            return
        self._waiting.append(data)
        if self.sending is None:
            self.sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._waiting:
                await self._channel.send(self._waiting[0])
                self._sent(len(self._waiting.popleft()))
            self.sending = None
        except BaseException as error:
            self._failed(error)


# --- session ------------------------------------------------------------------------------------------------


async def run_script(
    script: Script[Result],
    channels: Mapping[str, Channel],
    *,
    transcript: Transcript | None = None,
    on_move: OnMove | None = None,
) -> Result:
    """Run the script and return its result.

    `on_move` is called after each move, in the event loop's thread. Errors of the script pass through; a failing
    channel ends the session with its PeerError, even while the script computes or waits for others, unless its last
    move was tolerant. The caller closes the channels (`Listener.connect` does), which informs the peers how it ended.
    """
    losses = Losses()

    async def watch(channel: Channel) -> None:
        losses.note(await channel.failure())

    watches = [asyncio.create_task(watch(channel)) for channel in channels.values()]
    thread = ScriptThread(script, channels, losses, transcript, on_move)
    thread.ended.add_done_callback(forget)
    try:
        await asyncio.wait({thread.ended, losses.fatal}, return_when=asyncio.FIRST_COMPLETED)
        if not thread.ended.done():
            raise losses.fatal.result()
        result: Result = thread.ended.result()
        return result
    finally:
        thread.stop()
        for task in watches:
            task.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
