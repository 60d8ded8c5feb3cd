"""The result of a method on one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Generalised


@dataclass(frozen=True)
class Step:
    """One specialization: a value of an attribute was replaced by its children."""

    attribute: str
    value: str
    children: tuple[str, ...]
    score: float
    party: str | None = None  # who holds the attribute, in a mashup

    def summary(self) -> dict[str, object]:
        """Return the step's entry in the JSON summary."""
        entry: dict[str, object] = {
            "attribute": self.attribute,
            "value": self.value,
            "children": list(self.children),
            "score": self.score,
        }
        return entry if self.party is None else {**entry, "party": self.party}


OnStep = Callable[[Step], None]


@dataclass(frozen=True, eq=False)
class Outcome:
    """The released columns of the quasi-identifiers, and the steps that led to them.

    `kept` are the released rows, in order; None when all are. Codes of `columns` cover just those rows.
    """

    columns: tuple[Generalised, ...]
    steps: tuple[Step, ...] = ()
    kept: NDArray[np.intp] | None = None
