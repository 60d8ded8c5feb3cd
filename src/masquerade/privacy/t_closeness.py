"""t-closeness: the sensitive values of each group are distributed almost as in the whole table.

Monotone under specialization: a union's distribution is a weighted mean of its parts', and both distances are
convex.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.forms.declared import parameter_error
from masquerade.privacy.requirement import (
    TOLERANCE,
    GroupRequirement,
    beside,
    checked_number,
    checked_qid,
    checked_sensitive,
)

Distance = Literal["equal", "ordered"]


@dataclass(frozen=True)
class TCloseness(GroupRequirement):
    """Groups whose sensitive values are at most t away from the whole table's.

    The distance is the earth mover's: "equal" when any two values are as far from each other as any other
    two, "ordered" when values are as far as their ranks among the table's values (numbers in their order,
    text in its).
    """

    model: ClassVar[str] = "t-closeness"
    worst = "largest"

    qid: tuple[str, ...]
    t: int | float
    sensitive: str
    distance: Distance = "equal"

    def __init__(self, qid: Iterable[str], t: float, sensitive: str, distance: Distance = "equal") -> None:
        object.__setattr__(self, "qid", checked_qid(self, qid))
        object.__setattr__(self, "t", checked_number(self, "t", t, 0, 1))
        object.__setattr__(self, "sensitive", checked_sensitive(self, sensitive, self.qid))
        if distance not in get_args(Distance):
            raise parameter_error(self, "distance", '"equal" or "ordered"', distance)
        object.__setattr__(self, "distance", distance)

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.float64]:
        """Each group's distance from the whole table."""
        occurring = whole[0] > 0
        if not occurring.all():
            histogram, whole = histogram[:, occurring], whole[:, occurring]
        # One array of the histogram's size is all the room it takes.
        difference: NDArray[np.float64] = histogram / histogram.sum(axis=1, keepdims=True)
        difference -= whole / whole.sum()
        if self.distance == "ordered":
            np.cumsum(difference, axis=1, out=difference)
        np.abs(difference, out=difference)
        total: NDArray[np.float64] = difference.sum(axis=1)
        return total / (max(whole.shape[1] - 1, 1) if self.distance == "ordered" else 2)

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """Which groups are at most t away."""
        return self.figures(histogram, whole) <= self.t + TOLERANCE

    def parameters(self) -> dict[str, object]:
        """`t`, `sensitive` and `distance`."""
        return {"t": self.t, "sensitive": self.sensitive, "distance": self.distance}

    def complaint(self, figure: float, size: int) -> str:
        """Its distance, and the largest allowed."""
        shown = beside(figure, self.t)
        return (
            f"has values of {self.sensitive} at a distance of {shown} from the whole table's; "
            f"at most {self.t} is allowed"
        )

    def as_strict_as(self, other: GroupRequirement) -> bool:
        """A smaller t implies a larger one; an equal distance is never below the ordered one."""
        return (
            isinstance(other, TCloseness) and self.t <= other.t and self.distance in ("equal", other.distance)
        )
