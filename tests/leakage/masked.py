"""A piece of a protocol in which something is masked, and two worlds that one of its parties must not tell apart.

The party has its own input, and what it may learn is the same in both worlds; its peers' inputs differ. A piece is set
up once and repeated; the party's own coins are the same in each repetition, so that what it sees is compared together
with its own secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from leakage.coins import Draws, Leak, Recording, Tapes, recorded
from leakage.distributions import Seen
from leakage.frozen import Frozen
from masquerade.net import Script

NAMES = ("anna", "berta", "carla", "dora")
REPEAT = 80  # enough to notice one bit that is constant in one world and a fair coin in the other


@dataclass(frozen=True)
class Piece:
    """What is set up once, by party; and what is repeated, by setup, party, the party that looks, and world."""

    name: str
    start: Callable[[int], Script[Any]]
    once: Callable[[Any, int, int, int], Script[Any]]
    n_parties: int = 2
    repeat: int = REPEAT

    def worlds(self, me: int, frozen: Frozen, masks: Draws | None = None) -> tuple[Seen, Seen]:
        """What party `me` sees and gets in either world, by repetition.

        One session has both worlds, so that it is set up once; they come in a random order, so that counters in what
        is heard do not tell them apart. `masks` are draws that come once in each world.
        """
        names = NAMES[: self.n_parties]
        tapes = Tapes(**{NAMES[me]: "own"})
        order = np.random.default_rng(7).permutation(np.repeat((0, 1), self.repeat)).tolist()
        for what, draws in (masks or {}).items():
            left = {0: iter(draws), 1: iter(draws)}
            tapes.instead[what] = [next(left[world]) for world in order]
        seen: list[dict[str, bytes]] = []

        def part(number: int) -> Script[None]:
            setup = yield from self.start(number)
            place = tapes.place(names[number])
            for world in order:
                if number == me:
                    tapes.rewind(names[number], place)
                found = yield from self.once(setup, number, me, world)
                if number == me:
                    seen.append({"the result": np.ascontiguousarray(found).tobytes()})

        recording = recorded({name: part(number) for number, name in enumerate(names)}, tapes)
        for kind, field in sorted(frozen.masked_by(self.name)):
            told = {name: self._told(recording, name, names[me], kind, field) for name in names}
            told[names[me]] = self._told(recording, names[me], names[me - 1], kind, field)
            for time, row in enumerate(seen):
                now = {name: each[time] for name, each in told.items()}
                for name in now.keys() - {names[me]}:
                    row |= {f"{kind}.{field} {at} of {name}": each for at, each in enumerate(now[name])}
                for at, together in enumerate(zip(*now.values(), strict=False)):
                    row[f"{kind}.{field} {at} of all together"] = added_up(together)
        one, other = ([seen[at] for at, each in enumerate(order) if each == world] for world in (0, 1))
        return one, other

    def _told(self, recording: Recording, sender: str, receiver: str, kind: str, field: str) -> list[list[bytes]]:
        """What one party tells another in this field, by repetition."""
        heard = [each for each in recording.between(sender, receiver) if each.kind == kind]
        told = [msgspec.msgpack.decode(each.data)[field] for each in heard]
        data = [each if isinstance(each, bytes) else b"".join(each) for each in told]
        each_time, left = divmod(len(data), 2 * self.repeat)
        if left:
            raise Leak(f"{self.name}: how often {kind} is told depends on coins or data")
        return [data[at * each_time : (at + 1) * each_time] for at in range(2 * self.repeat)]


def added_up(messages: Sequence[bytes]) -> bytes:
    """The sum without carry of all parties' messages, one's own among them: of shares, what they are shares of."""
    size = min(map(len, messages))
    rows = [np.frombuffer(each[:size], np.uint8) for each in messages]
    return np.bitwise_xor.reduce(rows).tobytes() if size else b""
