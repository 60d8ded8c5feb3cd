"""A session that is recorded, and the simulators of all its views.

A simulator makes the open and public fields of every message that one party gets from another, from what
docs/leakage.md grants to the receiver and from the receiver's own secrets. Masked fields it leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

import masquerade as mq
from leakage.coins import Leak, Recording, Tapes
from leakage.frozen import Frozen
from masquerade.net.memory import SentMessage

Rows = NDArray[np.intp]


class Made:
    """A simulated message: its kind, and its fields but for the masked ones."""

    def __init__(self, kind: str, **fields: Any) -> None:
        self.kind = kind
        self.fields: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(fields))


Views = Mapping[tuple[str, str], list[Made]]  # by sender and receiver


@dataclass(frozen=True)
class Session:
    """One protocol on small inputs. `play` takes the number of a set of private data and the tapes."""

    name: str
    public: Mapping[str, Any]  # numbers that everybody knows
    play: Callable[[int, Tapes], Recording]
    simulate: Callable[[int, Recording], Views]
    learnt: Callable[[int], object] = lambda _: None  # what else everybody sees, and lengths depend on


def compare(recording: Recording, simulated: Views, frozen: Frozen) -> None:
    """Every message that has an open or public field was made by the simulator, field by field and byte by byte."""
    pairs = {(each.sender, each.receiver) for each in recording.wire.heard} | set(simulated)
    for pair in sorted(pairs):
        real = [each for each in recording.between(*pair) if frozen.shown(each.kind)]
        made = [each for each in simulated.get(pair, []) if frozen.shown(each.kind)]
        if [each.kind for each in real] != [each.kind for each in made]:
            raise Leak(
                f"{pair[0]} tells {pair[1]} {[each.kind for each in real]}; "
                f"simulated are {[each.kind for each in made]}"
            )
        for heard, expected in zip(real, made, strict=True):
            _compare_fields(heard, expected, frozen)


def _compare_fields(heard: SentMessage, expected: Made, frozen: Frozen) -> None:
    told = dict(msgspec.msgpack.decode(heard.data))
    told.pop("kind")
    for name, value in told.items():
        where = f"{heard.kind}.{name}, from {heard.sender} to {heard.receiver}"
        if name in expected.fields:
            if value != expected.fields[name]:
                raise Leak(f"{where}, is not what a simulator makes of what is granted")
        elif "masked" not in frozen.classes(heard.kind, name):
            raise Leak(f"{where}: no simulator makes this field")


class Watched(mq.Table):
    """A table that remembers which of its rows were taken first: the common records in the common order."""

    common: Rows

    def take(self, rows: Any) -> mq.Table:
        if not hasattr(self, "common"):
            self.common = np.asarray(rows)
        return super().take(rows)


def random_order(drawn: bytes) -> Rows:
    """The order that a party shuffles into with these random bytes, eight an entry."""
    return np.argsort(np.frombuffer(drawn, np.uint64), kind="stable")
