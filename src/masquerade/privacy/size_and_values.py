"""Requirements on two things at once: a least size of each group, and its sensitive values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.circuit import Builder, Circuit, Literal
from masquerade.engine.counts import Counts
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.m_privacy.constraint import AllOf
from masquerade.privacy.requirement import GroupRequirement, SharedCounts, SharedRow

if TYPE_CHECKING:
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

    def shared_test(self, build: Builder, counts: SharedCounts) -> Literal:
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
        return "; and ".join(
            each.complaint(its, size) for each, its in beside if not each.allows(np.array(its))
        )
