"""Requirements on a sensitive attribute in DkA: which party has it, and whether a record's joint group satisfies.

The attribute may be at any party. Between two, its holder splits its groups by value, so that each record's row of
counts can be looked up (`joint_histogram/value_counts.py`); among more, the parties count by sorting
(`sorted_tests.py`). The circuit that the requirement declares judges the row together with its total: a group that is
too small is refused whatever is in it. The verdicts stay shared, as those on sizes do.

Who learns what: the other parties, once, how many different sensitive values the common records have (of those that the
requirement lists, where it lists some). Cost between two: the histogram's, times the number S of values; a circuit of
some 3·w·S ANDs a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from masquerade.crypto.bits import Bits
from masquerade.crypto.circuit import Circuit
from masquerade.crypto.count_circuits import sized
from masquerade.data.column import Coded
from masquerade.data.table import Table
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.progress import OnStage, Stage
from masquerade.net.script import Receive, Script, Send
from masquerade.privacy.requirement import GroupRequirement, SharedRow
from masquerade.protocol.contract import Contract
from masquerade.protocol.dka.side import Side
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

    def good_groups(self, pair: Pair, side: Side, on_stage: OnStage) -> Script[Bits]:
        """Return this party's XOR share of "the record's joint group satisfies", one bit a remaining record."""
        bounds = Bounds(side.left.size, (side.bound, side.bound))
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
        out = yield from shared_outputs(pair, circuit, bounds.records, {f"row {pair.me}": words})
        return np.asarray(out["good"][0])


def prepare_sensitive_tests(me: int, contract: Contract, own: Table) -> Script[tuple[SensitiveTest, ...]]:
    """Agree on how many values each sensitive attribute has; `own` are this party's common records."""
    holders = {column.name: column.holder for column in contract.columns}
    peers = tuple(name for name in contract.parties if name != contract.parties[me])
    tests = []
    for part in contract.parts:
        if part.sensitive is None:
            continue
        holder = contract.parties.index(holders[part.sensitive])
        values: Labels | None = None
        if holder == me:
            values, told = labelled_values(part, own.coded(part.sensitive))
            yield Send(peers, told)
        else:
            peer = contract.parties[holder]
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
    """Return the circuit that judges one row of counts: whether they satisfy, and are at least so many."""
    return sized(part.circuit(row), row.width, least, or_empty=False)
