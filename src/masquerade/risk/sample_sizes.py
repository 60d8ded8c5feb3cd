"""How many tuples or pairs the sampled algorithms need (Theorems 2.3 to 2.5, 3.1 and 3.2 of the paper).

All of them let the answer be wrong with probability δ over all 2^m sets of m columns, so ln(2^m/δ) is in each.
"""

from __future__ import annotations

import math


def _sets(columns: int, delta: float) -> float:
    """ln(2^m/δ)."""
    return columns * math.log(2) - math.log(delta)


def pairs_for_key(columns: int, epsilon: float, delta: float) -> int:
    """Pairs for a set that tells all of them apart to have a separation ratio of at least 1 − ε."""
    return math.ceil(_sets(columns, delta) / -math.log1p(-epsilon))


def tuples_for_key(columns: int, rows: int, epsilon: float, delta: float) -> int:
    """Tuples for a key of them to have a distinct ratio of at least 1 − ε."""
    return math.ceil(math.sqrt(2 * (1 - epsilon) / epsilon * rows * _sets(columns, delta)))


def pairs_for_beta(columns: int, beta: float, epsilon: float, delta: float) -> int:
    """Pairs for the greedy β-separation quasi-identifier to have a separation ratio of at least (1 − ε)β."""
    return math.ceil(16 / (beta * epsilon**2) * _sets(columns, delta))


def covered_for_beta(pairs: int, beta: float, epsilon: float) -> float:
    """Return at how many separated pairs that search stops."""
    return (2 - epsilon) * beta * pairs / 2


def masked_beta(columns: int, sample: int, beta: float, delta: float) -> float:
    """β′, which a published set must not exceed in the sample, to be at most β in the table; maybe below 0."""
    return (1 - math.sqrt(2 * _sets(columns, delta) / (beta * sample))) * beta


def least_sample_for_masking(columns: int, beta: float, delta: float) -> int:
    """The smallest sample with which β′ is above 0."""
    return math.floor(2 * _sets(columns, delta) / beta) + 1
