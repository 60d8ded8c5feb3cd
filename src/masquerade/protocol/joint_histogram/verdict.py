"""Reduce shares of a table of joint counts to one bit: whether every group satisfies.

For requirements on a sensitive attribute that another party holds: one party's labels are the groups, the other's
the sensitive values. A circuit judges one row of the table, all rows at once; the verdicts stay shared, and a second
circuit opens their conjunction alone. Who learns what: both parties the one bit.

Cost: the row's circuit (crypto/count_circuits) once a group, 32 bytes an AND and about 48 an input bit of w digits a
cell; then one AND a group. Messages that wait for each other: 5.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from masquerade.crypto.bits import Bits
from masquerade.crypto.circuit import Circuit
from masquerade.crypto.count_circuits import all_equal
from masquerade.crypto.pseudorandom_row_sums import Words
from masquerade.net.script import Script
from masquerade.protocol.joint_histogram.histogram import Bounds
from masquerade.protocol.joint_histogram.pair import Pair, read_outputs, shared_outputs


def every_group_satisfies(
    pair: Pair,
    table: Words,
    circuit: Circuit,
    bounds: Bounds,
    *,
    grouped_by: int = 0,
    own: Mapping[str, Bits] | None = None,
) -> Script[bool]:
    """Return whether `circuit` (inputs "row 0" and "row 1", output "good") holds for every group.

    `table` is this party's share from `joint_histogram`; `grouped_by` is the party whose labels are the groups. The
    circuit is one of `count_circuits.row_…(columns, width, …)` for the other party's number of labels and
    `bounds.width`; it must accept an empty row, since padded groups have no records. `own` are further inputs of the
    circuit that this party gives, the same for all rows.
    """
    rows = (table if grouped_by == 0 else table.T)[:-1, :-1].astype(np.uint64)
    n_groups = len(rows)
    places = np.arange(bounds.width, dtype=np.uint64)
    bits = (rows[:, :, None] >> places) & np.uint64(1)
    words = np.ascontiguousarray(bits.reshape(n_groups, -1).T.astype(np.uint8))
    return (yield from every_row_satisfies(pair, words, circuit, own))


def every_row_satisfies(
    pair: Pair, rows: Bits, circuit: Circuit, own: Mapping[str, Bits] | None = None
) -> Script[bool]:
    """Return the same for rows already shared: `rows` has this party's bits, [bits of a row, rows]."""
    n_groups = rows.shape[1]
    inputs = {f"row {pair.me}": rows}
    inputs |= {name: np.repeat(bits[:, None], n_groups, axis=1) for name, bits in (own or {}).items()}
    shared = yield from shared_outputs(pair, circuit, n_groups, inputs)
    verdicts = shared["good"][0]
    # All are good when the two shares differ everywhere: one of them inverted, they are equal.
    flipped = verdicts ^ np.uint8(pair.me)
    out = yield from read_outputs(pair, all_equal(n_groups), 1, {f"bits {pair.me}": flipped[:, None]})
    return bool(out["holds"][0, 0])
