"""Reduce shares of a table of joint counts to one bit: whether every group satisfies.

For requirements on a sensitive attribute that another party holds: one party's labels are the groups, the other's
the sensitive values. A circuit judges one row of the table, all rows at once; the verdicts stay shared, and a second
circuit opens their conjunction alone, or that of each block of neighbouring rows. Who learns what: both parties the one
bit, or one a block.

Cost: the row's circuit (crypto/count_circuits) once a group, 32 bytes an AND and about 48 an input bit of w digits a
cell; then one AND a group. Messages that wait for each other: 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import Bits, Circuit, Words, equal_blocks
from masquerade.engine import Flags
from masquerade.net import Script
from masquerade.protocol.pairs import Pair, read_outputs, shared_outputs
from masquerade.protocol.sensitive.histogram import Bounds


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
    rows = row_bits(table, bounds, grouped_by)
    (good,) = yield from blocks_of_rows_satisfy(pair, rows, circuit, [rows.shape[1]], own)
    return bool(good)


def row_bits(table: Words, bounds: Bounds, grouped_by: int) -> Bits:
    """Return this party's share of the table as a circuit's input, [bits of a row, rows]."""
    rows = (table if grouped_by == 0 else table.T)[:-1, :-1].astype(np.uint64)
    places = np.arange(bounds.width, dtype=np.uint64)
    bits = (rows[:, :, None] >> places) & np.uint64(1)
    return np.ascontiguousarray(bits.reshape(len(rows), -1).T.astype(np.uint8))


def row_inputs(circuit: Circuit, me: int, rows: Bits) -> dict[str, Bits]:
    """Return a party's inputs of a row's circuit, each in the form that the circuit asks for (`count_circuits`)."""
    given = {f"row {me}": rows}
    if f"total {me}" in circuit.inputs:
        width = circuit.width(f"total {me}")
        places = np.arange(width, dtype=np.uint64)[:, None]
        cells = rows.reshape(-1, width, rows.shape[1])
        words = (cells.astype(np.uint64) << places).sum(axis=1)

        def bits(numbers: NDArray[np.uint64]) -> Bits:
            spread = (numbers[:, None] >> places) & np.uint64(1)  # beyond the width, words are taken modulo 2^width
            return spread.astype(np.uint8).reshape(-1, rows.shape[1])

        given[f"total {me}"] = bits(words.sum(axis=0, keepdims=True))
        given[f"minus {me}"] = bits(np.uint64(0) - words)
    return {name: each for name, each in given.items() if name in circuit.inputs}


def blocks_of_rows_satisfy(
    pair: Pair, rows: Bits, circuit: Circuit, blocks: Sequence[int], own: Mapping[str, Bits] | None = None
) -> Script[Flags]:
    """Return of which blocks of neighbouring rows all satisfy; `blocks` has the number of rows of each."""
    n_rows = rows.shape[1]
    inputs = row_inputs(circuit, pair.me, rows)
    inputs |= {name: np.repeat(bits[:, None], n_rows, axis=1) for name, bits in (own or {}).items()}
    shared = yield from shared_outputs(pair, circuit, n_rows, inputs)
    # All are good when the two shares differ everywhere: one of them inverted, they are equal.
    flipped = shared["good"][0] ^ np.uint8(pair.me)
    out = yield from read_outputs(pair, equal_blocks(tuple(blocks)), 1, {f"bits {pair.me}": flipped[:, None]})
    return out["holds"][:, 0].astype(bool)
