"""Requirements on two things at once: a least size of each group, and its sensitive values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts
from masquerade.forms import number, whole
from masquerade.privacy.confidence_bounding import ConfidenceBounding
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.m_privacy.constraint import AllOf
from masquerade.privacy.requirement import (
    GIVEN_ONCE,
    CircuitCounts,
    GroupRequirement,
    SharedRow,
    Thresholds,
    limit,
    qid,
    requirement,
    sensitive,
    values,
)

if TYPE_CHECKING:
    from masquerade.crypto import Builder, Circuit, Literal
    from masquerade.privacy.sql import GroupTest, SqlWords


class SizeAndValues(GroupRequirement):
    """Groups of at least k records that also satisfy a requirement on their values, whose figure is reported."""

    constraint = AllOf
    k: int

    @abstractmethod
    def on_values(self) -> GroupRequirement:
        """What the values must satisfy."""

    @cached_property
    def conjuncts(self) -> tuple[GroupRequirement, ...]:
        """k-anonymity, and the requirement on values."""
        return KAnonymity(self.qid, self.k), self.on_values()

    @property
    def required_size(self) -> int:
        """k."""
        return self.k

    @property
    def implied_size(self) -> int:
        """k, or more where the values ask for it."""
        return max(each.implied_size for each in self.conjuncts)

    def circuit(self, row: SharedRow) -> Circuit:
        """That of the requirement on values."""
        return self.conjuncts[1].circuit(row)

    def shared_test(self, build: Builder, counts: CircuitCounts) -> Literal:
        """That of the requirement on values."""
        return self.conjuncts[1].shared_test(build, counts)

    def worst_share(self, most_records: int) -> tuple[int, int] | None:
        """That of the requirement on values."""
        return self.conjuncts[1].worst_share(most_records)

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[Any]:
        """Those of the requirement on values."""
        return self.conjuncts[1].figures(histogram, whole, labels)

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which groups satisfy both."""
        size, values = (each.holds(histogram, whole, labels) for each in self.conjuncts)
        return size & values

    def sql(self, words: SqlWords) -> GroupTest:
        """Fewer than k records, or what violates the requirement on values, whose figure it is."""
        size, values = (each.sql(words) for each in self.conjuncts)
        return words.test(values.figure, f"{size.violates} OR {values.violates}")

    def complaint(self, figure: float, size: int) -> str:
        """Which of the two is broken, or both."""
        beside = zip(self.conjuncts, (size, figure), strict=True)
        return "; and ".join(each.complaint(its, size) for each, its in beside if not each.allows(np.array(its)))


# --- alpha k anonymity --------------------------------------------------------------------------------------
# (α, k)-anonymity: groups of at least k records, in which no sensitive value has more than the share α.
#
# Monotone under specialization: a union is larger than its parts, and its shares are weighted means of
# theirs.


@requirement
class AlphaKAnonymity(SizeAndValues):
    """Groups of at least k records; each listed (or every) sensitive value has at most the share alpha."""

    model: ClassVar[str] = "alpha-k-anonymity"
    promise = "at least k records, and no sensitive value has a share above α"
    figure_meaning = "largest share of a sensitive value in a group"
    worst = "largest"

    qid: Sequence[str] = qid()
    alpha: float = limit(
        number(0, 1, open_low=True),
        stricter="smaller",
        symbol="α",
        example=0.5,
        help="the share of a sensitive value in a group, at most",
    )
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records in each group, at least")
    sensitive: str = sensitive(default=GIVEN_ONCE)
    values: Sequence[Any] | None = values(default=None)

    def on_values(self) -> ConfidenceBounding:
        """A confidence of at most α."""
        return ConfidenceBounding(self.qid, self.alpha, self.sensitive, self.values)


# --- p sensitive k anonymity --------------------------------------------------------------------------------
# p-sensitive k-anonymity: every group has at least k records and at least p different sensitive values.
#
# Monotone under specialization: a union has every record and every value that one of its parts has.


@requirement
class PSensitiveKAnonymity(SizeAndValues):
    """Groups of at least k records and at least p different sensitive values."""

    model: ClassVar[str] = "p-sensitive-k-anonymity"
    promise = "at least k records and p different sensitive values"
    figure_meaning = "distinct sensitive values in the least diverse group"
    monotone_in_records = True
    hereditary = True  # a part has no more records, and no more values

    qid: Sequence[str] = qid()
    p: int = limit(
        whole(), stricter="larger", symbol="p", example=2, help="different sensitive values in each group, at least"
    )
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records in each group, at least")
    sensitive: str = sensitive(default=GIVEN_ONCE)

    @property
    def thresholds(self) -> Thresholds:
        """k records and p different values."""
        return Thresholds(self.k, self.p)

    def on_values(self) -> LDiversity:
        """At least p different values."""
        return LDiversity(self.qid, self.p, self.sensitive)
