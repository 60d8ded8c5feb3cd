"""How far columns of several parties together tell records apart: one ratio comes out, and nothing else.

Every party numbers the groups of its own columns. A record's key is the numbers of all parties, shared bit by bit.

    sort      equal keys stand side by side (`protocol/shared_sort.py`)
    count     distinct ratio: the places whose key is that of the place before, which are n − groups
              separation ratio: for each place the others of its stretch, c − 1: together twice the pairs of equal keys
    add up    a tree of additions on shares
    open      the sum; or only how many steps of an agreed precision the ratio reaches

A table of joint counts would need a bound on every party's number of groups, which is its own columns' distinct ratio.
Here numbers have ⌈log₂ n⌉ bits whatever they are, so that nobody shows how many groups it has.

Who learns what: all parties the ratio, or its steps, against any n − 1 curious parties that follow the protocol
(`crypto/gmw.py`). A party that gives other numbers than its columns' learns the ratio of those (docs/leakage.md).
Cost for n records and keys of w bits: about w·n·(log₂ n)²/2 ANDs to sort; separation adds 3·n·(log₂ n)².
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import words
from masquerade.crypto.bits import Bits
from masquerade.crypto.circuit import FALSE, Builder, Circuit
from masquerade.net.progress import OnStage, Stage, silent
from masquerade.net.script import Script
from masquerade.protocol.collaborate.shared_bits import SharedBits
from masquerade.protocol.dka.stretch_counts import counts_in_stretches
from masquerade.protocol.shared_sort import linked_places, sort_shared
from masquerade.risk.separation import Measure

Groups = NDArray[np.int64]  # of each record, the number of its group at one party


@dataclass(frozen=True)
class Scale:
    """Between which numbers a ratio lies, and how much of it is opened; public, and the same for all parties."""

    records: int
    measure: Measure
    steps: int | None = None  # the ratio is opened in steps of 1 / `steps`, rounded down; None: as it is

    @property
    def whole(self) -> int:
        """The records; or the pairs of records, each counted from both."""
        return self.records if self.measure == "distinct" else self.records * (self.records - 1)

    def ratio(self, opened: int) -> float:
        """Return the ratio that an opened number stands for; 1 where there is nothing to tell apart."""
        if self.steps is not None:
            return opened / self.steps
        return 1.0 if not self.whole else (self.whole - opened) / self.whole

    @property
    def most(self) -> int:
        """The highest number that can be opened."""
        return self.whole if self.steps is None else self.steps

    @property
    def limits(self) -> list[int]:
        """How many records, or pairs, may be alike so that the ratio still reaches each step; the last step first."""
        assert self.steps is not None
        return [self.whole * at // self.steps for at in range(self.steps)]


def joint_ratios(
    shared: SharedBits, own: Sequence[Groups], scale: Scale, on_stage: OnStage = silent
) -> Script[list[int]]:
    """Return, for each set, the number that says how far all parties' groups together tell the records apart.

    See `Scale`. `own` has this party's groups of each set; all sets are done beside each other.
    """
    n, n_sets = scale.records, len(own)
    if n < 2:  # there is nothing to tell apart
        return [0 if scale.steps is None else scale.steps] * n_sets
    mine = _bits(np.concatenate(own), (n - 1).bit_length())
    keys = np.concatenate([shared.share(number, mine) for number in range(len(shared.parties))])
    yield from sort_shared(shared, keys, n_sets, lambda done: on_stage(Stage("sorting", percent=done)))
    on_stage(Stage("counting"))
    alike = yield from linked_places(shared, keys, n_sets)
    if scale.measure == "separation":
        nobody = np.zeros((1, n * n_sets), np.uint8)
        sizes = yield from counts_in_stretches(shared, alike, nobody, 1, n.bit_length())
        alike = yield from shared.evaluate_shares(_one_less(len(sizes)), {"size": sizes}, "others")
    totals = yield from sums_of_shares(shared, alike.reshape(len(alike), n_sets, n))
    if scale.steps is not None:
        totals = yield from _steps_reached(shared, totals, scale)
    on_stage(Stage("opening"))
    opened = yield from shared.open_from_shares(_as_it_is(len(totals)), {"word": totals}, "word")
    return [sum(int(bit) << place for place, bit in enumerate(word)) for word in opened.T]


def sums_of_shares(shared: SharedBits, numbers: Bits) -> Script[Bits]:
    """Return shares of the sums of lists of shared numbers, [bits, lists, numbers] to [more bits, lists]."""
    while numbers.shape[2] > 1:
        width, lists, length = numbers.shape
        if length % 2:
            numbers = np.concatenate((numbers, np.zeros((width, lists, 1), np.uint8)), axis=2)
        inputs = {"one": numbers[:, :, ::2], "other": numbers[:, :, 1::2]}
        flat = {name: bits.reshape(width, -1) for name, bits in inputs.items()}
        added = yield from shared.evaluate_shares(_added(width), flat, "sum")
        numbers = added.reshape(width + 1, lists, -1)
    return numbers[:, :, 0]


def _steps_reached(shared: SharedBits, totals: Bits, scale: Scale) -> Script[Bits]:
    """Return shares of how many limits each total stays within."""
    limits = np.array(scale.limits, np.uint64)
    width, lists = max(len(totals), int(limits.max()).bit_length()), totals.shape[1]
    padded = np.concatenate((totals, np.zeros((width - len(totals), lists), np.uint8)))
    public = np.tile(_bits(limits, width), lists)
    if shared.me != 0:  # what all know, one party shares
        public = np.zeros_like(public)
    inputs = {"limit": public, "number": np.repeat(padded, limits.size, axis=1)}
    within = yield from shared.evaluate_shares(_within(width), inputs, "within")
    return (yield from sums_of_shares(shared, within.reshape(1, lists, -1)))


def _bits(numbers: NDArray[np.int64] | NDArray[np.uint64], width: int) -> Bits:
    places = np.arange(width, dtype=np.uint64)[:, None]
    return ((numbers.astype(np.uint64) >> places) & np.uint64(1)).astype(np.uint8)


@lru_cache(maxsize=64)
def _added(width: int) -> Circuit:
    build = Builder()
    one, other = build.input("one", width), build.input("other", width)
    build.output("sum", words.add(build, [*one, FALSE], [*other, FALSE]))
    return build.build()


@lru_cache(maxsize=16)
def _one_less(width: int) -> Circuit:
    build = Builder()
    size = build.input("size", width)
    build.output("others", words.subtract(build, size, words.constant(1, width)))
    return build.build()


@lru_cache(maxsize=16)
def _within(width: int) -> Circuit:
    build = Builder()
    limit, number = build.input("limit", width), build.input("number", width)
    build.output("within", [words.at_least(build, limit, number)])
    return build.build()


@lru_cache(maxsize=16)
def _as_it_is(width: int) -> Circuit:
    build = Builder()
    build.output("word", build.input("word", width))
    return build.build()
