"""The tests of three or more parties: sort the records by their joint labels under sharing, and compare k apart.

A table of joint counts would have a cell for each combination of all parties' groups. Sorting needs none:

    share     every party shares its labels, bit by bit; a record's key is the labels of all parties
    sort      a sorting network, whose comparisons and exchanges are circuits on shares (`crypto/circuit.py`);
              the bits that say which pairs were exchanged stay shared, too
    compare   a place's key equals the one k − 1 further on: then all places between have k equal keys; a place is good
              when it lies in such a run (log₂ k ORs of shifted strings)
    undo      the network backwards on the good bits, by the same exchange bits
    exclude   a record that some party labels as "never" is not good: its own group there has fewer than k

Where a requirement is on a sensitive attribute, its holder shares the values, too, and they are sorted along. Instead
of comparing, the parties count the values of every run (`checks.py`), and the circuit that the requirement
declares judges each place's counts, together with their total.

Nothing is opened here, and no order or number of groups is known to anybody: label bits follow from ⌊n/k⌋.

Who learns what: nothing but what `side.py` opens; against any n − 1 curious parties that follow the protocol
(`crypto/gmw.py`). Cost for n records, keys of w bits and C ≈ n·(log₂ n)²/4 comparators: (2·w + 1)·C ANDs, of
32 bytes for each pair of parties; messages that wait for each other: about w·(log₂ n)²/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from masquerade.crypto import Bits, Builder, Circuit, all_equal, both, layers, sized, to_bits, words
from masquerade.data import Table
from masquerade.engine import Rows, value_counts
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Receive, Script, Send
from masquerade.privacy import GroupRequirement, SharedRow
from masquerade.progress import OnStage, Stage
from masquerade.protocol.contract import Contract
from masquerade.protocol.dka.side import JointTests, Tested
from masquerade.protocol.pairs import Pair, exchange_nonces, prepare_pair, read_outputs, shared_outputs
from masquerade.protocol.providers.shared_counts import SharedBits, prepare
from masquerade.protocol.sensitive.back_ends import shared_tests, value_counts_of_groups
from masquerade.protocol.sensitive.checks import SensitiveValues, labelled_values
from masquerade.protocol.sensitive.histogram import Bounds, Labels, row_bits
from masquerade.protocol.shared_sort import equal_words, exchanged_words, linked_places, sort_shared

# --- sensitive tests ----------------------------------------------------------------------------------------
# Requirements on a sensitive attribute in DkA: which party has it, and whether a record's joint group satisfies.
#
# The attribute may be at any party. Between two, its holder splits its groups by value, so that each record's row of
# counts can be looked up (`protocol/sensitive/back_ends.py`); among more, the parties count by sorting (`checks.py`).
# The circuit that the requirement declares judges the row together with its total: a group that is too small is refused
# whatever is in it. The verdicts stay shared, as those on sizes do. A requirement that compares with all records that
# are left gets their counts from the holder of the values, as an input of its own.
#
# Who learns what: the other parties, once, how many different sensitive values the common records have (of
# those that the requirement lists, where it lists some). Cost between two: the histogram's, times the
# number S of values; a circuit of some 3·w·S ANDs a record.


@dataclass(frozen=True)
class SensitiveTest:
    """One requirement on a sensitive attribute, as one of the parties tests it."""

    part: GroupRequirement
    holder: int
    told: SensitiveValues
    values: Labels | None  # the common records' own, at the holder

    def good_groups(self, pair: Pair, side: Tested, bounds: Bounds, on_stage: OnStage) -> Script[Bits]:
        """Return this party's XOR share of "the record's joint group satisfies", one bit a remaining record."""
        counts = yield from value_counts_of_groups(
            pair,
            side.labels(),
            None if self.values is None else self.values[side.left],
            bounds,
            n_values=self.told.labels,
            holder=self.holder,
            on_stage=on_stage,
        )
        on_stage(Stage("comparing"))
        row = SharedRow(self.told.labels, self.told.bounded, bounds.records, bounds.width)
        circuit = judging_circuit(self.part, row, side.k)
        inputs = {f"row {pair.me}": row_bits(counts, bounds.width)}
        if self.part.compares_with_whole and self.values is not None:
            inputs["whole"] = np.repeat(self.whole(side), bounds.records, axis=1)
        out = yield from shared_outputs(pair, circuit, bounds.records, inputs)
        return np.asarray(out["good"][0])

    def of_rows(self, rows: Rows, n_records: int) -> SensitiveTest:
        """Return the same test, prepared for these of the common records, with values by their places among all."""
        if self.values is None or rows.size == n_records:
            return self
        values = np.zeros(n_records, self.values.dtype)
        values[rows] = self.values
        return replace(self, values=values)

    def whole(self, side: Tested) -> Bits:
        """Return the counts of each value in all remaining records, as the holder knows them; [bits, 1]."""
        digits = side.left.size.bit_length()
        counts = np.zeros(self.told.labels, np.int64)
        if self.values is not None:
            counts = value_counts(self.values[side.left].astype(np.int64), self.told.labels)
        return to_bits(counts, digits).T.reshape(-1, 1)


