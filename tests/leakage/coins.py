"""Sessions whose randomness is known: every party draws from a tape of its own, and the clock stands still.

All secrets, masks and shuffles come from `random_bytes`, which reads `os.urandom` (`secrets` reads it, too). With one
tape a party a session is a function of inputs and tapes: it can be repeated byte for byte, a party's own secrets are
known to the test, and the tapes of its peers alone can be changed.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from masquerade.errors import PeerError
from masquerade.net import Script
from masquerade.net.memory import SentMessage, Wire, run_together
from masquerade.progress import Stage

Draws = dict[tuple[str, int], list[bytes]]  # by party and number of bytes: what it draws instead


class Leak(AssertionError):
    """Somebody could learn what docs/leakage.md does not grant."""


class Tapes:
    """One tape a party, made from its name and a seed; `seeds` names those that differ from `seed`."""

    def __init__(self, seed: object = 0, **seeds: object) -> None:
        self._seed, self._seeds = seed, seeds
        self._at: dict[str, int] = defaultdict(int)
        self.drawn: dict[str, list[bytes]] = defaultdict(list)
        self.sizes: dict[str, set[int]] = defaultdict(set)  # by the function that drew: how many bytes at once
        self.running = ""  # the party that computes
        self.instead: Draws = {}

    def draw(self, size: int) -> bytes:
        """The next bytes of the party that computes."""
        party = self.running
        self._at[party] += 1
        given = self.instead.get((party, size))
        if given:
            found, self.instead[party, size] = given[0], given[1:]
        else:
            text = f"{self._seeds.get(party, self._seed)}/{party}/{self._at[party]}"
            found = hashlib.shake_256(text.encode()).digest(size)
        self.drawn[party].append(found)
        frame: Any = sys._getframe(1)
        while frame.f_code.co_name == "random_bytes" or frame.f_globals["__name__"] in ("random", "secrets"):
            frame = frame.f_back
        self.sizes[f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}"].add(size)
        return found

    def place(self, party: str) -> int:
        """How far a party's tape is drawn."""
        return self._at[party]

    def rewind(self, party: str, place: int) -> None:
        """Let a party draw once more what it has drawn from a place of its tape on."""
        self._at[party] = place

    def drew(self, party: str, size: int, *, last: bool = False) -> bytes:
        """What a party drew when it first, or last, asked for this many bytes."""
        for each in reversed(self.drawn[party]) if last else self.drawn[party]:
            if len(each) == size:
                return each
        raise Leak(f"{party} never drew the {size} random bytes that the simulator makes its message of")

    @contextmanager
    def dealt(self) -> Iterator[None]:
        """While this lasts, all randomness is read from these tapes."""
        with patch("os.urandom", self.draw), patch("random._urandom", self.draw):
            yield


@dataclass
class Recording:
    """A session as it was: all messages in order, what each party got out of it, and the tapes."""

    wire: Wire
    tapes: Tapes
    results: dict[str, Any] = field(default_factory=dict)
    stages: Mapping[str, Sequence[Stage]] = field(default_factory=dict)  # by party: the progress that it tells
    error: Exception | None = None

    def between(self, sender: str, receiver: str) -> list[SentMessage]:
        """All that one party told another, in order."""
        return [each for each in self.wire.heard if (each.sender, each.receiver) == (sender, receiver)]


def recorded(scripts: Mapping[str, Script[Any]], tapes: Tapes, ends_with: type[Exception] | None = None) -> Recording:
    """Run all scripts on these tapes, with a clock that always says 0."""
    made = Recording(Wire(), tapes)
    owned = {name: _on_its_tape(name, script, tapes) for name, script in scripts.items()}
    with tapes.dealt(), patch("time.perf_counter", lambda: 0.0):
        try:
            made.results = run_together(owned, made.wire)
        except Exception as error:
            if ends_with is None or not isinstance(error, ends_with):
                raise
            made.error = error
    return made


def _on_its_tape(name: str, script: Script[Any], tapes: Tapes) -> Script[Any]:
    heard: Any = None
    while True:
        tapes.running = name
        try:
            move = script.throw(heard) if isinstance(heard, PeerError) else script.send(heard)
        except StopIteration as end:
            return end.value
        finally:
            tapes.running = ""
        try:
            heard = yield move
        except PeerError as lost:
            heard = lost
