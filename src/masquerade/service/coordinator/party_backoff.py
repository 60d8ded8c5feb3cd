"""Which parties are left alone for a while: one that was busy, and one that failed, until it answers again.

No attempt is spent on a party that is away: whoever restarts it, or its machine, has time for that. Meanwhile it is
asked at longer and longer intervals (comeback.py); when it stays away too long, the next attempt is made all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

import structlog

from masquerade.errors import PeerError
from masquerade.service.coordinator.comeback import Comeback

if TYPE_CHECKING:  # which has the links that are beside this
    from masquerade.service.coordinator.context import WorkingContext

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