def prepare_sensitive_tests(
    me: int, parties: Sequence[str], contract: Contract, parts: Sequence[GroupRequirement], own: Table
) -> Script[tuple[SensitiveTest, ...]]:
    """Agree on how many values each sensitive attribute has; `own` are this party's common records.

    `parties` are those who test, among them the holders of all sensitive attributes of these requirements.
    """
    peers = tuple(name for name in parties if name != parties[me])
    tests = []
    for part in parts:
        if part.sensitive is None:
            continue
        holder = parties.index(contract.holders[part.sensitive])
        values: Labels | None = None
        if holder == me:
            values, told = labelled_values(part, own.coded(part.sensitive))
            yield Send(peers, told)
        else:
            peer = parties[holder]
            told = yield Receive(peer, SensitiveValues)
            if not 1 <= told.labels <= len(own) or not 0 <= told.bounded <= told.labels:
                raise PeerBrokeProtocol(peer, f"told of {told.labels} values for {len(own)} records")
        tests.append(SensitiveTest(part, holder, told, values))
    return tuple(tests)


@lru_cache(maxsize=64)
def judging_circuit(part: GroupRequirement, row: SharedRow, least: int) -> Circuit:
    """Return the circuit that judges one row of counts: whether they satisfy, and sum to at least `least`."""
    return sized(part.circuit(row), row.width, least, or_empty=False)


# --- joint tests --------------------------------------------------------------------------------------------
# The tests of two parties: every record's joint group, by the joint histogram (the paper's SSI_t for all of them).
#
# Where a requirement is on a sensitive attribute, its test takes the place of the one on sizes, which it includes.
#
# Rounds of messages: six a test, besides batches. Cost: see `protocol/sensitive/`.


def prepare_tests(me: int, parties: Sequence[str], purpose: bytes) -> Script[tuple[Pair | SharedBits, bytes]]:
    """Set up what the tests compute with, a pair, or shares of all who test; return it with the session's name."""
    if len(parties) == 2:
        pair = yield from prepare_pair(me, parties, purpose)
        return pair, pair.session
    session = purpose + b"".join((yield from exchange_nonces(me, parties)))
    return (yield from prepare(me, parties, session)), session


def joint_tests(tested: Pair | SharedBits, sensitive: Sequence[SensitiveTest], most: Sequence[int] = ()) -> JointTests:
    """Return this party's side of the tests; `most` are the bounds on groups where they are not as many as k allows."""
    return PairTests(tested, sensitive, most) if isinstance(tested, Pair) else SortedTests(tested, sensitive, most)


