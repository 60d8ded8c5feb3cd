"""k-anonymity: every combination of values on the quasi-identifier is shared by at least k records.

Monotone under specialization: a union is at least as large as each of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts
from masquerade.forms import whole
from masquerade.privacy.m_privacy.constraint import BreachTest, Constraint, least_left_of_groups, sizes_of
from masquerade.privacy.m_privacy.search import Masks, MPrivacyOutcome, Sums
from masquerade.privacy.requirement import GroupRequirement, Thresholds, limit, plural, qid, requirement

if TYPE_CHECKING:
    from masquerade.privacy.sql import GroupTest, SqlWords


class LeastRecords(Constraint):
    """At least k records, against coalitions: the largest contributors are the worst."""

    part: KAnonymity

    @property
    def nanoseconds(self) -> int:
        """A few look-ups for each coalition."""
        return 25

    def worst_coalition(self, matrix: Counts, power: int) -> MPrivacyOutcome:
        """As few of the largest contributors as breach."""
        sizes = sizes_of(matrix)
        order = np.argsort(-sizes, kind="stable")[:power]
        left = sizes.sum() - np.concatenate([[0], np.cumsum(sizes[order])])  # without nobody, the largest, …
        if left[-1] >= self.part.k:
            return MPrivacyOutcome(True, None, 1)
        enough = int(np.argmax(left < self.part.k))
        return MPrivacyOutcome(False, tuple(sorted(order[:enough].tolist())), 1)

    def withstands(self, counts: Counts, power: Counts) -> NDArray[np.bool_]:
        """Which groups have k records left."""
        return least_left_of_groups(sizes_of(counts), power) >= self.part.k

    def breach_test(self, matrix: Counts) -> BreachTest:
        """Sums of sizes alone."""
        sizes = sizes_of(matrix)
        k, total, removed = self.part.k, int(sizes.sum()), Sums(sizes)

        def breached(coalitions: Masks) -> NDArray[np.bool_]:
            few: NDArray[np.bool_] = total - removed.of(coalitions) < k
            return few

        return breached


@requirement
class KAnonymity(GroupRequirement):
    """Groups of at least k records."""

    model: ClassVar[str] = "k-anonymity"
    promise = "at least k records in each group"
    figure_meaning = "records in the smallest group"
    monotone_in_records = True
    hereditary = True  # a part has no more records, and no more values
    constraint = LeastRecords

    qid: Sequence[str] = qid()
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records in each group, at least")

    @property
    def limit(self) -> int:
        """k."""
        return self.k

    @property
    def required_size(self) -> int:
        """k."""
        return self.k

    @property
    def thresholds(self) -> Thresholds:
        """k records."""
        return Thresholds(records=self.k)

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> Counts:
        """Each group's size."""
        sizes: Counts = histogram.sum(axis=1)
        return sizes

    def allows(self, figures: NDArray[Any]) -> NDArray[np.bool_]:
        """At least k records."""
        return figures >= self.k

    def sql(self, words: SqlWords) -> GroupTest:
        """Fewer than k records."""
        return words.test("sum(records)", f"sum(records) < {self.k}")

    def sql_against(self, words: SqlWords, m: int) -> GroupTest:
        """Fewer than k records without the m providers that have the most, or all providers but one."""
        sizes = f"(SELECT {words.qid}, p, sum(records) AS records FROM held GROUP BY {words.qid}, p)"
        left = words.least_left("records", m)
        return words.test(left, f"{left} < {self.k}", sizes)

    def complaint(self, figure: float, size: int) -> str:
        """Its size, and the size it needs."""
        return f"has {plural(size, 'record')}; at least {self.k} are required"


# --- constrained k anonymity --------------------------------------------------------------------------------
# Constrained k-anonymity: k-anonymity, and no value generalised beyond its boundary (Definition 6).
#
# Monotone under specialization, as k-anonymity is; the boundaries are the attributes' own
# (`data/boundary.py`).


@requirement
class ConstrainedKAnonymity(KAnonymity):
    """Groups of at least k records, whose values keep to the boundaries of their attributes."""

    model: ClassVar[str] = "constrained-k-anonymity"
    promise = "at least k records in each group, and no value generalised beyond its boundary"
    within_boundaries = True

    qid: Sequence[str] = qid()
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records in each group, at least")
