"""Wake the background work from any thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from masquerade.service.clock import Clock, wait


class Wakeup:
    """A bell that any thread may ring, for one coroutine that waits for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: asyncio.Event | None = None

    def attach(self) -> None:
        """Ring in the running event loop from now on."""
        with self._lock:
            self._loop, self._bell = asyncio.get_running_loop(), asyncio.Event()

    def detach(self) -> None:
        """Ignore the bell from now on."""
        with self._lock:
            self._loop = self._bell = None

    def ring(self) -> None:
        """Tell the waiting coroutine that there is something to do."""
        self.call(lambda: self._bell.set() if self._bell is not None else None)

    def call(self, work: Callable[[], object]) -> None:
        """Run something in the event loop, if there is one."""
        with self._lock:
            loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(work)

    async def wait(self, at_most: float) -> None:
        """Wait until it rings, `at_most` seconds."""
        bell = self._bell
        assert bell is not None
        ringing = asyncio.ensure_future(bell.wait())
        try:
            if await wait(self._clock, {ringing}, at_most):
                bell.clear()
        finally:
            ringing.cancel()
