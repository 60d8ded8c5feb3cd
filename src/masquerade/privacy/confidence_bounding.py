"""Confidence bounding: the quasi-identifier gives nobody's sensitive value away with much confidence.

The confidence of qid → s in a group is the share of its records that have the sensitive value s. It may be bounded for
some listed values only, which a table must have: a value that is nowhere satisfies every bound, so a typing error
would go unseen.

Monotone under specialization: a union's shares are weighted means of its parts' shares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts
from masquerade.forms import number
from masquerade.privacy.m_privacy.constraint import Constraint, largest_contributors, least_left, least_left_of_groups
from masquerade.privacy.m_privacy.search import MPrivacyOutcome
from masquerade.privacy.requirement import (
    GIVEN_ONCE,
    TOLERANCE,
    CircuitCounts,
    GroupRequirement,
    SharedRow,
    beside,
    limit,
    qid,
    requirement,
    sensitive,
    values,
)

if TYPE_CHECKING:
    from masquerade.crypto import Builder, Circuit, Literal
    from masquerade.privacy.sql import GroupTest, SqlWords

# --- closest fraction ---------------------------------------------------------------------------------------
# The closest fraction below a bound: it stands for the bound wherever fractions of counts are compared with
# it.
#
# A share, a ratio or a distance of a group is a fraction whose denominator is at most the number of
# records. So to compare it with the bound is to compare it with the largest such fraction within the bound,
# and that takes whole numbers no longer than the counts.


def largest_within(bound: Fraction, n_records: int) -> tuple[int, int]:
    """Return the largest fraction, at most `bound`, whose denominator is at most `n_records`."""
    whole = bound.numerator // bound.denominator
    exact = bound - whole
    below, above = (0, 1), (1, 1)
    while below[1] + above[1] <= n_records:
        # As many steps at once as one side allows: the fractions between two neighbours are their sums.
        (a, b), (c, d) = below, above
        middle = Fraction(a + c, b + d)
        if middle <= exact:
            gap = exact.denominator * c - exact.numerator * d
            steps = (exact.numerator * b - exact.denominator * a) // gap if gap else n_records
            steps = max(1, min(steps, (n_records - b) // d))
            below = a + steps * c, b + steps * d
        else:
            gap = exact.numerator * b - exact.denominator * a
            steps = (exact.denominator * c - exact.numerator * d - 1) // gap if gap else n_records
            steps = max(1, min(steps, (n_records - d) // b))
            above = c + steps * a, d + steps * b
    return whole * below[1] + below[0], below[1]


def largest_below(bound: Fraction, n_records: int) -> tuple[int, int]:
    """Return the largest fraction, less than `bound` (above 0), whose denominator is at most `n_records`."""
    # Two fractions differ by at least one over the product of their denominators.
    return largest_within(bound - Fraction(1, n_records * bound.denominator), n_records)


# --- confidence bounding ------------------------------------------------------------------------------------


class MostShare(Constraint):
    """A bound on shares, against coalitions: all records of the value, and the fewest of the others'."""

    part: ConfidenceBounding

    @property
    def _listed(self) -> NDArray[np.intp]:
        """The columns of the values that are bounded."""
        wanted = self.labels if self.part.values is None else set(self.part.values)
        return np.array([at for at, label in enumerate(self.labels) if label in wanted], np.intp)

    def holds_between(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """Where even a listed value with all of its records, and the others' at their least, is within the bound."""
        listed = self._listed
        others = rest.sum(axis=1, keepdims=True) - rest[:, listed]
        return self._within(total[:, listed], others)

    def worst_coalition(self, matrix: Counts, power: int) -> MPrivacyOutcome:
        """One candidate for each listed value."""
        return worst_share(matrix, self._listed, self.part.confidence + TOLERANCE, power)

    def withstands(self, counts: Counts, power: Counts) -> NDArray[np.bool_]:
        """Which groups cannot be brought to show a larger share of a listed value."""
        listed = self._listed
        outside = counts.sum(axis=2, keepdims=True) - counts[:, :, listed]
        return self._within(counts[:, :, listed].sum(axis=1), least_left_of_groups(outside, power))

    def _within(self, most: Counts, others: Counts) -> NDArray[np.bool_]:
        shares: NDArray[np.float64] = (most / np.maximum(most + others, 1)).max(axis=1, initial=0.0)
        return self.part.allows(shares)


@requirement
class ConfidenceBounding(GroupRequirement):
    """Groups that give each listed (or every) sensitive value away with at most this confidence."""

    model: ClassVar[str] = "confidence-bounding"
    promise = "no sensitive value can be inferred with more confidence"
    figure_meaning = "largest confidence in a sensitive value in a group"
    worst = "largest"
    constraint = MostShare

    qid: Sequence[str] = qid()
    confidence: float = limit(
        number(0, 1, open_low=True),
        stricter="smaller",
        symbol="Confidence",
        example=0.5,
        help="the confidence in a sensitive value, at most",
        aliases=("c", "h"),
    )
    sensitive: str = sensitive(default=GIVEN_ONCE)
    values: Sequence[Any] | None = values(default=None)

    @property
    def limit(self) -> float:
        """The confidence."""
        return self.confidence

    @property
    def implied_size(self) -> int:
        """Where no value at all may have a larger share, there are several values, and as many records."""
        return 1 if self.values is not None else math.ceil(1 / (self.confidence + TOLERANCE))

    def circuit(self, row: SharedRow) -> Circuit:
        """No bounded count above its share of their sum."""
        from masquerade.crypto import row_bounded

        most = largest_share(self.confidence, row.n_records)
        bounded = tuple(range(row.n_bounded))
        return row_bounded(row.n_values, row.width, most, bounded)

    def shared_test(self, build: Builder, counts: CircuitCounts) -> Literal:
        """The same, in a shallow circuit."""
        from masquerade.crypto import at_most, words

        most = largest_share(self.confidence, counts.most_records)
        total = words.total(build, counts.cells, shallow=True)
        return build.all_of([at_most(build, counts.cells[at], total, most, shallow=True) for at in counts.bounded])

    def worst_share(self, most_records: int) -> tuple[int, int]:
        """The confidence."""
        return largest_share(self.confidence, most_records)

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.float64]:
        """The largest confidence with which each group gives a (listed) sensitive value away."""
        listed = histogram
        if self.values is not None:
            wanted = set(self.values)
            listed = histogram[:, [column for column, label in enumerate(labels) if label in wanted]]
        shares: NDArray[np.float64] = listed.max(axis=1, initial=0) / histogram.sum(axis=1)
        return shares

    def allows(self, figures: NDArray[Any]) -> NDArray[np.bool_]:
        """At most the confidence; 29 of 100 are at most 0.29, whatever 0.29 is in binary."""
        return figures <= self.confidence + TOLERANCE

    def sql(self, words: SqlWords) -> GroupTest:
        """A (listed) value with a larger share."""
        most = f"coalesce(max(records) FILTER ({words.listed(self.sensitive, self.values)}), 0)"
        within = words.at_most(most, "sum(records)", self.confidence)
        return words.test(f"{most} / sum(records)", f"NOT ({within})")

    def sql_against(self, words: SqlWords, m: int) -> GroupTest:
        """The same, of a value with all its records, and of the others what the largest contributors leave."""
        qid, listed = words.qid, words.listed(self.sensitive, self.values)
        most = f"(SELECT {qid}, v, sum(records) AS most FROM held WHERE {listed} GROUP BY {qid}, v)"
        sizes = f"(SELECT {qid}, p, sum(records) AS size FROM held GROUP BY {qid}, p)"
        shares = (
            f"(SELECT {qid}, v, max(most) AS most, {words.least_left('size - coalesce(records, 0)', m)} AS others\n"
            f"   FROM {most} JOIN {sizes} USING ({qid}) LEFT JOIN held USING ({qid}, p, v)\n"
            f"   GROUP BY {qid}, v)"
        )
        within = words.at_most("most", "(most + others)", self.confidence)
        return words.test("max(most / (most + others))", f"bool_or(NOT ({within}))", shares)

    def complaint(self, figure: float, size: int) -> str:
        """Its confidence, and the largest allowed."""
        if self.values is None:
            of = f"a value of {self.sensitive}"
        elif len(self.values) == 1:
            of = f"{self.sensitive} = {self.values[0]}"
        else:
            of = f"a listed value of {self.sensitive}"
        share = beside(figure, self.confidence)
        return f"has a share of {share} of {of}; at most {self.confidence} is allowed"


def largest_share(bound: float, n_records: int) -> tuple[int, int]:
    """The largest fraction within the bound whose denominator is at most `n_records`, and 1 at most."""
    return largest_within(min(Fraction(bound) + Fraction(TOLERANCE), Fraction(1)), n_records)


def worst_share(matrix: Counts, listed: NDArray[np.intp], bound: float, power: int) -> MPrivacyOutcome:
    """A coalition that brings a listed value above the bound: those with the most records of other values."""
    most = matrix[:, listed].sum(axis=0)
    outside = matrix.sum(axis=1, keepdims=True) - matrix[:, listed]
    shares = most / np.maximum(most + least_left(outside, power), 1)
    bad = np.flatnonzero(shares > bound)
    if not bad.size:
        return MPrivacyOutcome(True, None, listed.size)
    return MPrivacyOutcome(False, largest_contributors(outside[:, bad[0]], power), listed.size)
