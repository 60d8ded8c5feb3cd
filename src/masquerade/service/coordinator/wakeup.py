"""Wakes the background work from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


class Wakeup:
    """A bell: whoever rings it, from whichever thread, the waiting coroutine goes on. It also goes on by itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: asyncio.Event | None = None

    def attach(self) -> None:
        """Ring in the running event loop from now on."""
        with self._lock:
            self._loop, self._bell = asyncio.get_running_loop(), asyncio.Event()

    def detach(self) -> None:
        """Nobody listens any more."""
        with self._lock:
            self._loop = self._bell = None

    def ring(self) -> None:
        """There is something to do."""
        self.call(lambda: self._bell.set() if self._bell is not None else None)

    def call(self, work: Callable[[], object]) -> None:
        """Run something in the event loop, if there is one."""
        with self._lock:
            loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(work)

    async def wait(self, at_most: float) -> None:
        """Wait until it rings, or so many seconds."""
        bell = self._bell
        assert bell is not None
        try:
            async with asyncio.timeout(
                at_most
            ):  # wait_for of Python 3.11 forgets a cancellation when it rings just then
                await bell.wait()
        except TimeoutError:
            return
        bell.clear()
