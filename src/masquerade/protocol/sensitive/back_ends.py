"""Choose and run the cheaper back end for a joint histogram: transfers, sorted or not, or encryption.

Both parties make the same choice, from public figures (`costs.py`). Transfers are sorted where groups are known to be
large and records are more than some thousand. With as many groups on either
side as k-anonymity allows, transfers win by far. Encryption wins where one party has some hundred labels, the other
tens of thousands, and there are enough records to make up for what is sent back for each label: a million and more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.crypto import Bits, Words
from masquerade.net import Script
from masquerade.progress import OnStage, Stage, silent
from masquerade.protocol.pairs import BackEnd, Pair
from masquerade.protocol.sensitive.costs import encrypted_seconds, packing_for, sorting_for, transferred_seconds
from masquerade.protocol.sensitive.histogram import (
    Bounds,
    Counted,
    Labels,
    checked_labels,
    joint_histogram,
    looked_up,
    reached_shares,
)
from masquerade.protocol.sensitive.homomorphic import homomorphic_group_bits
from masquerade.protocol.sensitive.sorted_histogram import sorted_histogram


def expected_seconds(bounds: Bounds) -> dict[BackEnd, float]:
    """Estimate the seconds that one bit per record takes by each back end."""
    return {"transfers": transferred_seconds(bounds), "encryption": encrypted_seconds(bounds, packing_for(bounds))}


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
