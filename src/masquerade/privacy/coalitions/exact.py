"""The worst coalition without trying all coalitions. The m-privacy paper does not have this.

A conjunction is m-private when each of its constraints is, so each is asked by itself:

* k-anonymity: the largest contributors.
* distinct ℓ-diversity: `few_values`.
* a share, recursive ℓ-diversity, distance: whichever value (or set of values) is to be frequent, the coalition that
  leaves the fewest of the other records is worst, and those are the providers with the most records outside it. So
  there is one candidate a value (share), a set of ℓ − 1 values (recursive), a set of values or a pattern of signs (the
  distance is the largest of so many linear functions).
* entropy, and the latter two over too many values: no such form; branch and bound over providers (`bounded`).

A check is one candidate, or one node of a search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.alpha_k_anonymity import AlphaKAnonymity
from masquerade.privacy.coalitions.bounded import bounded
from masquerade.privacy.coalitions.constraint import Constraint
from masquerade.privacy.coalitions.few_values import worst_coalition
from masquerade.privacy.coalitions.group import Group
from masquerade.privacy.coalitions.strategies import Outcome
from masquerade.privacy.confidence_bounding import ConfidenceBounding
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.p_sensitive_k_anonymity import PSensitiveKAnonymity
from masquerade.privacy.recursive_l_diversity import RecursiveLDiversity
from masquerade.privacy.requirement import TOLERANCE
from masquerade.privacy.t_closeness import TCloseness

_MOST_SETS = 1 << 16  # of values; beyond, providers are searched
_AT_A_TIME = 1 << 12  # sets


def exact(group: Group, m: int) -> Outcome:
    """The same verdict as every search gives."""
    power, checks = group.power(m), 0
    for constraint, matrix in zip(group.constraints, group.matrices, strict=True):
        outcome = _judge(group.sizes, constraint, matrix, power)
        checks += outcome.checks
        if not outcome.private:
            return Outcome(False, outcome.coalition, checks)
    return Outcome(True, None, checks)


def _judge(sizes: Counts, constraint: Constraint, matrix: Counts, power: int) -> Outcome:
    match constraint.part:
        case KAnonymity(k=k):
            return _size(sizes, k, power)
        case LDiversity(l=least):
            return _values(matrix, least, power)
        case PSensitiveKAnonymity(p=p, k=k):
            return _both(_size(sizes, k, power), _values(matrix, p, power))
        case AlphaKAnonymity(alpha=alpha, k=k):
            large = _size(sizes, k, power)
            return _both(large, _share(matrix, constraint.listed, alpha + TOLERANCE, power))
        case ConfidenceBounding(confidence=bound):
            return _share(matrix, constraint.listed, bound + TOLERANCE, power)
        case RecursiveLDiversity(c=c, l=1):
            # Its bound must be kept below, not just met.
            return _share(matrix, np.arange(matrix.shape[1]), np.nextafter(c * (1 - TOLERANCE), 0), power)
        case RecursiveLDiversity(c=c, l=least):
            present = np.flatnonzero(matrix.any(axis=0))
            if present.size < least:
                return Outcome(False, (), 1)
            if math.comb(present.size, least - 1) <= _MOST_SETS:
                return _recursive(matrix[:, present], c * (1 - TOLERANCE), least, power)
        case TCloseness(t=t, distance="equal"):
            present = np.flatnonzero(matrix.any(axis=0))
            if 1 << present.size <= _MOST_SETS:
                shares = constraint.whole[0, present] / constraint.whole.sum()
                return _distance(matrix[:, present], shares, t + TOLERANCE, power)
        case TCloseness(t=t):
            occurring = constraint.whole[0] > 0
            if 1 << (np.count_nonzero(occurring) - 1) <= _MOST_SETS:
                whole = constraint.whole[0, occurring]
                return _ordered_distance(matrix[:, occurring], whole / whole.sum(), t + TOLERANCE, power)
    return bounded(constraint, matrix, power)


def _both(one: Outcome, other: Outcome) -> Outcome:
    first = one if not one.private else other
    return Outcome(first.private, first.coalition, one.checks + (other.checks if one.private else 0))


def _size(sizes: Counts, k: int, power: int) -> Outcome:
    order = np.argsort(-sizes, kind="stable")[:power]
    left = np.concatenate([[0], np.cumsum(sizes[order])])
    left = sizes.sum() - left  # without nobody, the largest, the two largest, …
    if left[-1] >= k:
        return Outcome(True, None, 1)
    enough = int(np.argmax(left < k))
    return Outcome(False, tuple(sorted(order[:enough].tolist())), 1)


def _values(matrix: Counts, least: int, power: int) -> Outcome:
    coalition, nodes = worst_coalition(matrix, least, power)
    return Outcome(coalition is None, coalition, nodes)


def least_left(records: NDArray[np.float64 | np.int64], power: int) -> NDArray[np.float64 | np.int64]:
    """What remains of each column when the `power` providers (rows) with the most are gone."""
    n = len(records)
    left = n - power
    kept = np.partition(records, left - 1, axis=0)[:left] if power else records
    sums: NDArray[np.float64 | np.int64] = kept.sum(axis=0)
    return sums


def _largest(records: NDArray[np.float64 | np.int64], power: int) -> tuple[int, ...]:
    """Who has the most: those providers, without any that have nothing."""
    order = np.argsort(-records, kind="stable")[:power]
    return tuple(sorted(order[records[order] > 0].tolist()))


def _share(matrix: Counts, listed: NDArray[np.intp], bound: float, power: int) -> Outcome:
    most = matrix[:, listed].sum(axis=0)
    outside = matrix.sum(axis=1, keepdims=True) - matrix[:, listed]
    shares = most / np.maximum(most + least_left(outside, power), 1)
    bad = np.flatnonzero(shares > bound)
    if not bad.size:
        return Outcome(True, None, listed.size)
    return Outcome(False, _largest(outside[:, bad[0]], power), listed.size)


def _recursive(matrix: Counts, c: float, least: int, power: int) -> Outcome:
    """Sets S of ℓ − 1 values: the most frequent value is in S with all its records, the tail is outside."""
    total, sizes, checks = matrix.sum(axis=0), matrix.sum(axis=1, keepdims=True), 0
    sets = combinations(range(matrix.shape[1]), least - 1)
    while chosen := [list(each) for _, each in zip(range(_AT_A_TIME), sets, strict=False)]:
        picked = np.array(chosen)
        outside = sizes - matrix[:, picked].sum(axis=2)
        tails = least_left(outside, power)
        bad = np.flatnonzero(total[picked].max(axis=1) >= c * tails)
        checks += len(chosen)
        if bad.size:
            return Outcome(False, _largest(outside[:, bad[0]], power), checks)
    return Outcome(True, None, checks)


def _distance(matrix: Counts, shares: NDArray[np.float64], t: float, power: int) -> Outcome:
    """Sets A of values: the distance is the largest p(A) − q(A)."""
    total, sizes, checks = matrix.sum(axis=0), matrix.sum(axis=1, keepdims=True), 0
    for chosen in _subsets(matrix.shape[1]):
        inside = (total @ chosen).astype(float)
        outside = sizes - matrix @ chosen
        surplus = inside / np.maximum(inside + least_left(outside, power), 1) - shares @ chosen
        bad = np.flatnonzero(surplus > t)
        checks += chosen.shape[1]
        if bad.size:
            return Outcome(False, _largest(outside[:, bad[0]], power), checks)
    return Outcome(True, None, checks)


def _ordered_distance(matrix: Counts, shares: NDArray[np.float64], t: float, power: int) -> Outcome:
    """Patterns of signs: the distance is the largest Σ σᵢ (Pᵢ − Qᵢ), and (Σ wᵥ hᵥ) / (Σ hᵥ) is one with σ's weights.

    It exceeds a bound λ where Σ (wᵥ − λ) hᵥ > 0: values above have all of their records, those below the fewest.
    """
    n_values = matrix.shape[1]
    there = np.cumsum(shares)[:-1]
    total, checks = matrix.sum(axis=0), 0
    for chosen in _subsets(n_values - 1):
        signs = 2.0 * chosen - 1
        weights = np.vstack([np.cumsum(signs[::-1], axis=0)[::-1], np.zeros((1, signs.shape[1]))])
        limit = t * max(n_values - 1, 1) + there @ signs
        above = weights - limit
        pull = matrix @ np.maximum(-above, 0)
        bad = np.flatnonzero(total @ np.maximum(above, 0) > least_left(pull, power))
        checks += signs.shape[1]
        if bad.size:
            return Outcome(False, _largest(pull[:, bad[0]], power), checks)
    return Outcome(True, None, checks)


def _subsets(n: int) -> Iterator[NDArray[np.int64]]:
    """All subsets of n things, as columns of 0 and 1, some at a time."""
    for first in range(0, 1 << n, _AT_A_TIME):
        numbers = np.arange(first, min(first + _AT_A_TIME, 1 << n))
        yield (numbers >> np.arange(n)[:, None]) & 1
