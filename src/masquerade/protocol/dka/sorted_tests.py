"""The tests of three or more parties: sort the records by their joint labels under sharing, and compare k apart.

A table of joint counts would have a cell for each combination of all parties' groups. Sorting needs none:

    share     every party shares its labels, bit by bit; a record's key is the labels of all parties
    sort      a sorting network, whose comparisons and exchanges are circuits on shares (`crypto/sorting_network.py`);
              the bits that say which pairs were exchanged stay shared, too
    compare   a place's key equals the one k − 1 further on: then all places between have k equal keys; a place is good
              when it lies in such a stretch (log₂ k ORs of shifted strings)
    undo      the network backwards on the good bits, by the same exchange bits
    exclude   a record that some party labels as "never" is not good: its own group there has fewer than k

Where a requirement is on a sensitive attribute, its holder shares the values, too, and they are sorted along. Instead
of comparing, the parties count the values of every stretch (`stretch_counts.py`), and the circuit that the requirement
declares judges each place's counts, together with their total.

Nothing is opened here, and no order or number of groups is known to anybody: label bits follow from ⌊n/k⌋.

Who learns what: nothing but what `rounds.py` opens; against any n − 1 curious parties that follow the protocol
(`crypto/gmw.py`). Cost for n records, keys of w bits and C ≈ n·(log₂ n)²/4 comparators: (2·w + 1)·C ANDs, of
32 bytes for each pair of parties; messages that wait for each other: about w·(log₂ n)²/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from masquerade.crypto.bits import Bits
from masquerade.crypto.circuit import Builder, Circuit
from masquerade.crypto.sorting_network import layers
from masquerade.net.progress import OnStage, Stage
from masquerade.net.script import Script
from masquerade.privacy.requirement import SharedRow
from masquerade.protocol.collaborate.shared_bits import SharedBits
from masquerade.protocol.dka.groups import Labels
from masquerade.protocol.dka.sensitive_tests import SensitiveTest, judging_circuit
from masquerade.protocol.dka.side import Tested
from masquerade.protocol.dka.stretch_counts import counts_in_stretches, value_bits
from masquerade.protocol.shared_sort import equal_words, exchanged_words, linked_places, sort_shared


class SortedTests:
    """One party's side of the tests among several.

    `most` are the public bounds on all parties' groups, where they are not as many as k allows.
    """

    def __init__(
        self, shared: SharedBits, sensitive: Sequence[SensitiveTest] = (), most: Sequence[int] = ()
    ) -> None:
        self._shared, self._sensitive, self._most = shared, sensitive, most

    @property
    def peers(self) -> Sequence[str]:
        """The other parties."""
        return self._shared.peers

    def good_groups(self, side: Tested, on_stage: OnStage) -> Script[Bits]:
        """Return this party's XOR share of "the record's joint group is good"."""
        labels, n = side.labels(), side.left.size
        everybody = [
            self._shared.share(number, _label_bits(labels, side.bound, bound))
            for number, bound in enumerate(self._most or [side.bound] * len(self._shared.parties))
        ]
        on_stage(Stage("sorting"))
        values = [self._values(test, side) for test in self._sensitive]
        # The values come first, as the lowest digits: records of one group stay together.
        rows = np.concatenate([*values, *(each[:-1] for each in everybody)])
        exchanged = yield from sort_shared(self._shared, rows)
        on_stage(Stage("comparing"))
        keys = rows[sum(map(len, values)) :]
        good = yield from self._satisfying(rows, keys, side) if values else self._in_stretches(keys, side.k)
        for (low, high), swaps in zip([*layers(n)][::-1], exchanged[::-1], strict=True):
            inputs = {"swap": swaps, "low": good[:, low], "high": good[:, high]}
            out = yield from self._shared.evaluate_shares(_exchange(1), inputs, "low", "high")
            good[:, low], good[:, high] = out[:1], out[1:]
        allowed = np.concatenate([good, *(each[-1:] for each in everybody)])
        return np.asarray((yield from self._all_of(allowed))[0])

    def conjunction(self, share: Bits) -> Script[Bits]:
        """Return this party's share of whether all bits are set."""
        return (yield from self.all_set(share[:, None]))

    def all_set(self, shares: Bits) -> Script[Bits]:
        """Return this party's XOR share of the conjunction of each column."""
        return np.asarray((yield from self._all_of(shares))[0])

    def unanimous(self, own: bool) -> Script[bool]:
        """Return whether all parties say yes."""
        circuit = _all_say(len(self._shared.parties))
        out = yield from self._shared.evaluate(circuit, np.array([[own]], np.uint8), "all")
        return bool(out[0, 0])

    def _values(self, test: SensitiveTest, side: Tested) -> Bits:
        """Return this party's shares of the remaining records' sensitive values; [bits, records]."""
        own = np.zeros((value_bits(test.told.labels), side.left.size), np.uint8)
        if test.values is not None:
            places = np.arange(len(own), dtype=np.uint64)[:, None]
            own = ((test.values[side.left] >> places) & np.uint64(1)).astype(np.uint8)
        return self._shared.share(test.holder, own)

    def _satisfying(self, rows: Bits, keys: Bits, side: Tested) -> Script[Bits]:
        """Return shares of whether each place's stretch satisfies every requirement; [1, records]."""
        n = keys.shape[1]
        linked = yield from linked_places(self._shared, keys)
        verdicts, at = [], 0
        for test in self._sensitive:
            row = SharedRow(test.told.labels, test.told.bounded, n, n.bit_length() + 1)
            codes = rows[at : at + value_bits(test.told.labels)]
            at += len(codes)
            counts = yield from counts_in_stretches(self._shared, linked, codes, test.told.labels, row.width)
            inputs = {"row 0": counts, "row 1": np.zeros_like(counts)}  # circuits take two addends
            if test.part.compares_with_whole:
                inputs["whole"] = np.repeat(self._shared.share(test.holder, test.whole(side)), n, axis=1)
            circuit = judging_circuit(test.part, row, side.k)
            verdicts.append((yield from self._shared.evaluate_shares(circuit, inputs, "good")))
        return (yield from self._all_of(np.concatenate(verdicts)))

    def _in_stretches(self, keys: Bits, k: int) -> Script[Bits]:
        """Return shares of whether each place lies in a stretch of k equal keys; [1, records]."""
        n = keys.shape[1]
        good = np.zeros((1, n), np.uint8)  # of the stretch that starts here
        starts = {"left": keys[:, : n - k + 1], "right": keys[:, k - 1 :]}
        good[:, : n - k + 1] = yield from self._shared.evaluate_shares(
            equal_words(len(keys)), starts, "equal"
        )
        reach = 1  # of how many places back a stretch may start
        while reach < k:
            by = min(reach, k - reach)
            earlier = np.zeros_like(good)
            earlier[:, by:] = good[:, :-by]
            good = yield from self._shared.evaluate_shares(_either(), {"a": good, "b": earlier}, "either")
            reach += by
        return good

    def _all_of(self, shares: Bits) -> Script[Bits]:
        """Return this party's shares of the conjunction of each column; [1, columns]."""
        circuit = _conjunction(len(shares))
        return (yield from self._shared.evaluate_shares(circuit, {"bits": shares}, "all"))


