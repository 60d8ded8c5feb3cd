"""A clock for coordinator and nodes that stands still until a test moves it, from any thread."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

from masquerade.service.clock import Clock

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class FakeClock(Clock):
    """Who sleeps wakes when the clock is moved past the end of the sleep."""

    def __init__(self, start: datetime = START) -> None:
        self._start, self._passed = start, timedelta()
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return self._start + self._passed

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        with self._lock:
            self._sleepers.append((self.monotonic() + seconds, woken))
        if seconds <= 0:
            self.tick()
        await woken

    def tick(self, **time: float) -> None:
        """Move on, as timedelta counts it: seconds, days …"""
        self.move(timedelta(**time))

    def move(self, by: timedelta) -> None:
        with self._lock:
            self._passed += by
            due = [woken for until, woken in self._sleepers if until <= self.monotonic()]
            self._sleepers = [each for each in self._sleepers if each[0] > self.monotonic()]
        for woken in due:
            loop = woken.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, woken)

    async def slept(self, seconds: float) -> None:
        """Return once somebody sleeps who will do so for `seconds` more: a tick before that would not wake him."""
        while seconds not in self.sleeping:
            await asyncio.sleep(0.01)

    @property
    def sleeping(self) -> list[float]:
        """How long each who sleeps will still do so, in seconds, the shortest first."""
        with self._lock:
            waiting = [until for until, woken in self._sleepers if not woken.done()]
        return sorted(until - self.monotonic() for until in waiting)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
