"""Recursive (c, ℓ)-diversity: no value is too frequent, even for somebody who can rule out ℓ − 2 others.

With a group's counts sorted r₁ ≥ r₂ ≥ … ≥ r_m: r₁ < c · (r_ℓ + … + r_m). Fewer than ℓ values leave 0 on the
right.

Monotone under specialization: in a union r₁ is at most the sum of its parts' r₁, and r_ℓ + … + r_m, the least
that remains without ℓ − 1 values, is at least the sum of its parts'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts
from masquerade.forms import number, whole
from masquerade.privacy.confidence_bounding import largest_below, worst_share
from masquerade.privacy.m_privacy.constraint import Constraint, largest_contributors, least_left
from masquerade.privacy.m_privacy.search import MPrivacyOutcome
from masquerade.privacy.requirement import (
    GIVEN_ONCE,
    TOLERANCE,
    CircuitCounts,
    GroupRequirement,
    SharedRow,
    limit,
    qid,
    requirement,
    sensitive,
    settled,
)

if TYPE_CHECKING:
    from masquerade.crypto import Builder, Circuit, Literal
    from masquerade.privacy.sql import GroupTest, SqlWords

_MOST_SETS = 1 << 16  # of values; beyond, providers are searched
_AT_A_TIME = 1 << 12  # sets
_ROUNDING = 1e-14  # more than it can change a ratio by


class MostRatio(Constraint):
    """r₁ < c · (r_ℓ + … + r_m), against coalitions."""

    part: RecursiveLDiversity

    @property
    def _bound(self) -> float:
        return self.part.c * (1 - TOLERANCE)

    def holds_between(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """Where the largest ratio between the two is below c."""
        return largest_ratios(rest, total, self.part.l) < self._bound

    def worst_coalition(self, matrix: Counts, power: int) -> MPrivacyOutcome:
        """Whichever ℓ − 1 values are to be the frequent ones: those with the most records of other values collude.

        So there is one candidate for each set of ℓ − 1 values; where these are too many, providers are searched.
        """
        least = self.part.l
        if least == 1:  # its bound must be kept below, not just met
            return worst_share(matrix, np.arange(matrix.shape[1]), np.nextafter(self._bound, 0), power)
        present = np.flatnonzero(matrix.any(axis=0))
        if present.size < least:
            return MPrivacyOutcome(False, (), 1)
        if math.comb(present.size, least - 1) > _MOST_SETS:
            return super().worst_coalition(matrix, power)
        return _worst_set(matrix[:, present], self._bound, least, power)


@requirement
class RecursiveLDiversity(GroupRequirement):
    """Groups whose most frequent sensitive value is rarer than c times all from the l-th most frequent on."""

    model: ClassVar[str] = "recursive-l-diversity"
    promise = "the most frequent value is rarer than c times all from the ℓ-th on"
    figure_meaning = "largest ratio of the most frequent value to the rarer ones in a group"
    worst = "largest"
    constraint = MostRatio

    qid: Sequence[str] = qid()
    c: float = limit(
        number(0, open_low=True),
        stricter="smaller",
        symbol="c",
        example=3,
        help="the most frequent value's records are fewer than c times those of the rarer ones",
    )
    l: int = limit(  # noqa: E741 # the papers' name
        whole(), stricter="larger", symbol="ℓ", example=2, help="the rarer ones are those from the ℓ-th on"
    )
    sensitive: str = sensitive(default=GIVEN_ONCE)

    @property
    def limit(self) -> float:
        """c."""
        return self.c

    @property
    def implied_size(self) -> int:
        """ℓ different values have as many records."""
        return self.l

    def circuit(self, row: SharedRow) -> Circuit:
        """The largest fraction below c, of those that such counts can have."""
        from masquerade.crypto import row_recursive

        return row_recursive(row.n_values, row.width, self._most(row.n_records), self.l)

    def shared_test(self, build: Builder, counts: CircuitCounts) -> Literal:
        """The same, in a shallow circuit."""
        from masquerade.crypto import recursive

        return recursive(build, counts.cells, self._most(counts.most_records), self.l, shallow=True)

    def worst_share(self, most_records: int) -> tuple[int, int]:
        """r₁ < c · tail is a bound on the share of r₁ in r₁ + tail: c / (1 + c); for ℓ = 1 the tail is all, r₁ too."""
        bound = self._exact_bound
        return largest_below(min(bound, Fraction(2)) if self.l == 1 else bound / (1 + bound), most_records)

    @property
    def passed_over(self) -> int:
        """The ℓ − 2 values that are frequent, too."""
        return max(self.l - 2, 0)

    def _most(self, n_records: int) -> tuple[int, int]:
        return largest_below(min(self._exact_bound, Fraction(n_records + 1)), n_records)

    @property
    def _exact_bound(self) -> Fraction:
        return Fraction(self.c) * (1 - Fraction(TOLERANCE))

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.float64]:
        """Each group's r₁ / (r_l + … + r_m); infinite with fewer than l values."""
        n_values = histogram.shape[1]
        tail = histogram.sum(axis=1)
        if self.l > n_values:
            tail = np.zeros_like(tail)
        elif self.l > 1:
            first = n_values - (self.l - 1)  # where the l − 1 most frequent stand, in any order
            tail = tail - np.partition(histogram, first, axis=1)[:, first:].sum(axis=1)
        ratios = np.full(tail.size, np.inf)
        np.divide(histogram.max(axis=1), tail, out=ratios, where=tail > 0)
        return ratios

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """r₁ < c · (r_ℓ + … + r_m), in fractions where it is close."""
        ratios = self.figures(histogram, whole, labels)
        bound = self.c * (1 - TOLERANCE)

        def below(group: int) -> bool:
            ranked = sorted(histogram[group].tolist(), reverse=True)
            return bool(ranked[0] < self._exact_bound * sum(ranked[self.l - 1 :]))

        return settled(ratios < bound, np.abs(ratios - bound) <= _ROUNDING * bound, below)

    def allows(self, figures: NDArray[Any]) -> NDArray[np.bool_]:
        """r₁ < c · (r_ℓ + … + r_m)."""
        return figures < self.c * (1 - TOLERANCE)

    def sql(self, words: SqlWords) -> GroupTest:
        """Not r₁ < c · (r_ℓ + … + r_m), of which the tail is what the ℓ − 1 most frequent values leave."""
        tail = "sum(records)" if self.l == 1 else f"sum(records) - list_sum(max(records, {self.l - 1}))"
        ratio = f"CASE WHEN {tail} > 0 THEN max(records) / ({tail}) ELSE 'inf'::DOUBLE END"
        return words.test(ratio, f"NOT ({words.below('max(records)', f'({tail})', self.c)})")

    def complaint(self, figure: float, size: int) -> str:
        """Its ratio, and below what it must be."""
        if np.isinf(figure):
            least = self.l
            return f"has fewer than {least} different values of {self.sensitive}; at least {least} are required"
        return (
            f"has a most frequent value of {self.sensitive} with {figure:.4g} times the records "
            f"of its values from number {self.l} on; less than {self.c} times is required"
        )


