"""How the parties answer the coordinator's calls, held against the service levels of a contract.

Of each party the last calls since the coordinator started are remembered: how long each took, or that nobody answered.
Reading a table takes as long as the table is large, so calls that wait for it are not timed, only counted.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from masquerade.service.agree.terms import ServiceLevel

_CALLS = 1000  # of each party: hours of a busy coordinator, a day of an idle one
_MOST_OF_THEM = 0.95  # the share of answers that must come in time


@dataclass(frozen=True)
class Measured:
    """How a party answered: by when 95 % of its answers came, in seconds, and the share of calls that it answered."""

    calls: int
    response_time: float | None  # None: no call was timed
    availability: float


class ServiceRecord:
    """The last calls to each party."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[tuple[bool, float | None]]] = defaultdict(lambda: deque(maxlen=_CALLS))
        self._lock = threading.Lock()  # noted in the event loop, read in threads

    def note(self, party: str, *, answered: bool, seconds: float | None = None) -> None:
        """Remember a call; `seconds` of an answer that was timed."""
        with self._lock:
            self._calls[party].append((answered, seconds))

    def measured(self, party: str) -> Measured | None:
        """Return how a party answered; None before it was called."""
        with self._lock:
            calls = list(self._calls.get(party, ()))
        if not calls:
            return None
        timed = sorted(seconds for answered, seconds in calls if answered and seconds is not None)
        # Rounded up to tenths: finer times would tell users how large tables are and what a party computes.
        slowest = math.ceil(10 * timed[math.ceil(_MOST_OF_THEM * len(timed)) - 1]) / 10 if timed else None
        answers = sum(answered for answered, _ in calls)
        return Measured(len(calls), slowest, answers / len(calls))

    def judged(self, agreed: Mapping[str, ServiceLevel]) -> dict[str, dict[str, Any]]:
        """Return by party and term what was agreed, what was measured, and whether it is met; None: not known."""
        return {party: _judged(level, self.measured(party)) for party, level in sorted(agreed.items())}


def _judged(level: ServiceLevel, measured: Measured | None) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if level.response_time is not None:
        took = measured.response_time if measured is not None else None
        told["response_time"] = {
            "agreed": level.response_time,
            "measured": took,
            "met": None if took is None else took <= level.response_time,
        }
    if level.availability is not None:
        share = measured.availability if measured is not None else None
        told["availability"] = {
            "agreed": float(level.availability),
            "measured": None if share is None else round(share, 4),
            "met": None if share is None else share >= float(level.availability),
        }
    return told


def missed_levels(judged: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one line for each term that was not met."""
    words = {
        "response_time": "95 % of its answers came within {measured:g} s; {agreed:g} s were agreed",
        "availability": "it answered {measured:.1%} of the calls; {agreed:.1%} were agreed",
    }
    return [
        f"{party}: {words[term].format(**each)}"
        for party, terms in judged.items()
        for term, each in terms.items()
        if each.get("met") is False and term in words
    ]
