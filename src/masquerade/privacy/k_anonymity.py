"""k-anonymity: every combination of values on the quasi-identifier is shared by at least k records.

Monotone under specialization: a union is at least as large as each of its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.requirement import GroupRequirement, checked_qid, checked_whole, plural


@dataclass(frozen=True)
class KAnonymity(GroupRequirement):
    """Groups of at least k records."""

    model: ClassVar[str] = "k-anonymity"
    hereditary = True  # a part has no more records, and no more values

    qid: tuple[str, ...]
    k: int

    def __init__(self, qid: Iterable[str], k: int) -> None:
        object.__setattr__(self, "qid", checked_qid(self, qid))
        object.__setattr__(self, "k", checked_whole(self, "k", k))

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> Counts:
        """Each group's size."""
        sizes: Counts = histogram.sum(axis=1)
        return sizes

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which groups have at least k records."""
        return self.figures(histogram, whole) >= self.k

    def parameters(self) -> dict[str, object]:
        """`k`."""
        return {"k": self.k}

    def complaint(self, figure: float, size: int) -> str:
        """Its size, and the size it needs."""
        return f"has {plural(size, 'record')}; at least {self.k} are required"

    def as_strict_as(self, other: GroupRequirement) -> bool:
        """A larger k implies a smaller one."""
        return isinstance(other, KAnonymity) and self.k >= other.k
