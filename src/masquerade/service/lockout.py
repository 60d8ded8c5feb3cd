"""How guessing at passwords is slowed down, so that it leads nowhere and keeps nobody else out.

A guess is judged by its **source**: the address that it comes from, or a browser in which that user has signed in
before. An account is never closed: the right password opens it from every source that has not to wait itself.

    a source          after 5 wrong guesses it waits for a minute, then twice as long each time, up to an hour
    all addresses     after 100 wrong guesses in a day at one account, an address waits for a day after each

So n addresses have at most 200 + n guesses at an account in any 24 hours (100 in each of two days that meet, and then
one each), and a known browser, which nobody else's guesses slow down, at most 150.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from masquerade.errors import ParameterError
from masquerade.service.store import Guard

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Source:
    """Where guesses come from: an address or the like; `known` for a browser in which the user has signed in before."""

    name: str
    known: bool = False


@dataclass(frozen=True)
class Lockout:
    """The rule above: `failures` within `window`, waits from `first` to `longest`, `crowd` failures a day by all."""

    failures: int = 5
    window: timedelta = timedelta(minutes=15)
    first: timedelta = timedelta(minutes=1)
    longest: timedelta = timedelta(hours=1)
    crowd: int = 100

    def __post_init__(self) -> None:
        if min(self.failures, self.crowd) < 1 or min(self.window, self.first, self.longest) <= timedelta(0):
            raise ParameterError("a lock-out needs at least 1 failure and times above 0")

    def judge(
        self, own: Guard, crowd: Guard, right: bool, now: datetime, *, known: bool = False
    ) -> tuple[Guard | None, Guard | None, bool]:
        """Return the guards of the source and of all addresses after a guess, and whether the guess succeeds.

        No guess of a source that has to wait succeeds, and none counts.
        """
        everybody = crowd if crowd.failures and now - crowd.since < _DAY else None
        if own.locked_until is not None and now < own.locked_until:
            return own, everybody, False
        if right:
            return None, everybody, True
        if known:
            return self._slowed(own, now), everybody, False
        before = everybody or Guard(0, 0, now, None)
        everybody = replace(before, failures=before.failures + 1)
        if everybody.failures > self.crowd:
            return Guard(0, own.lockouts + 1, now, now + _DAY), everybody, False
        return self._slowed(own, now), everybody, False

    def _slowed(self, own: Guard, now: datetime) -> Guard:
        fresh = own.failures == 0 or now - own.since > self.window
        failures = 1 if fresh else own.failures + 1
        if failures < self.failures:
            return replace(own, failures=failures, since=now if fresh else own.since, locked_until=None)
        wait = min(self.first * 2 ** min(own.lockouts, 30), self.longest)
        return Guard(0, own.lockouts + 1, now, now + wait)