class PairTests(JointTests):
    """One party's side of the tests between two.

    `most` are the public bounds on both parties' groups, where they are not as many as k allows.
    """

    def __init__(self, pair: Pair, sensitive: Sequence[SensitiveTest] = (), most: Sequence[int] = ()) -> None:
        self._pair, self._sensitive, self._most = pair, sensitive, most
        self.peers = (pair.peer,)

    def good_groups(self, side: Tested, on_stage: OnStage) -> Script[Bits]:
        """Return this party's XOR share of "the record's joint group is good" (the paper's ω)."""
        first, second = self._most or (side.bound, side.bound)
        bounds = Bounds(side.left.size, (first, second), (side.k, side.k))
        if self._sensitive:
            shares = []
            for test in self._sensitive:
                shares.append((yield from test.good_groups(self._pair, side, bounds, on_stage)))
            return (yield from self.all_set(np.stack(shares)))
        return (yield from shared_tests(self._pair, side.labels(), side.k, bounds, on_stage))

    def unanimous(self, own: bool) -> Script[bool]:
        """Return whether both say yes."""
        inputs = {f"bit {self._pair.me}": np.array([[own]], np.uint8)}
        out = yield from read_outputs(self._pair, both(), 1, inputs)
        return bool(out["both"][0, 0])

    def all_set(self, shares: Bits) -> Script[Bits]:
        """Return this party's XOR share of the conjunction of each column."""
        if len(shares) == 1:
            return np.asarray(shares[0])
        inputs = {f"bits {self._pair.me}": shares ^ np.uint8(self._pair.me)}
        out = yield from shared_outputs(self._pair, all_equal(len(shares)), shares.shape[1], inputs)
        return np.asarray(out["holds"][0])


# --- run counts -----------------------------------------------------------------------------------------
# How often each value occurs in a record's group, where the records of a group stand side by side under sharing.
#
# After a sort (`checks.py`) each group is a run of places. Counts come about in two passes of ⌈log₂ n⌉ steps:
#
#     forwards    a place adds the counts of the place s before it, if both are in one run; s = 1, 2, 4, …
#                 Then each place has the counts of its run up to itself, and the last has all
#     backwards   a place takes the counts of the place s after it, under the same condition
#
# Whether two places 2·s apart are in one run is whether both halves of the way are. Nothing is opened.
#
# Cost for n records, S values and counts of w bits: about 3·S·w·n·log₂ n ANDs.


def value_bits(n_values: int) -> int:
    """Return how many bits a value takes."""
    return max(1, (n_values - 1).bit_length())


def counts_in_runs(shared: SharedBits, linked: Bits, codes: Bits, n_values: int, width: int) -> Script[Bits]:
    """Return this party's shares of the counts in each place's run, [values · width, places], lowest bit first.

    From shares of whether a place is in the run of the one before it, [1, places], and of the places' values,
    [bits, places], all of them below `n_values`.
    """
    n = codes.shape[1]
    marks = yield from shared.evaluate_shares(_one_hot(n_values, len(codes)), {"code": codes}, "marks")
    counts = np.zeros((n_values * width, n), np.uint8)
    counts[::width] = marks
    links: list[tuple[int, Bits]] = []
    apart = 1
    while apart < n:
        links.append((apart, linked))
        inputs = {"link": linked[:, apart:], "before": linked[:, :-apart]}
        inputs |= {"here": counts[:, apart:], "there": counts[:, :-apart]}
        out = yield from shared.evaluate_shares(_add_if(n_values, width), inputs, "link", "sum")
        linked = np.concatenate((np.zeros((1, apart), np.uint8), out[:1]), axis=1)
        counts = np.concatenate((counts[:, :apart], out[1:]), axis=1)
        apart *= 2
    for apart, linked in links:
        inputs = {"link": linked[:, apart:], "here": counts[:, :-apart], "there": counts[:, apart:]}
        taken = yield from shared.evaluate_shares(_take_if(n_values * width), inputs, "taken")
        counts = np.concatenate((taken, counts[:, n - apart :]), axis=1)
    return counts


@lru_cache(maxsize=16)
def _one_hot(n_values: int, bits: int) -> Circuit:
    build = Builder()
    code = build.input("code", bits)
    marks = [
        build.all_of([bit if value >> place & 1 else bit ^ 1 for place, bit in enumerate(code)])
        for value in range(n_values)
    ]
    build.output("marks", marks)
    return build.build()


@lru_cache(maxsize=16)
def _add_if(n_values: int, width: int) -> Circuit:
    """Add the counts of the other place if both are linked, and link the places that are twice as far apart."""
    build = Builder()
    (link,), (before,) = build.input("link", 1), build.input("before", 1)
    here, there = build.input("here", n_values * width), build.input("there", n_values * width)
    build.output("link", [build.both(link, before)])
    total: list[int] = []
    for at in range(0, n_values * width, width):
        added = [build.both(link, bit) for bit in there[at : at + width]]
        total += words.add(build, here[at : at + width], added)[:width]
    build.output("sum", total)
    return build.build()