def largest_ratios(rest: Counts, total: Counts, l: int) -> NDArray[np.float64]:  # noqa: E741 # the papers' name
    """The largest r₁ / (r_l + … + r_m) between `rest` and `total`; infinite where fewer than l values can remain.

    r₁ is one value with all of its records. The l − 1 values that the tail leaves out are that one and the l − 2
    others that have the most records anyway; all that is in the tail is as small as can be.
    """
    sums = rest.sum(axis=1, keepdims=True)
    if l == 1:
        tails = sums - rest + total
    else:
        padded = np.pad(-np.sort(-rest, axis=1), ((0, 0), (1, max(l - 1 - rest.shape[1], 0))))
        top = np.cumsum(padded, axis=1)  # top[:, j]: the sum of the j largest
        shorter, longer = top[:, l - 2, None], top[:, l - 1, None]
        among = rest >= (padded[:, l - 2, None] if l > 2 else np.iinfo(np.int64).max)
        tails = sums - rest - np.where(among, longer - rest, shorter)
    ratios = np.full(tails.shape, np.inf)
    np.divide(np.broadcast_to(total, tails.shape), tails, out=ratios, where=tails > 0)
    largest: NDArray[np.float64] = ratios.max(axis=1)
    return largest


def _worst_set(matrix: Counts, c: float, least: int, power: int) -> MPrivacyOutcome:
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
            return MPrivacyOutcome(False, largest_contributors(outside[:, bad[0]], power), checks)
    return MPrivacyOutcome(True, None, checks)
