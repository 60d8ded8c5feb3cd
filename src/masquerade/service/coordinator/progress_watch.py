"""Watch the parties while they work, and pass their progress on to whoever watches the session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from masquerade.errors import MasqueradeError, PeerError, PeerUnreachable, restored
from masquerade.net.progress import Stage
from masquerade.service.control import Progress
from masquerade.service.coordinator.context import WorkingContext
from masquerade.service.store import is_outage

LOOK_EVERY = 0.5  # seconds
_SETTLED = ("done", "failed", "cancelled")


class ProgressWatch:
    """The last progress of the parties of one attempt. One look at a time: two would tell the same step twice."""

    def __init__(
        self,
        context: WorkingContext,
        session: str,
        contract: str,
        parties: tuple[str, ...],
    ) -> None:
        self._context = context
        self._session, self._contract, self._parties = session, contract, parties
        self.told: dict[str, Progress | PeerError] = {}
        self.known: dict[str, Progress] = {}  # the last word of each, whether or not it still answers
        self._shown: dict[str, Any] = {}
        self._steps: dict[str, int] = {}

    async def until_one_fails(self, show_progress: bool) -> None:
        """Look again and again until a party has failed or has gone."""
        while True:
            await self.look(show_progress)
            if any(_has_failed(each) for each in self.told.values()):
                return
            await self._context.clock.sleep(LOOK_EVERY)

    async def until_settled(self, show_progress: bool, at_most: float) -> None:
        """Look until every party is done, has failed or has gone, or `at_most` seconds have passed."""
        deadline = self._context.clock.monotonic() + at_most
        while True:
            await self.look(show_progress, at_most)
            if all(not isinstance(each, Progress) or each.state in _SETTLED for each in self.told.values()):
                return
            if self._context.clock.monotonic() >= deadline:
                return
            await self._context.clock.sleep(0.1)

    async def look(
        self, show_progress: bool, within: float | None = None
    ) -> Mapping[str, Progress | PeerError]:
        """Ask every party once, and wait at most `within` seconds for its answer."""
        found = await asyncio.gather(*(self._asked(party, within) for party in self._parties))
        self.told = dict(zip(self._parties, found, strict=True))
        telling = asyncio.create_task(self._tell(show_progress))
        try:
            await asyncio.shield(telling)
        except asyncio.CancelledError:
            await telling  # what is being written stays written: the next look must know that it was told
            raise
        return self.told

    async def _asked(self, party: str, within: float | None) -> Progress | PeerError:
        try:
            return await self._context.links.progress(party, self._contract, within)
        except PeerError as error:
            return error

    async def _tell(self, show_progress: bool) -> None:
        known = {party: each for party, each in self.told.items() if isinstance(each, Progress)}
        self.known |= known
        news: list[tuple[str, dict[str, Any]]] = []
        steps_told: dict[str, int] = {}
        if show_progress:
            steps = [
                (step, party)
                for party, each in known.items()
                for step in each.steps[self._steps.get(party, 0) :]
            ]
            for step, party in sorted(steps, key=lambda each: each[0].round):
                data = {"party": party, "round": step.round, "attribute": step.attribute, "value": step.value}
                news.append(("step", data | {"children": list(step.children)}))
            steps_told = {party: len(each.steps) for party, each in known.items()}
        shown = {
            party: {
                "stage": stage.name,
                "doing": str(stage),
                "round": each.round,
                "bytes_sent": each.bytes_sent,
                "messages": each.messages,
                "seconds": each.seconds,
            }
            for party, each in known.items()
            for stage in [each.stage if each.stage.name else Stage(each.state, round=each.round)]
        }
        if _moving(shown) != _moving(self._shown):
            news.append(("progress", {"parties": shown}))
        if news and await self._stored(news):
            self._shown = shown
            self._steps |= steps_told

    async def _stored(self, news: list[tuple[str, dict[str, Any]]]) -> bool:
        """Return whether the database took it. An outage does not end the attempt: the next look tells it again."""
        try:
            await asyncio.to_thread(self._context.store.events.extend, self._session, news)
        except Exception as error:
            if not is_outage(error):
                raise
            return False
        return True


def endings(told: Mapping[str, Progress | PeerError]) -> dict[str, MasqueradeError | None]:
    """The error that each party ended with; None for one that did not fail."""
    return {party: _ending(party, each) for party, each in told.items()}


def _ending(party: str, told: Progress | PeerError) -> MasqueradeError | None:
    if isinstance(told, PeerUnreachable):
        return told
    if isinstance(told, PeerError):
        return PeerUnreachable(party, "does not know the session any more; was it restarted?")
    if told.state == "cancelled":  # whatever it says, nothing was wrong at its side
        return PeerError(party, *told.problems)
    return restored(told.kind, told.problems, told.culprit) if told.state == "failed" else None


def _has_failed(told: Progress | PeerError) -> bool:
    return isinstance(told, PeerError) or told.state in ("failed", "cancelled")


def _moving(shown: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The figures that show progress; seconds pass in any case."""
    return {
        party: tuple(each[key] for key in ("doing", "round", "messages")) for party, each in shown.items()
    }
