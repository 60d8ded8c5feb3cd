"""The privacy fitness score (Definition 3.1): how far records are above, or below, what all constraints ask for.

Each constraint's fitness is its figure beside its limit: |T| / k, different values / ℓ, t / distance, … The score of
several is their weighted mean. Where one of them fails the score stays below 1, whatever the others are: min(1 − ε, F)
(the paper prints max, with which a failing group could never score below 1 − ε).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.m_privacy.constraint import Constraint

# α of Table II: what the constraints on sensitive values weigh beside those on sizes.
VERIFICATION_WEIGHT = 0.3
ANONYMIZATION_WEIGHT = 0.8
_EPSILON = 1e-6


def score(
    constraints: Sequence[Constraint], histograms: Sequence[Counts], alpha: float = VERIFICATION_WEIGHT
) -> NDArray[np.float64]:
    """Each group's privacy fitness score: at least 1 only where all constraints hold (Equation 1).

    The constraints on sensitive values share the weight alpha, those on sizes the rest; where all are of one kind,
    they weigh alike. `histograms` has for each constraint one row a group.
    """
    on_values = [constraint.part.sensitive is not None for constraint in constraints]
    weights = [
        alpha / sum(on_values) if each else (1 - alpha) / (len(on_values) - sum(on_values))
        for each in on_values
    ]
    if len(set(on_values)) == 1:
        weights = [1 / len(constraints)] * len(constraints)
    total = np.zeros(len(histograms[0]))
    good = np.ones(len(histograms[0]), bool)
    for constraint, histogram, weight in zip(constraints, histograms, weights, strict=True):
        total += weight * constraint.fitness(histogram)
        good &= constraint.holds_as_is(histogram)
    return np.where(good, total, np.minimum(total, 1 - _EPSILON))
