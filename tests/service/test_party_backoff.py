"""Parties that are left alone after a failure: how long, how often they are asked meanwhile, and until when."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from fake_clock import FakeClock
from masquerade.errors import PeerUnreachable
from masquerade.service.coordinator.parties import PartyBackoff
from masquerade.service.coordinator.settings import CoordinatorSettings
from masquerade.service.coordinator.wakeup import Wakeup
from service.coordinators import PARTIES, read_settings

TIMINGS = "[timings]\nretry = 2\ncomeback = 60\n"


@pytest.fixture
def settings(trial: Path) -> CoordinatorSettings:
    return read_settings(trial, f"{TIMINGS}{PARTIES}")


class Links:
    """Parties that are away, and when each of them was asked."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.away = clock, {"bank", "clinic"}
        self.asked: dict[str, list[float]] = defaultdict(list)

    async def health(self, party: str, _within: float) -> None:
        self.asked[party].append(self.clock.monotonic())
        if party in self.away:
            raise PeerUnreachable(party, "nobody answers")


class Pausing:
    """A backoff on a clock that a test moves second by second."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self.clock = FakeClock()
        self.links, self.wakeup = Links(self.clock), Wakeup(self.clock)
        self.wakeup.attach()
        self.backoff = PartyBackoff(
            SimpleNamespace(settings=settings, links=self.links, wakeup=self.wakeup, clock=self.clock)  # type: ignore[arg-type]
        )

    async def wait(self, seconds: int) -> None:
        await self._settle()
        for _ in range(seconds):
            self.clock.tick(seconds=1)
            await self._settle()

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def test_a_busy_party_is_left_alone_for_a_moment(settings: CoordinatorSettings) -> None:
    async def part() -> None:
        pausing = Pausing(settings)
        pausing.backoff.busy("bank")
        await pausing.wait(1)
        assert pausing.backoff.leaves_alone("bank")
        assert not pausing.backoff.leaves_alone("clinic")
        await pausing.wait(1)
        assert not pausing.backoff.leaves_alone("bank")
        assert pausing.links.asked == {}

    asyncio.run(part())


def test_whoever_failed_is_asked_ever_more_rarely_until_it_answers(settings: CoordinatorSettings) -> None:
    async def part() -> None:
        pausing = Pausing(settings)
        pausing.links.away = {"bank"}
        pausing.backoff.failed(("bank", "clinic"), "bank", 2)
        await pausing.wait(0)
        assert not pausing.backoff.leaves_alone("clinic")  # asked at once, and there
        await pausing.wait(30)
        asked = pausing.links.asked["bank"]
        assert asked[0] == 4  # twice `retry`, after the second attempt
        gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
        assert gaps == sorted(gaps)
        assert gaps[-1] > gaps[0]
        assert pausing.backoff.leaves_alone("bank")
        pausing.links.away.clear()
        await pausing.wait(15)
        assert not pausing.backoff.leaves_alone("bank")

    asyncio.run(part())


@pytest.mark.parametrize("culprit", ["bank", ""])
def test_a_party_that_stays_away_is_tried_all_the_same_in_the_end(
    settings: CoordinatorSettings, culprit: str
) -> None:
    async def part() -> None:
        pausing = Pausing(settings)
        pausing.backoff.failed(("bank", "clinic"), culprit, 1)
        await pausing.wait(59)
        assert pausing.backoff.leaves_alone("bank")
        assert pausing.backoff.leaves_alone("clinic")
        await pausing.wait(3)
        assert not pausing.backoff.leaves_alone("bank")
        assert not pausing.backoff.leaves_alone("clinic")
        first = 2 if culprit == "" else 0
        assert pausing.links.asked["clinic"][0] == first

    asyncio.run(part())


def test_closing_ends_all_pauses(settings: CoordinatorSettings) -> None:
    async def part() -> None:
        pausing = Pausing(settings)
        pausing.backoff.failed(("bank", "clinic"), "", 1)
        await pausing.wait(1)
        await pausing.backoff.close()
        await pausing.wait(0)
        assert not pausing.backoff.leaves_alone("bank")

    asyncio.run(part())
