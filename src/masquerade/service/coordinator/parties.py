"""Parties that refuse, are busy or do not answer: whether their clocks differ, and how long they are waited for.

Whoever restarts a node, or its machine, has time for that: `timings.comeback`. Meanwhile the party is asked at longer
and longer intervals, and at least a few times, however long each answer is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

import structlog

from masquerade.errors import PeerError
from masquerade.service.agree.signing import CLOCKS_DIFFER, LIFETIME
from masquerade.service.coordinator.context import Context, WorkingContext

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


# --- clocks -------------------------------------------------------------------------------------------------
# Whether a party that refuses has another clock than the coordinator: tokens and contracts are judged by the clock.
#
#     up to 30 s     no matter: a token is taken
#     up to 5 min    the attempt is made again, because clocks that are being set right differ by so much for a while
#     beyond that    it is refused
#
# In either case the refusal says that the clocks differ, by how much, and whose.


@dataclass(frozen=True)
class ClockDiffers:
    """How many seconds a party's clock is ahead of ours, at least; negative when it is behind."""

    party: str
    seconds: float

    @property
    def is_small(self) -> bool:
        """Return whether another attempt is worth making."""
        return abs(self.seconds) <= LIFETIME.total_seconds()

    @property
    def reason(self) -> str:
        """The difference in words, without the party's name."""
        where = "ahead of" if self.seconds > 0 else "behind"
        return f"its clock is {abs(self.seconds):.0f} s {where} the coordinator's; set both right, by NTP for one"


async def differing_clocks(context: WorkingContext, parties: Iterable[str]) -> list[ClockDiffers]:
    """Ask parties for the time; return those whose clock differs by more than a session's token allows."""
    found = await asyncio.gather(*(_asked(context, party) for party in parties))
    allowed = CLOCKS_DIFFER.total_seconds()
    return [each for each in found if each is not None and abs(each.seconds) > allowed]


async def _asked(context: WorkingContext, party: str) -> ClockDiffers | None:
    before = context.clock.now().timestamp()
    try:
        theirs = (await context.links.health(party)).now
    except PeerError:  # it does not answer: nobody knows
        return None
    after = context.clock.now().timestamp()
    # It was read between the two: that much is certain, however slow the answer was.
    return ClockDiffers(party, max(theirs - after, 0.0) + min(theirs - before, 0.0))


# --- party backoff ------------------------------------------------------------------------------------------
# Which parties are left alone for a while: one that was busy, and one that failed, until it answers again.
#
# No attempt is spent on a party that is away: whoever restarts it, or its machine, has time for that. Meanwhile it is
# asked at longer and longer intervals (`Comeback`); when it stays away too long, the next attempt is made all the same.

log = structlog.get_logger("masquerade.coordinator")


class PartyBackoff:
    """Keeps sessions from starting with parties that need a pause."""

    def __init__(self, context: WorkingContext) -> None:
        self._context = context
        self._waits: dict[str, set[asyncio.Task[None]]] = {}

    def leaves_alone(self, party: str) -> bool:
        """Return whether no session of this party should start now."""
        return bool(self._waits.get(party))

    def busy(self, party: str) -> None:
        """Pause after a party had no place for a session."""
        self._wait(party, self._context.clock.sleep(self._context.settings.timings.retry))

    def failed(self, parties: Iterable[str], culprit: str, attempts: int) -> None:
        """Pause after a failed attempt, the `attempts`-th of its session, until each of its parties answers.

        The culprit is given a moment before it is asked; when nobody knows who it is (""), all are.
        """
        for party in parties:
            pause = self._context.settings.timings.retry * attempts if culprit in (party, "") else 0.0
            self._wait(party, self._until_back(party, pause))

    async def close(self) -> None:
        """End all pauses."""
        tasks = [task for waits in self._waits.values() for task in waits]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_back(self, party: str, pause: float) -> None:
        own = self._context.settings
        comeback = Comeback(self._context, pause)
        await self._context.clock.sleep(pause)
        while True:
            try:
                await self._context.links.health(party, min(own.timings.answer, own.timings.silence))
                return
            except PeerError as error:
                if not await comeback.pause():
                    log.warning("party does not come back", party=party, problem=str(error))
                    return

    def _wait(self, party: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        waits = self._waits.setdefault(party, set())
        waits.add(task)

        def over(task: asyncio.Task[None]) -> None:
            waits.discard(task)
            if not task.cancelled() and task.exception() is not None:
                log.error("background", problem=type(task.exception()).__name__)
            self._context.wakeup.ring()

        task.add_done_callback(over)
