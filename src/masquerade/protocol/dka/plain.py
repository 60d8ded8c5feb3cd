"""DkA as a trusted third party would run it: the same rounds, with plain counting in place of cryptography.

For experiments on its precision, and as a reference for the protocols: both must give the same release.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Column
from masquerade.engine.counts import value_counts
from masquerade.engine.numbering import renumber
from masquerade.errors import ParameterError
from masquerade.protocol.dka.anonymizers import LocalAnonymizer, TopDownAnonymizer
from masquerade.protocol.dka.datafly_side import DataflySide
from masquerade.protocol.dka.groups import Labels, labels_of, most_groups


def plain_dka_datafly(
    left: Sequence[Column], right: Sequence[Column], n_records: int, k: int
) -> tuple[DataflySide, DataflySide]:
    """Run DkA-Datafly. Return both parties' sides at the end."""
    if not left or not right:
        raise ParameterError("DkA-Datafly takes at least one attribute of each party")
    sides = DataflySide(left, n_records, k), DataflySide(right, n_records, k)
    for side in sides:
        side.generalise_locally()
    while not sides[0].over:
        passes = joint_passes(sides[0].labels(), sides[1].labels(), sides[0].bound, k)
        for side in sides:
            side.hear(passes)
    return sides


def plain_dka(left: LocalAnonymizer, right: LocalAnonymizer, n_records: int, k: int) -> int:
    """Run the framework (Algorithm 4). Return the number of rounds; both are then as general as the release."""
    sides = left, right
    for side in sides:
        side.start()
    rounds = 1
    while not _anonymized(sides, n_records, k):
        for side in sides:
            side.further()
        rounds += 1
    return rounds


def plain_dka_top_down(left: TopDownAnonymizer, right: TopDownAnonymizer, n_records: int, k: int) -> int:
    """Run top-down (§7). Return the last round before the first that fails."""
    sides = left, right
    for side in sides:
        side.start()
    rounds = 1
    while any(moved := [side.further() for side in sides]):
        if not _anonymized(sides, n_records, k):
            for side, did in zip(sides, moved, strict=True):
                if did:
                    side.back()
            break
        rounds += 1
    return rounds


def _anonymized(sides: Sequence[LocalAnonymizer], n_records: int, k: int) -> bool:
    bound = most_groups(n_records, k)
    left, right = (labels_of(side, np.arange(n_records), k, bound) for side in sides)
    return bool(joint_passes(left, right, bound, k).all())


def joint_passes(left: Labels, right: Labels, bound: int, k: int) -> NDArray[np.bool_]:
    """Return whether each record's pair of labels occurs at least k times; the label `bound` never passes."""
    pairs = left.astype(np.int64) * (bound + 1) + right.astype(np.int64)
    groups, found = renumber(pairs, (bound + 1) ** 2)
    large = value_counts(groups, found.size) >= k
    return np.asarray(large[groups] & (left < bound) & (right < bound))
