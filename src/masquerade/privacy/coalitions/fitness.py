"""The privacy fitness score (Definition 3.1): how far records are above, or below, what a constraint asks for.

Each constraint's fitness is its figure beside its bound: |T| / k, different values / ℓ, t / distance, … The score of
several is their weighted mean. Where one of them fails the score stays below 1, whatever the others are: min(1 − ε, F)
(the paper prints max, with which a failing group could never score below 1 − ε).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.alpha_k_anonymity import AlphaKAnonymity
from masquerade.privacy.coalitions.constraint import Constraint
from masquerade.privacy.confidence_bounding import ConfidenceBounding
from masquerade.privacy.entropy_l_diversity import EntropyLDiversity
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.p_sensitive_k_anonymity import PSensitiveKAnonymity
from masquerade.privacy.recursive_l_diversity import RecursiveLDiversity
from masquerade.privacy.t_closeness import TCloseness

VERIFICATION_WEIGHT = (
    0.3  # α of Table II: what the constraints on sensitive values weigh beside those on sizes
)
ANONYMIZATION_WEIGHT = 0.8
EPSILON = 1e-6
_MOST = 1000.0  # a group at distance 0 is no fitter than this


def fitness(constraint: Constraint, histogram: Counts) -> NDArray[np.float64]:
    """Each group's figure beside its bound: at least 1 where it satisfies, and larger is fitter."""
    part = constraint.part
    figures = part.figures(histogram, constraint.whole, constraint.labels)
    match part:
        case KAnonymity(k=k):
            level = figures / k
        case LDiversity(l=least) | EntropyLDiversity(l=least):
            level = figures / least
        case PSensitiveKAnonymity(p=p, k=k):
            level = np.minimum(figures / p, histogram.sum(axis=1) / k)
        case AlphaKAnonymity(alpha=alpha, k=k):
            level = np.minimum(_room(alpha, figures), histogram.sum(axis=1) / k)
        case ConfidenceBounding(confidence=bound) | TCloseness(t=bound) | RecursiveLDiversity(c=bound):
            level = _room(bound, figures)
        case _:
            raise TypeError(part)
    return np.minimum(level, _MOST)


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
        total += weight * fitness(constraint, histogram)
        good &= constraint.plainly_holds(histogram)
    return np.where(good, total, np.minimum(total, 1 - EPSILON))


def _room(bound: float, figures: NDArray[np.float64]) -> NDArray[np.float64]:
    """bound / figure: 1 where the bound is just met, 0 where the figure is infinite."""
    return np.where(figures <= 0, _MOST, bound / np.maximum(figures, max(bound, EPSILON) / _MOST))