def _label_bits(labels: Labels, never: int, bound: int) -> Bits:
    """Return the labels in as many bits as those of a party with such a bound, and which are not `never`."""
    places = np.arange(bound.bit_length(), dtype=np.uint64)[:, None]
    return np.concatenate(((labels >> places) & np.uint64(1), [labels < never])).astype(np.uint8)


@lru_cache(maxsize=4)
def _exchange(width: int) -> Circuit:
    """Exchange two words if `swap` is set."""
    build = Builder()
    (swap,) = build.input("swap", 1)
    exchanged_words(build, swap, build.input("low", width), build.input("high", width))
    return build.build()


@lru_cache(maxsize=1)
def _either() -> Circuit:
    build = Builder()
    (a,), (b,) = build.input("a", 1), build.input("b", 1)
    build.output("either", [build.either(a, b)])
    return build.build()


@lru_cache(maxsize=4)
def _conjunction(size: int) -> Circuit:
    build = Builder()
    build.output("all", [build.all_of(build.input("bits", size))])
    return build.build()


@lru_cache(maxsize=4)
def _all_say(n_parties: int) -> Circuit:
    build = Builder()
    build.output("all", [build.all_of([*(build.input(f"provider {at}", 1)[0] for at in range(n_parties))])])
    return build.build()
