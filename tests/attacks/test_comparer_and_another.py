"""Attack: the comparer, with other parties on its side, asks which of their people one more party knows.

The comparer has all lists, blinded by everybody, and sees which points occur where. Who knows whose point one is
learns about somebody who is not common to all. So every party shuffles each list that it passes on, and the attackers
lack the shuffle of the party that they attack.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from masquerade.engine import Rows
from masquerade.net import Script
from masquerade.net.memory import run_together
from masquerade.protocol.align import curve as module
from masquerade.protocol.align.align import align
from masquerade.protocol.align.curve import routes


class Watched:
    """A session of which each party's shuffles, and what the comparer compares, are written down."""

    def __init__(self, lists: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
        self.shuffles: dict[str, list[Rows]] = {}
        self.compared: list[Any] = []
        self._at_work = ""
        monkeypatch.setattr(module, "_random_order", self._noted(module._random_order))
        monkeypatch.setattr(module, "common_positions", self._seen(module.common_positions))
        self.names = [f"p{number}" for number in range(len(lists))]
        run_together({name: self._watched(me, lists[me]) for me, name in enumerate(self.names)})

    def _watched(self, me: int, people: list[int]) -> Script[Rows]:
        script = align(me, self.names, [b"%d" % each for each in people], b"session")
        heard: Any = None
        while True:
            self._at_work = self.names[me]
            try:
                move = script.send(heard)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return] # rows
            heard = yield move

    def _noted(self, shuffle: Any) -> Any:
        def noted(size: int) -> Rows:
            made: Rows = shuffle(size)
            self.shuffles.setdefault(self._at_work, []).append(made)
            return made

        return noted

    def _seen(self, compare: Any) -> Any:
        def seen(lists: Any) -> Any:
            self.compared = [[bytes(point) for point in points] for points in lists]
            return compare(lists)

        return seen

    def shuffle(self, party: int, owner: int) -> Rows:
        """A party's own order, or its shuffle of a list that it passed on."""
        ways = routes(len(self.names))
        passed = sorted((stops.index(party), at) for at, stops in enumerate(ways) if party in stops[1:-1])
        of_owner = [party, *(each for _, each in passed)]
        return self.shuffles[self.names[party]][of_owner.index(owner)]

    def guess(self, owner: int, attacked: int, *, lacking: int | None) -> set[int]:
        """Return which rows of the owner the attacked party has, as found with all shuffles but one party's."""
        known = {*self.compared[attacked]}
        positions = np.flatnonzero([point in known for point in self.compared[owner]])
        for party in reversed(routes(len(self.names))[owner][:-1]):
            if party != lacking:
                positions = self.shuffle(party, owner)[positions]
        return {int(row) for row in positions}


@pytest.mark.parametrize("n", [3, 4])
def test_all_others_together_cannot_tell_whom_a_party_knows(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each list: people of everybody, people whom its owner shares with each one other party, and strangers.
    pairs = [{1000 * min(a, b) + 100 * max(a, b) + each for each in range(60)} for a, b in _pairs(n)]
    lists = [
        sorted({*range(10)}.union(*(people for people, pair in zip(pairs, _pairs(n), strict=True) if me in pair)))
        + [10**6 * (me + 1) + each for each in range(200)]
        for me in range(n)
    ]
    watched = Watched(lists, monkeypatch)
    for attacked in range(n - 1):
        for owner in range(n):
            if owner != attacked:
                truth = {row for row, each in enumerate(lists[owner]) if each in {*lists[attacked]}}
                guessed = watched.guess(owner, attacked, lacking=attacked)
                assert len(guessed) == len(truth) == 70  # how many: that much the comparer learns
                # Who: no better than drawn by lot (of 330 and more people; 53 right ones are ten deviations off).
                assert len(guessed & truth) < 53


def _pairs(n: int) -> list[tuple[int, int]]:
    return [(one, other) for one in range(n) for other in range(one + 1, n)]


def test_who_had_every_shuffle_could_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watcher reads the shuffles right, so the attack above fails for want of one of them."""
    lists = [[*range(40)], [*range(20, 60)], [*range(30, 70)]]
    watched = Watched(lists, monkeypatch)
    for owner in range(3):
        for other in {0, 1, 2} - {owner}:
            found = {lists[owner][row] for row in watched.guess(owner, other, lacking=None)}
            assert found == {*lists[owner]} & {*lists[other]}
