"""Event loops whose time passes only while nobody has anything to do: a wait is over at once, and never too early.

For what happens in one loop and in memory alone: what other threads and processes do takes no time here.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


class _Selector(selectors.DefaultSelector):
    """Tells its loop's clock to go on instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(timeout if timeout is None else 0)
        if not events and timeout is not None:
            self.now += max(timeout, 0)
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop that never sleeps."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        """The seconds that have passed."""
        return self._clock.now


def in_virtual_time(test: Callable[Given, Awaitable[Result]]) -> Callable[Given, Result]:
    """Run this in a loop of its own; what still waits after an hour of that loop's time hangs, which is a failure."""

    @wraps(test)
    def run(*given: Given.args, **named: Given.kwargs) -> Result:
        async def bounded() -> Result:
            async with asyncio.timeout(3600):
                return await test(*given, **named)

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            return runner.run(bounded())

    return run
