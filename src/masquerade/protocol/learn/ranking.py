"""How well scores rank records: area under the ROC curve, and Harrell's concordance of survival."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

_AT_A_TIME = 1 << 22  # pairs


def area_under_curve(scores: Numbers, positive: NDArray[np.bool_]) -> float:
    """Return how often a positive record has the higher score of two, ties counting half; NaN where one kind lacks."""
    high, low = scores[positive], np.sort(scores[~positive])
    if not high.size or not low.size:
        return float("nan")
    below, at_most = np.searchsorted(low, high, "left"), np.searchsorted(low, high, "right")
    return float((below + at_most).sum() / (2 * high.size * low.size))


def concordant_pairs(risks: Numbers, durations: Numbers, died: NDArray[np.bool_]) -> tuple[int, int]:
    """Return twice the number of pairs that are ranked rightly, ties counting half, and twice that of all pairs.

    A pair counts where the one who is known to die first does so before the other leaves, or at the same time while the
    other is alive.
    """
    right = pairs = 0
    dying = np.flatnonzero(died)
    step = max(1, _AT_A_TIME // max(len(risks), 1))
    for first in range(0, dying.size, step):
        some = dying[first : first + step, None]
        later = (durations[None, :] > durations[some]) | (
            (durations[None, :] == durations[some]) & ~died[None, :]
        )
        pairs += 2 * int(later.sum())
        right += 2 * int((later & (risks[some] > risks[None, :])).sum())
        right += int((later & (risks[some] == risks[None, :])).sum())
    return right, pairs


def concordance(risks: Numbers, durations: Numbers, died: NDArray[np.bool_]) -> float:
    """Return the share of pairs that are ranked rightly; NaN where there is none."""
    right, pairs = concordant_pairs(risks, durations, died)
    return right / pairs if pairs else float("nan")
