"""m-privacy of many groups at once, from their counts by provider and sensitive value.

What an algorithm asks for each split that it considers. Sizes and shares are decided for all groups in a few array
operations, and distinct ℓ-diversity for nearly all; the other groups are asked one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.m_privacy.constraint import Constraint, least_left_of_groups
from masquerade.privacy.m_privacy.fitness import ANONYMIZATION_WEIGHT, score
from masquerade.privacy.m_privacy.group import Group
from masquerade.privacy.m_privacy.outcome import Outcome
from masquerade.privacy.m_privacy.strategies import Strategy, exact, strategy_named


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
        power = self._power(sizes)
        for constraint, places in zip(self.constraints, self._places, strict=True):
            still = np.flatnonzero(good & sizes.any(axis=1))
            if not still.size:
                break
            good[still] = constraint.withstands(_merged(counts[still], constraint, places), power[still])
        return good

    def records_left(self, counts: Counts) -> Counts:
        """The records of each group that the largest coalition leaves at least."""
        sizes = counts.sum(axis=2)
        return least_left_of_groups(sizes, self._power(sizes))

    def _power(self, sizes: Counts) -> Counts:
        """The size of the largest coalition in each group: one of the providers that feed it is left."""
        power: Counts = np.clip(np.count_nonzero(sizes, axis=1) - 1, 0, self.m)
        return power

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
