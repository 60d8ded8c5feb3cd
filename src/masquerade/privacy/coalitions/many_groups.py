"""m-privacy of many groups at once, from their counts by provider and sensitive value.

What an algorithm asks for each split that it considers. Sizes and shares are decided for all groups in a few array
operations, and distinct ℓ-diversity for nearly all; the other groups are asked one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.errors import ParameterError, hint
from masquerade.privacy.alpha_k_anonymity import AlphaKAnonymity
from masquerade.privacy.coalitions.constraint import Constraint
from masquerade.privacy.coalitions.exact import exact
from masquerade.privacy.coalitions.few_values import worst_coalition
from masquerade.privacy.coalitions.fitness import ANONYMIZATION_WEIGHT, score
from masquerade.privacy.coalitions.group import Group
from masquerade.privacy.coalitions.strategies import (
    Outcome,
    Strategy,
    adaptive,
    binary,
    bottom_up,
    direct,
    top_down,
)
from masquerade.privacy.confidence_bounding import ConfidenceBounding
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.p_sensitive_k_anonymity import PSensitiveKAnonymity
from masquerade.privacy.requirement import TOLERANCE

STRATEGIES: Mapping[str, Strategy] = {
    "direct": direct,
    "top-down": top_down,
    "bottom-up": bottom_up,
    "binary": binary,
    "adaptive": adaptive,
    "exact": exact,
}


def strategy_named(name: str) -> Strategy:
    """A way to verify, by the name that a job file gives it."""
    if name not in STRATEGIES:
        known = ", ".join(f'"{each}"' for each in STRATEGIES)
        raise ParameterError(
            f"verification: must be one of {known}; got {name!r}{hint(str(name), STRATEGIES)}"
        )
    return STRATEGIES[name]


class GroupCheck:
    """m-privacy of groups that are given as counts: one array of groups × providers × values.

    For each constraint, `places` says which of the constraint's own values each value of the counts belongs to (None
    where they are the same); for constraints on sizes it is of no matter.
    """

    def __init__(
        self,
        m: int,
        constraints: Sequence[Constraint],
        places: Sequence[NDArray[np.intp] | None],
        verification: str | Strategy = "exact",
    ) -> None:
        self.m = m
        self.constraints = tuple(constraints)
        self._places = tuple(places)
        self._verify = strategy_named(verification) if isinstance(verification, str) else verification

    def holds(self, counts: Counts) -> NDArray[np.bool_]:
        """Which groups are m-private; groups without any record are."""
        sizes = counts.sum(axis=2)
        good = np.ones(len(counts), bool)
        if self._verify is not exact:
            some = np.flatnonzero(sizes.any(axis=1))
            good[some] = [self.outcome(counts[each]).private for each in some]
            return good
        power = np.clip(np.count_nonzero(sizes, axis=1) - 1, 0, self.m)
        for constraint, places in zip(self.constraints, self._places, strict=True):
            still = np.flatnonzero(good & sizes.any(axis=1))
            if not still.size:
                break
            of_part = _merged(counts[still], constraint, places)
            good[still] = self._holds_one(constraint, of_part, sizes[still], power[still])
        return good

    def outcome(self, counts: Counts) -> Outcome:
        """The verdict on one group (providers × values): coalitions are of rows of `counts`."""
        group = self.group(counts)
        found = self._verify(group, self.m)
        if found.coalition is None:
            return found
        members = tuple(group.providers[list(found.coalition)].tolist())
        return Outcome(found.private, members, found.checks)

    def withstands(self, counts: Counts) -> int:
        """How many colluding providers a group (with records) withstands, up to m; −1 where not even outsiders."""
        group = self.group(counts)
        low, high = -1, self.m + 1  # withstands `low`, and not `high`
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._verify(group, middle).private else (low, middle)
        return low

    def scores(self, counts: Counts, alpha: float = ANONYMIZATION_WEIGHT) -> NDArray[np.float64]:
        """The privacy fitness score of each group's records."""
        summed = counts.sum(axis=1, keepdims=True)
        histograms = [
            _merged(summed, constraint, places)[:, 0, :]
            for constraint, places in zip(self.constraints, self._places, strict=True)
        ]
        return score(self.constraints, histograms, alpha)

    def group(self, counts: Counts) -> Group:
        """One group, for the strategies."""
        matrices = [
            _merged(counts[None], constraint, places)[0]
            for constraint, places in zip(self.constraints, self._places, strict=True)
        ]
        return Group(self.constraints, matrices)

    def _holds_one(
        self, constraint: Constraint, counts: Counts, sizes: Counts, power: Counts
    ) -> NDArray[np.bool_]:
        match constraint.part:
            case KAnonymity(k=k):
                return _left(sizes, power) >= k
            case LDiversity(l=least):
                return _diverse(counts, least, power)
            case PSensitiveKAnonymity(p=p, k=k):
                return (_left(sizes, power) >= k) & _diverse(counts, p, power)
            case AlphaKAnonymity(alpha=alpha, k=k):
                shares = _shares(counts, constraint.listed, power)
                return (_left(sizes, power) >= k) & (shares <= alpha + TOLERANCE)
            case ConfidenceBounding(confidence=bound):
                return _shares(counts, constraint.listed, power) <= bound + TOLERANCE
        alone = (exact(Group([constraint], [each]), self.m) for each in counts)
        return np.fromiter((outcome.private for outcome in alone), bool, len(counts))


def _merged(counts: Counts, constraint: Constraint, places: NDArray[np.intp] | None) -> Counts:
    """Groups × providers × the constraint's values."""
    if constraint.part.sensitive is None:
        sizes: Counts = counts.sum(axis=2, keepdims=True)
        return sizes
    if places is None:
        return counts
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], np.arange(len(constraint.labels)))
    merged: Counts = np.add.reduceat(counts[:, :, order], starts, axis=2)
    return merged


def _left(records: Counts, power: Counts) -> Counts:
    """What remains in each group without the `power` providers that have the most; providers on the second axis."""
    least_first = np.sort(records, axis=1)
    sums = np.cumsum(least_first, axis=1)
    last = (records.shape[1] - power - 1).reshape(-1, *([1] * (records.ndim - 1)))
    left: Counts = np.take_along_axis(sums, last, axis=1)[:, 0]
    return left


def _shares(counts: Counts, listed: NDArray[np.intp], power: Counts) -> NDArray[np.float64]:
    """The largest share that each group can be brought to show of a listed value."""
    most = counts[:, :, listed].sum(axis=1)
    outside = counts.sum(axis=2, keepdims=True) - counts[:, :, listed]
    left = _left(outside, power)
    shares: NDArray[np.float64] = (most / np.maximum(most + left, 1)).max(axis=1, initial=0.0)
    return shares


def _diverse(counts: Counts, least: int, power: Counts) -> NDArray[np.bool_]:
    """Which groups keep at least so many different values.

    Those with fewer values do not; those where too few providers have so few values that they can be left alone do.
    """
    present = counts > 0
    different = np.count_nonzero(present, axis=2)
    providers = np.count_nonzero(different, axis=1)
    few = np.count_nonzero((different > 0) & (different < least), axis=1)
    good: NDArray[np.bool_] = np.count_nonzero(present.any(axis=1), axis=1) >= least
    for each in np.flatnonzero(good & (few >= providers - power)):
        held = counts[each][different[each] > 0]
        good[each] = worst_coalition(held, least, int(power[each]))[0] is None
    return good
