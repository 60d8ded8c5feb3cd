"""How long a party that does not answer is waited for, and how often it is asked meanwhile.

Whoever restarts a node, or its machine, has time for that: `timings.comeback`. Meanwhile the party is asked at longer
and longer intervals, and at least a few times, however long each answer is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # which has the links of parties that are waited for
    from masquerade.service.coordinator.context import Context

_LEAST_TRIES = 3
_SLOWEST = 15.0  # seconds between two tries


class Comeback:
    """The time that a party has to come back, from now on."""

    def __init__(self, context: Context, pause: float = 0.0) -> None:
        timings = context.settings.timings
        self._clock, self._tries = context.clock, 1
        self._pause = max(pause, timings.retry)  # seconds
        self._deadline = self._clock.monotonic() + timings.comeback

    async def pause(self) -> bool:
        """Wait before the party is asked again; return False, at once, when it has had its time."""
        left = self._deadline - self._clock.monotonic()
        if left <= 0 and self._tries >= _LEAST_TRIES:
            return False
        await self._clock.sleep(min(self._pause, left) if left > 0 else self._pause)
        self._tries, self._pause = self._tries + 1, min(self._pause * 1.5, _SLOWEST)
        return True
