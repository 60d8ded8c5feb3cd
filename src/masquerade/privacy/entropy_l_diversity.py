"""Entropy ℓ-diversity: the entropy of each group's sensitive values is at least log ℓ.

Monotone under specialization: entropy is concave, so a union's is at least the smaller one of its parts'.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.requirement import (
    TOLERANCE,
    GroupRequirement,
    beside,
    checked_number,
    checked_qid,
    checked_sensitive,
)


@dataclass(frozen=True)
class EntropyLDiversity(GroupRequirement):
    """Groups whose sensitive values are as mixed as l equally frequent ones; l need not be whole."""

    model: ClassVar[str] = "entropy-l-diversity"

    qid: tuple[str, ...]
    l: int | float  # noqa: E741 # the papers' name
    sensitive: str

    def __init__(self, qid: Iterable[str], l: float, sensitive: str) -> None:  # noqa: E741 # the papers' name
        object.__setattr__(self, "qid", checked_qid(self, qid))
        object.__setattr__(self, "l", checked_number(self, "l", l, 1))
        object.__setattr__(self, "sensitive", checked_sensitive(self, sensitive, self.qid))

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.float64]:
        """Each group's effective number of values, 2^H: so many equally frequent ones have its entropy."""
        sizes = histogram.sum(axis=1)
        logs = np.log2(np.maximum(histogram, 1))
        logs *= histogram
        # Rounding must not let a group with one value have an entropy below 0.
        entropy = np.maximum(np.log2(sizes) - logs.sum(axis=1) / sizes, 0.0)
        effective: NDArray[np.float64] = np.exp2(entropy)
        return effective

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which groups have an entropy of at least log l."""
        return self.figures(histogram, whole) >= self.l * (1 - TOLERANCE)

    def parameters(self) -> dict[str, object]:
        """`l` and `sensitive`."""
        return {"l": self.l, "sensitive": self.sensitive}

    def complaint(self, figure: float, size: int) -> str:
        """Its effective number of values, and how many it needs."""
        shown = beside(figure, self.l)
        return (
            f"has an effective number of {shown} values of {self.sensitive}; at least {self.l} are required"
        )

    def as_strict_as(self, other: GroupRequirement) -> bool:
        """A larger l implies a smaller one."""
        return isinstance(other, EntropyLDiversity) and self.l >= other.l
