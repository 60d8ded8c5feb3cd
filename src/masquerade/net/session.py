"""Drive a party's script over its channels.

The script computes in its own thread: meanwhile pulses are sent, messages arrive, and a failing peer ends the session
at once, whatever this party is doing.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from masquerade.errors import PeerBrokeProtocol, PeerError
from masquerade.net.channel import Agreement, Channel, Node, Timings
from masquerade.net.identity import Identity
from masquerade.net.running import run_async
from masquerade.net.script import Message, Move, Receive, Script, Send, decode, encode, kind_of
from masquerade.net.transcript import Transcript
from masquerade.net.trust import TrustStore

Result = TypeVar("Result")
Wanted = TypeVar("Wanted")
OnMove = Callable[[Move], None]


async def run_script(
    script: Script[Result],
    channels: Mapping[str, Channel],
    *,
    transcript: Transcript | None = None,
    on_move: OnMove | None = None,
) -> Result:
    """Run the script and return its result.

    `on_move` is called after each move, in the event loop's thread. Errors of the script pass through; a failing
    channel ends the session with its PeerError, even while the script computes or waits for others. The caller closes
    the channels (`Listener.connect` does), which informs the peers how it ended.
    """
    failures = {asyncio.create_task(channel.failure()) for channel in channels.values()}
    worker = _Worker(script)
    try:
        step = await _unless(failures, worker.step(None))
        while not isinstance(step, _End):
            move = step.move
            heard: Message | None = None
            if isinstance(move, Send):
                await _send(move, step.data, channels, failures, transcript)
            else:
                data = await _unless(failures, channels[move.peer].receive())
                heard = await _unless(failures, worker.call(partial(_heard, move, data, transcript)))
            if on_move is not None:
                on_move(move)
            step = await _unless(failures, worker.step(heard))
        result: Result = step.result
        return result
    finally:
        worker.stop()
        for watch in failures:
            watch.cancel()
        await asyncio.gather(*failures, return_exceptions=True)


def run(
    script: Script[Result],
    identity: Identity,
    trust: TrustStore,
    address: str,
    peers: Sequence[Node],
    agreement: Agreement,
    *,
    timings: Timings | None = None,
    transcript: Transcript | None = None,
    on_move: OnMove | None = None,
) -> Result:
    """Connect to all peers, run the script, and leave: the whole session of one party."""
    from masquerade.net.connect import connect  # loads gRPC

    async def session() -> Result:
        async with connect(identity, trust, address, peers, agreement, timings) as channels:
            return await run_script(script, channels, transcript=transcript, on_move=on_move)

    return run_async(session())


@dataclass(frozen=True)
class _Step:
    """The script's next move and, for a Send, the encoded message."""

    move: Move
    data: bytes


@dataclass(frozen=True)
class _End(Generic[Result]):
    result: Result


class _Worker:
    """A thread that runs the script's steps.

    A daemon thread, not an executor's: when a peer fails, the process need not wait for a long computation.
    """

    def __init__(self, script: Script[Any]) -> None:
        self._script = script
        self._loop = asyncio.get_running_loop()
        self._todo: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._work, name="script", daemon=True).start()

    def step(self, heard: Message | None) -> asyncio.Future[Any]:
        """Resume the script with the message it waited for; the future holds its next step."""
        return self.call(lambda: self._step(heard))

    def call(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run slow work in the thread; the future holds its result."""
        future = self._loop.create_future()
        self._todo.put((work, future))
        return future

    def stop(self) -> None:
        """Let the thread finish its current work, close the script, and end."""
        self._todo.put(None)

    def _step(self, heard: Message | None) -> _Step | _End[Any]:
        try:
            move = self._script.send(heard)
        except StopIteration as end:
            return _End(end.value)
        return _Step(move, encode(move.message) if isinstance(move, Send) else b"")

    def _work(self) -> None:
        while (task := self._todo.get()) is not None:
            work, future = task
            try:
                result, error = work(), None
            except BaseException as raised:
                result, error = None, raised
            try:
                self._loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:  # the loop has ended: nobody waits for the result
                break
        self._script.close()


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _heard(move: Receive, data: bytes, transcript: Transcript | None) -> Message:
    """Decode and log a peer's message, which must be of the kind that the script waits for."""
    try:
        message = decode(data, [move.kind])
    except ValueError as error:
        if transcript is not None:
            transcript.received(move.peer, "?", data)
        raise PeerBrokeProtocol(move.peer, f"sent {error}") from None
    if transcript is not None:
        transcript.received(move.peer, kind_of(message), data)
    return message


async def _send(
    move: Send,
    data: bytes,
    channels: Mapping[str, Channel],
    failures: set[asyncio.Task[PeerError]],
    transcript: Transcript | None,
) -> None:
    """Send to all peers concurrently: a slow peer delays only the script."""
    if transcript is not None:
        for peer in move.peers:
            transcript.sent(peer, kind_of(move.message), data)
    sends = [asyncio.create_task(channels[peer].send(data)) for peer in move.peers]
    await _unless(failures, asyncio.gather(*sends))


async def _unless(failures: set[asyncio.Task[PeerError]], wanted: Awaitable[Wanted]) -> Wanted:
    """Wait for what is wanted, unless a channel fails first.

    It is then left running, not cancelled: an incomplete frame would break the channel to a peer that should still get
    our leave message. Closing the channels ends it.
    """
    waiting = asyncio.ensure_future(wanted)
    waiting.add_done_callback(_forget)
    both: set[asyncio.Future[Any]] = {waiting, *failures}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if waiting.done():
        return waiting.result()
    raise next(watch.result() for watch in failures if watch.done())


def _forget(future: asyncio.Future[Any]) -> None:
    """Retrieve the error, so that asyncio does not complain when nobody else does."""
    if not future.cancelled():
        future.exception()
