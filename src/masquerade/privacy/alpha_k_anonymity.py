"""(α, k)-anonymity: groups of at least k records, in which no sensitive value has more than the share α.

Monotone under specialization: a union is larger than its parts, and its shares are weighted means of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.circuit import Circuit
from masquerade.engine.counts import Counts
from masquerade.forms.rules import number, whole
from masquerade.privacy.confidence_bounding import (
    ConfidenceBounding,
    largest_shares,
    share_complaint,
    within,
)
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.m_privacy.constraint import AllOf
from masquerade.privacy.parameters import limit, qid, sensitive, values
from masquerade.privacy.requirement import (
    GroupRequirement,
    SharedRow,
    plural,
)


@dataclass(frozen=True)
class AlphaKAnonymity(GroupRequirement):
    """Groups of at least k records; each listed (or every) sensitive value has at most the share alpha."""

    model: ClassVar[str] = "alpha-k-anonymity"
    promise = "at least k records, and no sensitive value has a share above α"
    figure_meaning = "largest share of a sensitive value in a group"
    worst = "largest"
    constraint = AllOf

    qid: Sequence[str] = qid()
    alpha: float = limit(
        number(0, 1, open_low=True),
        stricter="smaller",
        symbol="α",
        example=0.5,
        help="the share of a sensitive value in a group, at most",
    )
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records in each group, at least")
    sensitive: str = sensitive()
    values: Sequence[Any] | None = values()

    @property
    def conjuncts(self) -> tuple[KAnonymity, ConfidenceBounding]:
        """k-anonymity, and a confidence of at most α."""
        bounded = ConfidenceBounding(self.qid, self.alpha, self.sensitive, self.values)
        return KAnonymity(self.qid, self.k), bounded

    @property
    def required_size(self) -> int:
        """k."""
        return self.k

    @property
    def implied_size(self) -> int:
        """k, or more where α asks for it."""
        return max(each.implied_size for each in self.conjuncts)

    def circuit(self, row: SharedRow) -> Circuit:
        """No bounded count above its share of their sum."""
        return self.conjuncts[1].circuit(row)

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str]) -> NDArray[np.float64]:
        """Each group's largest share of a sensitive value."""
        return largest_shares(histogram, self.values, labels)

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str]) -> NDArray[np.bool_]:
        """Which groups are large enough, with shares of at most alpha."""
        large: NDArray[np.bool_] = histogram.sum(axis=1) >= self.k
        return large & within(self.figures(histogram, whole, labels), self.alpha)

    def complaint(self, figure: float, size: int) -> str:
        """Which of the two is broken, or both."""
        problems = []
        if size < self.k:
            problems.append(f"{plural(size, 'record')}; at least {self.k} are required")
        if not within(np.array(figure), self.alpha):
            problems.append(share_complaint(self.sensitive, self.values, figure, self.alpha))
        return "has " + "; and ".join(problems)
