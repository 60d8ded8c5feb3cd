"""DkA as a trusted third party would run it: the same rounds, with plain counting in place of cryptography.

For experiments on its precision, and as a reference for the protocols: both must give the same release.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.anonymize import Datafly
from masquerade.data import Coded, Column
from masquerade.engine import group_rows, value_counts
from masquerade.errors import ParameterError
from masquerade.privacy import GroupRequirement
from masquerade.protocol.dka.method import LOCAL_ALGORITHMS
from masquerade.protocol.dka.side import OnRound, Opened, Side


def plain_dka(
    columns: Sequence[Sequence[Column]],
    n_records: int,
    k: int,
    local: str = Datafly.name,
    sensitive: Sequence[tuple[GroupRequirement, Coded]] = (),
    on_round: OnRound | None = None,
) -> tuple[Side, ...]:
    """Run DkA on the columns of each party, by one of the local algorithms. Return the parties' sides at the end.

    `sensitive` are requirements beside k, each with the common records' values of its attribute. `on_round` is called
    with everything that would be opened.
    """
    if not all(columns):
        raise ParameterError("DkA takes at least one attribute of each party")
    sides = tuple(LOCAL_ALGORITHMS[local].side(own, n_records, k, not sensitive) for own in columns)
    play_openly(sides, sensitive, on_round)
    return sides


def play_openly(
    sides: Sequence[Side], sensitive: Sequence[tuple[GroupRequirement, Coded]] = (), on_round: OnRound | None = None
) -> None:
    """Run the rounds of these sides to the end."""
    while not sides[0].over:
        opened = _answer(sides, sensitive)
        for side in sides:
            side.hear(opened)
        if on_round is not None:
            on_round(opened)


def _answer(sides: Sequence[Side], sensitive: Sequence[tuple[GroupRequirement, Coded]]) -> Opened:
    opens = sides[0].opens
    if opens == "end":
        return np.array([all(side.stuck for side in sides)])
    passes = joint_passes(sides, sensitive)
    return passes if opens == "each" else np.array([passes.all()])


def joint_passes(sides: Sequence[Side], sensitive: Sequence[tuple[GroupRequirement, Coded]] = ()) -> Opened:
    """Return whether each remaining record's labels occur together at least k times; the last label never passes."""
    labels = [side.labels() for side in sides]
    numbered = [(own.astype(np.int64), side.bound + 1) for own, side in zip(labels, sides, strict=True)]
    groups, n_groups = group_rows(numbered, labels[0].size)
    passes: Opened = (value_counts(groups, n_groups) >= sides[0].k)[groups]
    for part, coded in sensitive:
        counts = coded.histograms(groups, n_groups, sides[0].left)
        passes &= part.holds(counts, coded.histogram(), coded.labels)[groups]
    for own, side in zip(labels, sides, strict=True):
        passes &= own < side.bound
    return passes
