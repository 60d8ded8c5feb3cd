"""m-privacy of many groups at once, from their counts by provider and sensitive value.

What an algorithm asks for each split that it considers. Sizes and shares are decided for all groups in a few array
operations, and distinct ℓ-diversity for nearly all; the other groups are asked one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data import Combination, ProductColumn, columns_of
from masquerade.engine import Counts
from masquerade.errors import ParameterError
from masquerade.privacy.m_privacy.constraint import ANONYMIZATION_WEIGHT, Constraint, least_left_of_groups, score
from masquerade.privacy.m_privacy.search import MPrivacyOutcome
from masquerade.privacy.m_privacy.strategies import ProviderGroup, Strategy, exact, strategy_named


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

    def outcome(self, counts: Counts) -> MPrivacyOutcome:
        """The verdict on one group (providers × values): coalitions are of rows of `counts`."""
        group = self.group(counts)
        found = self._verify(group, self.m)
        if found.coalition is None:
            return found
        members = tuple(group.providers[list(found.coalition)].tolist())
        return MPrivacyOutcome(found.private, members, found.checks)

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

    def group(self, counts: Counts) -> ProviderGroup:
        """One group, for the strategies."""
        matrices = [
            _merged(counts[None], constraint, places)[0]
            for constraint, places in zip(self.constraints, self._places, strict=True)
        ]
        return ProviderGroup(self.constraints, matrices)


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


# --- provider counts ----------------------------------------------------------------------------------------
# Counts of groups by provider and sensitive value, from histograms over combinations of the two.


@dataclass(frozen=True, eq=False)
class ProviderCounts:
    """Where a histogram's columns stand in an array of providers × values."""

    providers: tuple[str, ...]
    n_values: int
    _places: NDArray[np.intp]
    # For each wrapped requirement: its own values by name, and which of them each value of the counts belongs to.
    values: tuple[tuple[tuple[str, ...], NDArray[np.intp]], ...]

    def counts(self, histogram: Counts) -> Counts:
        """The counts of each row as groups × providers × values."""
        n_providers = len(self.providers)
        dense = np.zeros((len(histogram), n_providers * self.n_values), np.int64)
        dense[:, self._places] = histogram
        return dense.reshape(len(histogram), n_providers, self.n_values)


@lru_cache(maxsize=16)
def provider_counts(
    labels: tuple[Any, ...], counted: ProductColumn, looked_at: tuple[str | None, ...]
) -> ProviderCounts:
    """The layout of a histogram whose columns are combinations of a provider and sensitive values.

    `counted` names what is combined, the provider first; `looked_at` is each wrapped requirement's sensitive attribute.
    """
    if not all(isinstance(label, Combination) for label in labels):
        raise ParameterError("m-privacy: the counts must be of combinations of a provider and sensitive values")
    providers = sorted({(label.places[0], label.values[0]) for label in labels})
    rows = {place: row for row, (place, _) in enumerate(providers)}
    combined = sorted({label.places[1:] for label in labels})
    columns = {places: column for column, places in enumerate(combined)}
    n_values = max(len(combined), 1)
    places = [rows[label.places[0]] * n_values + columns[label.places[1:]] for label in labels]
    names = {label.places[1:]: label.values[1:] for label in labels}
    values: list[tuple[tuple[str, ...], NDArray[np.intp]]] = []
    for sensitive in looked_at:
        if sensitive is None:
            values.append(((), np.zeros(n_values, np.intp)))
            continue
        at = [counted.names[1:].index(name) for name in columns_of(sensitive)]
        known = {tuple(each[i] for i in at): tuple(names[each][i] for i in at) for each in combined}
        order = {each: number for number, each in enumerate(sorted(known))}
        several = isinstance(sensitive, ProductColumn)
        texts = tuple(Combination(known[each], each) if several else known[each][0] for each in sorted(known))
        values.append((texts, np.array([order[tuple(each[i] for i in at)] for each in combined], np.intp)))
    names_of_providers = tuple(name for _, name in providers)
    return ProviderCounts(names_of_providers, n_values, np.array(places, np.intp), tuple(values))
