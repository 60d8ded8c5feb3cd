"""DkA-Datafly as a trusted third party would play it: the same rounds, with plain counting in place of cryptography.

For experiments on its precision, and to hold the protocol against: both must give the same release.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Column
from masquerade.errors import ParameterError
from masquerade.protocol.dka.datafly_side import DataflySide
from masquerade.protocol.dka.groups import Labels


def plain_dka_datafly(
    left: Sequence[Column], right: Sequence[Column], n_records: int, k: int
) -> tuple[DataflySide, DataflySide]:
    """Both parties at the end."""
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


def joint_passes(left: Labels, right: Labels, bound: int, k: int) -> NDArray[np.bool_]:
    """Whether each record's pair of labels occurs at least k times; the label `bound` never passes."""
    pairs = left.astype(np.int64) * (bound + 1) + right.astype(np.int64)
    _, number, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    return np.asarray((counts[number] >= k) & (left < bound) & (right < bound))
