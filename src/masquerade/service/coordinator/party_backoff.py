"""Parties that are left alone for a while: one that was busy, and one that failed until it answers again.

An attempt is not spent on a party that is not there: whoever restarts it, or its machine, has time for that. It is
asked again and again meanwhile, at longer and longer intervals, and tried all the same when that took too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import structlog

from masquerade.errors import PeerError
from masquerade.service.coordinator.party_links import PartyLinks
from masquerade.service.coordinator.settings import Settings
from masquerade.service.coordinator.wakeup import Wakeup

log = structlog.get_logger("masquerade.coordinator")

_SLOWEST = 15.0  # seconds between two looks at a party that is away


class PartyBackoff:
    """Which parties are left alone now."""

    def __init__(self, settings: Settings, links: PartyLinks, wakeup: Wakeup) -> None:
        self._settings, self._links, self._wakeup = settings, links, wakeup
        self._waits: dict[str, set[asyncio.Task[None]]] = {}

    def leaves_alone(self, party: str) -> bool:
        """Whether no session of this party should start now."""
        return bool(self._waits.get(party))

    def busy(self, party: str) -> None:
        """A party had no place: ask again in a moment."""
        self._wait(party, asyncio.sleep(self._settings.retry_after))

    def failed(self, parties: Iterable[str], culprit: str, attempts: int) -> None:
        """So many attempts of a session of these parties failed: wait until every one of them answers.

        Whoever is to blame is given a moment first; when nobody knows who is, all are.
        """
        for party in parties:
            blamed = party == culprit or not culprit
            self._wait(
                party, self._until_back(party, self._settings.retry_after * attempts if blamed else 0.0)
            )

    async def close(self) -> None:
        """Wait for nobody any more."""
        tasks = [task for waits in self._waits.values() for task in waits]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_back(self, party: str, pause: float) -> None:
        own = self._settings
        loop = asyncio.get_running_loop()
        deadline = loop.time() + own.comeback_within
        while True:
            await asyncio.sleep(pause)
            pause = max(pause, own.retry_after)
            try:
                await self._links.health(party, min(own.answer_within, own.timings.silence))
                return
            except PeerError as error:
                left = deadline - loop.time()
                if left <= 0:
                    log.warning("party does not come back", party=party, problem=str(error))
                    return
                pause = min(pause * 1.5, _SLOWEST, left)

    def _wait(self, party: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        waits = self._waits.setdefault(party, set())
        waits.add(task)

        def over(task: asyncio.Task[None]) -> None:
            waits.discard(task)
            if not task.cancelled() and task.exception() is not None:
                log.error("background", problem=type(task.exception()).__name__)
            self._wakeup.ring()

        task.add_done_callback(over)
