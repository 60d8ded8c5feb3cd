"""p-sensitive k-anonymity: every group has at least k records and at least p different sensitive values.

Monotone under specialization: a union has every record and every value that one of its parts has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.circuit import Circuit
from masquerade.engine.counts import Counts
from masquerade.forms.rules import whole
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.m_privacy.constraint import AllOf
from masquerade.privacy.parameters import limit, qid, sensitive
from masquerade.privacy.requirement import (
    GroupRequirement,
    SharedRow,
    Thresholds,
    plural,
)


@dataclass(frozen=True)
class PSensitiveKAnonymity(GroupRequirement):
    """Groups of at least k records and at least p different sensitive values."""

    model: ClassVar[str] = "p-sensitive-k-anonymity"
    promise = "at least k records and p different sensitive values"
    figure_meaning = "distinct sensitive values in the least diverse group"
    monotone_in_records = True
    hereditary = True  # a part has no more records, and no more values
    constraint = AllOf

    qid: Sequence[str] = qid()
    p: int = limit(
        whole(),
        stricter="larger",
        symbol="p",
        example=2,
        help="different sensitive values in each group, at least",
    )
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records in each group, at least")
    sensitive: str = sensitive()

    @property
    def conjuncts(self) -> tuple[KAnonymity, LDiversity]:
        """k-anonymity and distinct p-diversity."""
        return KAnonymity(self.qid, self.k), LDiversity(self.qid, self.p, self.sensitive)

    @property
    def required_size(self) -> int:
        """k."""
        return self.k

    @property
    def thresholds(self) -> Thresholds:
        """k records and p different values."""
        return Thresholds(self.k, self.p)

    def circuit(self, row: SharedRow) -> Circuit:
        """At least p counts above 0."""
        return self.conjuncts[1].circuit(row)

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> Counts:
        """How many different sensitive values each group has."""
        different: Counts = np.count_nonzero(histogram, axis=1)
        return different

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which groups are large enough, with enough different values."""
        large: NDArray[np.bool_] = histogram.sum(axis=1) >= self.k
        return large & (self.figures(histogram, whole) >= self.p)

    def complaint(self, figure: float, size: int) -> str:
        """Which of the two is broken, or both."""
        problems = []
        if size < self.k:
            problems.append(f"{plural(size, 'record')}; at least {self.k} are required")
        if figure < self.p:
            values = plural(int(figure), "different value")
            problems.append(f"{values} of {self.sensitive}; at least {self.p} are required")
        return "has " + "; and ".join(problems)
