"""How often each sensitive value occurs in a record's joint group: shares of a row of counts for each record.

The holder of the values splits each of its labels by value, so that the joint histogram has a cell for each pair of
groups and each value; then both look up all values' counts of a record's pair of groups at once.

Cost: as for the counts alone, with as many cells and as wide look-up tables as there are values. Who learns what: the
number of values is public; a party's view is random otherwise.
"""

from __future__ import annotations

import numpy as np

from masquerade.crypto.pseudorandom_row_sums import Words
from masquerade.net.progress import OnStage, Stage, silent
from masquerade.net.script import Script
from masquerade.protocol.joint_histogram.back_ends import transferred_histogram
from masquerade.protocol.joint_histogram.histogram import Bounds, Labels, looked_up
from masquerade.protocol.joint_histogram.pair import Pair


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
