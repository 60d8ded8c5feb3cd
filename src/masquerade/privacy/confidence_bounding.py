"""Confidence bounding: the quasi-identifier gives nobody's sensitive value away with much confidence.

The confidence of qid → s in a group is the share of its records that have the sensitive value s.

Monotone under specialization: a union's shares are weighted means of its parts' shares.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.requirement import GroupRequirement, checked_number, checked_qid, checked_sensitive
from masquerade.privacy.shares import (
    at_least_values,
    checked_values,
    largest_shares,
    refuse_unknown,
    share_complaint,
    within,
)


@dataclass(frozen=True)
class ConfidenceBounding(GroupRequirement):
    """Groups that give each listed (or every) sensitive value away with at most this confidence."""

    model: ClassVar[str] = "confidence-bounding"
    worst = "largest"

    qid: tuple[str, ...]
    confidence: int | float
    sensitive: str
    values: tuple[str, ...] | None = None

    def __init__(
        self, qid: Iterable[str], confidence: float, sensitive: str, values: Iterable[Any] | None = None
    ) -> None:
        object.__setattr__(self, "qid", checked_qid(self, qid))
        object.__setattr__(
            self, "confidence", checked_number(self, "confidence", confidence, 0, 1, open_low=True)
        )
        object.__setattr__(self, "sensitive", checked_sensitive(self, sensitive, self.qid))
        object.__setattr__(self, "values", checked_values(self, values))

    def bind(self, labels: Sequence[str]) -> None:
        """Refuse listed values that the table does not have."""
        refuse_unknown(self, self.values, labels)

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str]) -> NDArray[np.float64]:
        """The largest confidence with which each group gives a sensitive value away."""
        return largest_shares(histogram, self.values, labels)

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str]) -> NDArray[np.bool_]:
        """Which groups stay within the confidence."""
        return within(self.figures(histogram, whole, labels), self.confidence)

    def parameters(self) -> dict[str, object]:
        """`confidence`, `sensitive`, and `values` where some are listed."""
        listed = {} if self.values is None else {"values": list(self.values)}
        return {"confidence": self.confidence, "sensitive": self.sensitive, **listed}

    def complaint(self, figure: float, size: int) -> str:
        """Its confidence, and the largest allowed."""
        return "has " + share_complaint(self.sensitive, self.values, figure, self.confidence)

    def as_strict_as(self, other: GroupRequirement) -> bool:
        """A smaller confidence on at least the other's values implies the other."""
        return (
            isinstance(other, ConfidenceBounding)
            and self.confidence <= other.confidence
            and at_least_values(self.values, other.values)
        )
