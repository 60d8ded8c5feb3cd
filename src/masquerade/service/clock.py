"""The clock passed to coordinator and nodes, so that tests can substitute one that they advance by hand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

Now = Callable[[], datetime]  # the time of day alone, in UTC


class Clock:
    """The time of day, a stopwatch, and a way to wait: the machine's own."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never goes backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for this many seconds."""
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = Clock()


async def wait(clock: Clock, futures: Iterable[asyncio.Future[Any]], seconds: float) -> bool:
    """Wait until one of the futures is done, at most `seconds`; return whether one is. None is cancelled."""
    watched = set(futures)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({*watched, alarm}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        alarm.cancel()
    return any(each.done() for each in watched)


def seconds_since_1970(clock: Clock) -> int:
    """Return the time of day in whole seconds, as contracts and policies count it."""
    return int(clock.now().timestamp())


def iso(moment: datetime) -> str:
    """Format a moment in UTC as ISO 8601."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
