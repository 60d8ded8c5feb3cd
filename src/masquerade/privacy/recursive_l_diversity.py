"""Recursive (c, ℓ)-diversity: no value is too frequent, even for somebody who can rule out ℓ − 2 others.

With a group's counts sorted r₁ ≥ r₂ ≥ … ≥ r_m: r₁ < c · (r_ℓ + … + r_m). Fewer than ℓ values leave 0 on the
right.

Monotone under specialization: in a union r₁ is at most the sum of its parts' r₁, and r_ℓ + … + r_m, the least
that remains without ℓ − 1 values, is at least the sum of its parts'.
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
    checked_number,
    checked_qid,
    checked_sensitive,
    checked_whole,
)


@dataclass(frozen=True)
class RecursiveLDiversity(GroupRequirement):
    """Groups whose most frequent sensitive value is rarer than c times all from the l-th most frequent on."""

    model: ClassVar[str] = "recursive-l-diversity"
    worst = "largest"

    qid: tuple[str, ...]
    c: int | float
    l: int  # noqa: E741 # the papers' name
    sensitive: str

    def __init__(self, qid: Iterable[str], c: float, l: int, sensitive: str) -> None:  # noqa: E741 # the papers' name
        object.__setattr__(self, "qid", checked_qid(self, qid))
        object.__setattr__(self, "c", checked_number(self, "c", c, 0, open_low=True))
        object.__setattr__(self, "l", checked_whole(self, "l", l))
        object.__setattr__(self, "sensitive", checked_sensitive(self, sensitive, self.qid))

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
        """Which groups have r₁ < c · (r_l + … + r_m)."""
        return self.figures(histogram, whole) < self.c * (1 - TOLERANCE)

    def parameters(self) -> dict[str, object]:
        """`c`, `l` and `sensitive`."""
        return {"c": self.c, "l": self.l, "sensitive": self.sensitive}

    def complaint(self, figure: float, size: int) -> str:
        """Its ratio, and below what it must be."""
        if np.isinf(figure):
            least = self.l
            return (
                f"has fewer than {least} different values of {self.sensitive}; at least {least} are required"
            )
        return (
            f"has a most frequent value of {self.sensitive} with {figure:.4g} times the records "
            f"of its values from number {self.l} on; less than {self.c} times is required"
        )

    def as_strict_as(self, other: GroupRequirement) -> bool:
        """A smaller c and a larger l imply the others."""
        return isinstance(other, RecursiveLDiversity) and self.c <= other.c and self.l >= other.l
