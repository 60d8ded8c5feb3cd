"""Distinct ℓ-diversity: every group has at least ℓ different sensitive values.

Monotone under specialization: a union has every value that one of its parts has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts
from masquerade.forms import whole
from masquerade.privacy.m_privacy.constraint import BreachTest, Constraint, worst_coalition
from masquerade.privacy.m_privacy.search import Masks, MPrivacyOutcome, Unions, everybody, popcount
from masquerade.privacy.requirement import (
    GIVEN_ONCE,
    GroupRequirement,
    SharedRow,
    Thresholds,
    limit,
    plural,
    qid,
    requirement,
    sensitive,
)

if TYPE_CHECKING:
    from masquerade.crypto import Circuit
    from masquerade.privacy.sql import GroupTest, SqlWords

_WORD = 64  # values that fit into one word of bits


class LeastValues(Constraint):
    """At least ℓ different values, against coalitions."""

    part: LDiversity

    @property
    def nanoseconds(self) -> int:
        """A few look-ups for each coalition."""
        return 25

    def worst_coalition(self, matrix: Counts, power: int) -> MPrivacyOutcome:
        """A coalition that leaves fewer than ℓ values."""
        coalition, nodes = worst_coalition(matrix, self.part.l, power)
        return MPrivacyOutcome(coalition is None, coalition, nodes)

    def withstands(self, counts: Counts, power: Counts) -> NDArray[np.bool_]:
        """Which groups keep ℓ values.

        Those with fewer values do not; those where too few providers have so few values that they can be left alone
        do. The others are searched one by one.
        """
        least, present = self.part.l, counts > 0
        different = np.count_nonzero(present, axis=2)
        providers = np.count_nonzero(different, axis=1)
        few = np.count_nonzero((different > 0) & (different < least), axis=1)
        good: NDArray[np.bool_] = np.count_nonzero(present.any(axis=1), axis=1) >= least
        for each in np.flatnonzero(good & (few >= providers - power)):
            held = counts[each][different[each] > 0]
            good[each] = worst_coalition(held, least, int(power[each]))[0] is None
        return good

    def breach_test(self, matrix: Counts) -> BreachTest:
        """Unions of sets of values, where these fit into a word."""
        present = matrix > 0
        used = present.any(axis=0)
        if np.count_nonzero(used) > _WORD:
            return super().breach_test(matrix)
        least, values, everyone = self.part.l, Unions(present[:, used]), everybody(len(matrix))

        def breached(coalitions: Masks) -> NDArray[np.bool_]:
            few: NDArray[np.bool_] = popcount(values.of(coalitions ^ everyone)) < least
            return few

        return breached


@requirement
class LDiversity(GroupRequirement):
    """Groups of at least l different sensitive values."""

    model: ClassVar[str] = "l-diversity"
    promise = "at least ℓ different sensitive values in each group"
    figure_meaning = "distinct sensitive values in the least diverse group"
    monotone_in_records = True
    hereditary = True  # a part has no more records, and no more values
    constraint = LeastValues

    qid: Sequence[str] = qid()
    l: int = limit(  # noqa: E741 # the papers' name
        whole(), stricter="larger", symbol="ℓ", example=2, help="different sensitive values in each group, at least"
    )
    sensitive: str = sensitive(default=GIVEN_ONCE)

    @property
    def limit(self) -> int:
        """ℓ."""
        return self.l

    @property
    def thresholds(self) -> Thresholds:
        """ℓ different values."""
        return Thresholds(values=self.l)

    def circuit(self, row: SharedRow) -> Circuit:
        """At least ℓ counts above 0."""
        from masquerade.crypto import row_distinct

        return row_distinct(row.n_values, row.width, self.l)

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> Counts:
        """How many different sensitive values each group has."""
        different: Counts = np.count_nonzero(histogram, axis=1)
        return different

    def allows(self, figures: NDArray[Any]) -> NDArray[np.bool_]:
        """At least ℓ different values."""
        return figures >= self.l

    def sql(self, words: SqlWords) -> GroupTest:
        """Fewer than ℓ values."""
        return words.test("count(*)", f"count(*) < {self.l}")

    def sql_against(self, words: SqlWords, m: int) -> GroupTest:
        """Fewer than ℓ values that somebody outside has, for one of the largest coalitions."""
        holders = f"(SELECT {words.qid}, v, list(DISTINCT p) AS holders FROM held GROUP BY {words.qid}, v)"
        left = "count_if(NOT list_has_all(coalition, holders))"
        each = (
            f"(SELECT {words.qid}, coalition, {left} AS different\n"
            f"   FROM {words.coalitions(m)} JOIN {holders} USING ({words.qid})\n"
            f"   GROUP BY {words.qid}, coalition)"
        )
        return words.test("min(different)", f"min(different) < {self.l}", each)

    def complaint(self, figure: float, size: int) -> str:
        """Its different values, and how many it needs."""
        values = plural(int(figure), "different value")
        return f"has {values} of {self.sensitive}; at least {self.l} are required"