@lru_cache(maxsize=16)
def _take_if(width: int) -> Circuit:
    build = Builder()
    (link,) = build.input("link", 1)
    here, there = build.input("here", width), build.input("there", width)
    taken = [build.xor(a, build.both(link, build.xor(a, b))) for a, b in zip(here, there, strict=True)]
    build.output("taken", taken)
    return build.build()


# --- sorted tests -------------------------------------------------------------------------------------------


class SortedTests(JointTests):
    """One party's side of the tests among several.

    `most` are the public bounds on all parties' groups, where they are not as many as k allows.
    """

    def __init__(self, shared: SharedBits, sensitive: Sequence[SensitiveTest] = (), most: Sequence[int] = ()) -> None:
        self._shared, self._sensitive, self._most = shared, sensitive, most
        self.peers = shared.peers

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
        good = yield from self._satisfying(rows, keys, side) if values else self._in_runs(keys, side.k)
        for (low, high), swaps in zip([*layers(n)][::-1], exchanged[::-1], strict=True):
            inputs = {"swap": swaps, "low": good[:, low], "high": good[:, high]}
            out = yield from self._shared.evaluate_shares(_exchange(1), inputs, "low", "high")
            good[:, low], good[:, high] = out[:1], out[1:]
        allowed = np.concatenate([good, *(each[-1:] for each in everybody)])
        return np.asarray((yield from self._all_of(allowed))[0])

    def all_set(self, shares: Bits) -> Script[Bits]:
        """Return this party's XOR share of the conjunction of each column."""
        return np.asarray((yield from self._all_of(shares))[0])

    def unanimous(self, own: bool) -> Script[bool]:
        """Return whether all parties say yes."""
        build = Builder()
        said = [build.input(f"provider {at}", 1)[0] for at in range(len(self._shared.parties))]
        build.output("all", [build.all_of(said)])
        out = yield from self._shared.evaluate(build.build(), np.array([[own]], np.uint8), "all")
        return bool(out[0, 0])

    def _values(self, test: SensitiveTest, side: Tested) -> Bits:
        """Return this party's shares of the remaining records' sensitive values; [bits, records]."""
        own = np.zeros((value_bits(test.told.labels), side.left.size), np.uint8)
        if test.values is not None:
            own = row_bits(test.values[side.left, None], len(own))
        return self._shared.share(test.holder, own)

    def _satisfying(self, rows: Bits, keys: Bits, side: Tested) -> Script[Bits]:
        """Return shares of whether each place's run satisfies every requirement; [1, records]."""
        n = keys.shape[1]
        linked = yield from linked_places(self._shared, keys)
        verdicts, at = [], 0
        for test in self._sensitive:
            row = SharedRow(test.told.labels, test.told.bounded, n, n.bit_length() + 1)
            codes = rows[at : at + value_bits(test.told.labels)]
            at += len(codes)
            counts = yield from counts_in_runs(self._shared, linked, codes, test.told.labels, row.width)
            inputs = {"row 0": counts, "row 1": np.zeros_like(counts)}  # circuits take two addends
            if test.part.compares_with_whole:
                inputs["whole"] = np.repeat(self._shared.share(test.holder, test.whole(side)), n, axis=1)
            circuit = judging_circuit(test.part, row, side.k)
            verdicts.append((yield from self._shared.evaluate_shares(circuit, inputs, "good")))
        return (yield from self._all_of(np.concatenate(verdicts)))

    def _in_runs(self, keys: Bits, k: int) -> Script[Bits]:
        """Return shares of whether each place lies in a run of k equal keys; [1, records]."""
        n = keys.shape[1]
        good = np.zeros((1, n), np.uint8)  # of the run that starts here
        starts = {"left": keys[:, : n - k + 1], "right": keys[:, k - 1 :]}
        good[:, : n - k + 1] = yield from self._shared.evaluate_shares(equal_words(len(keys)), starts, "equal")
        reach = 1  # of how many places back a run may start
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
    return np.concatenate((row_bits(labels[:, None], bound.bit_length()), np.array([labels < never], np.uint8)))


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
