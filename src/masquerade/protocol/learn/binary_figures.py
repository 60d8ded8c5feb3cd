"""How good a classifier of two classes is: from counts of its scores in bins, which add up over sites.

The scores of each class are counted in 100 bins of equal width; records in one bin count as equally likely. Then the
area under the ROC curve is at most half the share of pairs that meet in a bin away from the exact one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.rings import Elements
from masquerade.engine.counts import pair_counts
from masquerade.protocol.learn.handing_in import as_counts
from masquerade.protocol.learn.models.model import Numbers

BINS = 100


def binned_counts(chances: Numbers, positive: NDArray[np.bool_]) -> Elements:
    """Return how many records of each class have a chance in each bin, then how many are classified rightly."""
    bins = np.minimum((chances * BINS).astype(np.int64), BINS - 1)
    table = pair_counts(positive.astype(np.int64), bins, 2, BINS)
    right = np.count_nonzero((chances > 0.5) == positive)
    return as_counts([*table.ravel(), right])


def binary_metrics(n_records: int, counts: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return accuracy and AUC, and the ROC curve."""
    negative, positive = np.array(counts[: 2 * BINS], np.float64).reshape(2, BINS)
    false = np.concatenate(([0.0], np.cumsum(negative[::-1]) / max(negative.sum(), 1)))
    true = np.concatenate(([0.0], np.cumsum(positive[::-1]) / max(positive.sum(), 1)))
    area = float(((true[1:] + true[:-1]) / 2) @ np.diff(false))
    moves = (np.diff(false) != 0) | (np.diff(true) != 0)
    bends = np.concatenate(([0], 1 + np.flatnonzero(moves)))
    curve = {"false_positive": false[bends].round(6).tolist(), "true_positive": true[bends].round(6).tolist()}
    return {"accuracy": counts[2 * BINS] / n_records, "auc": round(area, 6)}, {"roc": curve}
