"""Choose and run the cheaper back end for a joint histogram: transfers, sorted or not, or encryption.

Both parties make the same choice, from public figures (`costs.py`). Transfers are sorted where groups are known to be
large and records are more than some thousand. With as many groups on either
side as k-anonymity allows, transfers win by far. Encryption wins where one party has some hundred labels, the other
tens of thousands, and there are enough records to make up for what is sent back for each label: a million and more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto import Bits, Circuit, Words, equal_blocks
from masquerade.engine import Flags
from masquerade.net import Script
from masquerade.progress import OnStage, Stage, silent
from masquerade.protocol.pairs import BackEnd, Pair, read_outputs, shared_outputs
from masquerade.protocol.sensitive.costs import (
    Packing,
    encrypted_count_seconds,
    encrypted_seconds,
    packing_for,
    sorting_for,
    transferred_count_seconds,
    transferred_seconds,
)
from masquerade.protocol.sensitive.histogram import (
    Bounds,
    Counted,
    Labels,
    checked_labels,
    joint_histogram,
    looked_up,
    reached_shares,
    row_bits,
)
from masquerade.protocol.sensitive.homomorphic import homomorphic_group_bits, homomorphic_rows
from masquerade.protocol.sensitive.sorted_histogram import sorted_histogram

# Makes a circuit for one row, from the binary digits of a cell and the number of cells shared as one number.
RowCircuit = Callable[[int, int], Circuit]


def expected_seconds(bounds: Bounds) -> dict[BackEnd, float]:
    """Estimate the seconds that one bit per record takes by each back end."""
    return {"transfers": transferred_seconds(bounds), "encryption": encrypted_seconds(bounds, packing_for(bounds))}


def expected_seconds_of_rows(bounds: Bounds, grouped_by: int) -> dict[BackEnd, float]:
    """Estimate the seconds to judge rows, without the circuits, which cost the same."""
    return {
        "transfers": transferred_count_seconds(bounds),
        "encryption": encrypted_count_seconds(bounds, Packing.of(bounds, 1 - grouped_by)),
    }


def cheaper(seconds: dict[BackEnd, float]) -> BackEnd:
    """Return the back end that takes less time."""
    return "encryption" if seconds["encryption"] < seconds["transfers"] else "transfers"


def transferred_histogram(
    pair: Pair, labels: Labels, bounds: Bounds, sorters: Sequence[int] = (0, 1)
) -> Script[Counted]:
    """Count by transfers, sorted where that is cheaper; the labels of who sorts, one of `sorters`, then change."""
    sorting = sorting_for(bounds, sorters)
    if sorting is not None:
        return (yield from sorted_histogram(pair, labels, bounds, sorting))
    table = yield from joint_histogram(pair, labels, bounds)
    return Counted(table, checked_labels(labels, pair.me, bounds), bounds)


def shared_tests(
    pair: Pair,
    labels: Labels,
    at_least: int,
    bounds: Bounds,
    on_stage: OnStage = silent,
    back_end: BackEnd | None = None,
) -> Script[Bits]:
    """Return this party's XOR share, for each record, of "its joint group has ≥ `at_least` records", the cheaper way.

    `back_end` forces one; both parties must then give the same.
    """
    if (back_end or cheaper(expected_seconds(bounds))) == "transfers":
        on_stage(Stage("counting"))
        counted = yield from transferred_histogram(pair, labels, bounds)
        on_stage(Stage("looking up"))
        counts = yield from looked_up(pair, counted.table, counted.labels, counted.bounds)
        on_stage(Stage("comparing"))
        return (yield from reached_shares(pair, counts, at_least, bounds))
    on_stage(Stage("counting by encryption"))
    return (yield from homomorphic_group_bits(pair, labels, at_least, bounds))


def blocks_satisfy(
    pair: Pair,
    labels: Labels,
    circuit: RowCircuit,
    bounds: Bounds,
    blocks: Sequence[int],
    *,
    grouped_by: int,
    own: Mapping[str, Bits] | None = None,
    back_end: BackEnd | None = None,
) -> Script[Flags]:
    """Return of which blocks of one party's neighbouring groups all satisfy a circuit, the cheaper way.

    `blocks` has the number of groups in each. The circuit is one of `count_circuits.row_…`; it must accept an empty
    row, since padded groups have no records. `own` are further inputs of it that this party gives, the same for all
    rows.
    """
    if (back_end or cheaper(expected_seconds_of_rows(bounds, grouped_by))) == "transfers":
        table = yield from joint_histogram(pair, labels, bounds)
        cells = (table if grouped_by == 0 else table.T)[:-1, :-1]
        rows, width, together = row_bits(cells, bounds.width), bounds.width, 1
    else:
        rows, width, together = yield from homomorphic_rows(pair, labels, bounds, grouped_by)
    return (yield from blocks_of_rows_satisfy(pair, rows, circuit(width, together), blocks, own))


# --- value counts -------------------------------------------------------------------------------------------
# How often each sensitive value occurs in a record's joint group: shares of a row of counts for each record.
#
# The holder of the values splits each of its labels by value, so that the joint histogram has a cell for each pair of
# groups and each value; then both look up all values' counts of a record's pair of groups at once.
#
# Cost: as for the counts alone, with as many cells and as wide look-up tables as there are values. Who
# learns what: the number of values is public; a party's view is random otherwise.


def value_counts_of_groups(
    pair: Pair,
    labels: Labels,
    values: Labels | None,
    bounds: Bounds,
    *,
    n_values: int,
    holder: int,
    on_stage: OnStage = silent,
) -> Script[Words]:
    """Return this party's additive shares, [records, values], of the counts in each record's joint group.

    `values` are the records' sensitive values, at their holder; the other party gives None.
    """
    split, least = [*bounds.labels], [*bounds.least]
    split[holder] *= n_values
    least[holder] = 1
    own = labels
    if values is not None:
        last = np.uint64(bounds.labels[holder])
        own = np.where(labels < last, labels * np.uint64(n_values) + values, last * np.uint64(n_values))
    on_stage(Stage("counting"))
    cells = Bounds(bounds.records, (split[0], split[1]), (least[0], least[1]))
    counted = yield from transferred_histogram(pair, own, cells, sorters=(1 - holder,))
    on_stage(Stage("looking up"))
    # The holder's groups are found by their own labels, without values; the other's labels may have changed.
    groups = [*counted.bounds.labels]
    groups[holder] = bounds.labels[holder]
    table = _by_value(counted.table, n_values, holder)
    found_by = labels if pair.me == holder else counted.labels
    return (yield from looked_up(pair, table, found_by, Bounds(bounds.records, (groups[0], groups[1]))))


def _by_value(table: Words, n_values: int, holder: int) -> Words:
    """Return the table as [labels of party 0 + 1, labels of party 1 + 1, values]."""
    by_holder = table.T if holder == 0 else table
    cells = by_holder[:, :-1].reshape(len(by_holder), -1, n_values)
    padded = np.concatenate((cells, np.zeros_like(cells[:, :1])), axis=1)
    return padded.swapaxes(0, 1) if holder == 0 else padded


# --- verdict ------------------------------------------------------------------------------------------------
# Reduce shares of a table of joint counts to one bit: whether every group satisfies.
#
# For requirements on a sensitive attribute that another party holds: one party's labels are the groups, the other's
# the sensitive values. A circuit judges one row of the table, all rows at once; the verdicts stay shared, and a
# second circuit opens their conjunction alone, or that of each block of neighbouring rows. Who learns what: both
# parties the one bit, or one a block.
#
# Cost: the row's circuit (crypto/count_circuits) once a group, 32 bytes an AND and about 48 an input bit of w digits
# a cell; then one AND a group. Messages that wait for each other: 5.


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
