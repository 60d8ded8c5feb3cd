"""Distinct ℓ-diversity: every group has at least ℓ different sensitive values.

Monotone under specialization: a union has every value that one of its parts has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.privacy.requirement import (
    GroupRequirement,
    checked_qid,
    checked_sensitive,
    checked_whole,
    plural,
)


@dataclass(frozen=True)
class LDiversity(GroupRequirement):
    """Groups of at least l different sensitive values."""

    model: ClassVar[str] = "l-diversity"
    hereditary = True  # a part has no more records, and no more values

    qid: tuple[str, ...]
    l: int  # noqa: E741 # the papers' name
    sensitive: str

    def __init__(self, qid: Iterable[str], l: int, sensitive: str) -> None:  # noqa: E741 # the papers' name
        object.__setattr__(self, "qid", checked_qid(self, qid))
        object.__setattr__(self, "l", checked_whole(self, "l", l))
        object.__setattr__(self, "sensitive", checked_sensitive(self, sensitive, self.qid))

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> Counts:
        """How many different sensitive values each group has."""
        different: Counts = np.count_nonzero(histogram, axis=1)
        return different

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which groups have at least l different values."""
        return self.figures(histogram, whole) >= self.l

    def parameters(self) -> dict[str, object]:
        """`l` and `sensitive`."""
        return {"l": self.l, "sensitive": self.sensitive}

    def complaint(self, figure: float, size: int) -> str:
        """Its different values, and how many it needs."""
        values = plural(int(figure), "different value")
        return f"has {values} of {self.sensitive}; at least {self.l} are required"

    def as_strict_as(self, other: GroupRequirement) -> bool:
        """A larger l implies a smaller one."""
        return isinstance(other, LDiversity) and self.l >= other.l
