"""Requirements on a sensitive attribute in DkA: which party has it, and whether a record's joint group satisfies.

The attribute may be at any party. Between two, its holder splits its groups by value, so that each record's row of
counts can be looked up (`joint_histogram/value_counts.py`); among more, the parties count by sorting
(`sorted_tests.py`). The circuit that the requirement declares judges the row together with its total: a group that is
too small is refused whatever is in it. The verdicts stay shared, as those on sizes do. A requirement that compares with
all records that are left gets their counts from the holder of the values, as an input of its own.

Who learns what: the other parties, once, how many different sensitive values the common records have (of those that the
requirement lists, where it lists some). Cost between two: the histogram's, times the number S of values; a circuit of
some 3·w·S ANDs a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from masquerade.crypto.bits import Bits
from masquerade.crypto.circuit import Circuit, to_bits
from masquerade.crypto.count_circuits import sized
from masquerade.data.column import Coded
from masquerade.data.table import Table
from masquerade.engine.counts import Rows, value_counts
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.progress import OnStage, Stage
from masquerade.net.script import Receive, Script, Send
from masquerade.privacy.requirement import GroupRequirement, SharedRow
from masquerade.protocol.contract import Contract
from masquerade.protocol.dka.side import Tested
from masquerade.protocol.joint_histogram.histogram import Bounds, Labels
from masquerade.protocol.joint_histogram.pair import Pair, shared_outputs
from masquerade.protocol.joint_histogram.value_counts import value_counts_of_groups
from masquerade.protocol.sensitive_checks import SensitiveValues, labelled_values


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
        places = np.arange(bounds.width, dtype=np.uint64)
        bits = (counts.astype(np.uint64)[:, :, None] >> places) & np.uint64(1)
        words = np.ascontiguousarray(bits.reshape(bounds.records, -1).T.astype(np.uint8))
        circuit = judging_circuit(self.part, row, side.k)
        inputs = {f"row {pair.me}": words}
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
    holders = {column.name: column.holder for column in contract.columns}
    peers = tuple(name for name in parties if name != parties[me])
    tests = []
    for part in parts:
        if part.sensitive is None:
            continue
        holder = parties.index(holders[part.sensitive])
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


def own_sensitive(name: str, contract: Contract, own: Table) -> dict[str, Coded]:
    """Return the sensitive attributes that a party holds and some requirement is about."""
    mine = {column.name for column in contract.columns_of(name)}
    return {
        part.sensitive: own.coded(part.sensitive)
        for part in contract.parts
        if part.sensitive is not None and part.sensitive in mine
    }


@lru_cache(maxsize=64)
def judging_circuit(part: GroupRequirement, row: SharedRow, least: int) -> Circuit:
    """Return the circuit that judges one row of counts: whether they satisfy, and sum to at least `least`."""
    return sized(part.circuit(row), row.width, least, or_empty=False)
