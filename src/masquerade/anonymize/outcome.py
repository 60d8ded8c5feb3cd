"""What every anonymizer takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Generalised
from masquerade.data.table import Table
from masquerade.privacy.requirement import Requirement


@dataclass(frozen=True)
class Step:
    """One specialization: a value of an attribute was replaced by its children."""

    attribute: str
    value: str
    children: tuple[str, ...]
    score: float
    party: str | None = None  # who holds the attribute, in a mashup

    def summary(self) -> dict[str, object]:
        """The entry of a JSON summary."""
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
    """The released columns of the quasi-identifiers, and how they came about.

    `kept` are the rows that are released, in order; None when all are. Codes of `columns` cover just those rows.
    """

    columns: tuple[Generalised, ...]
    steps: tuple[Step, ...] = ()
    kept: NDArray[np.intp] | None = None


class Anonymizer(Protocol):
    """An algorithm that turns one table into one release."""

    @property
    def name(self) -> str:
        """Its name in a job file."""

    @property
    def target(self) -> str | None:
        """The class attribute, if it has one."""

    def settings(self) -> dict[str, object]:
        """Its parameters, as a job file names them."""

    def run(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Anonymise a table that has no missing cell in a used column."""
