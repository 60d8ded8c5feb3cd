"""The result of a method on one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Tried:
    """A method that was tried: its name and parameters, its figure, and what it lost."""

    method: Mapping[str, Any]
    value: float | None  # None where the measure does not apply
    ncp: float | None

    def summary(self) -> dict[str, Any]:
        """Return the entry in the JSON summary."""
        return {**_named(self.method), "value": self.value, "ncp": self.ncp}


@dataclass(frozen=True)
class Failed:
    """A method of another package that failed: its name, with its parameters as far as they are known, and how."""

    method: Mapping[str, Any]
    reason: str

    def summary(self) -> dict[str, Any]:
        """Return the entry in the JSON summary."""
        return {**_named(self.method), "reason": self.reason}


def _named(method: Mapping[str, Any]) -> dict[str, Any]:
    settings = {key: value for key, value in method.items() if key != "name"}
    return {"method": method["name"], "settings": settings}


@dataclass(frozen=True)
class Choice:
    """Which method was chosen of several, by what, and what the others gave."""

    measure: str
    chosen: Tried
    tried: tuple[Tried, ...]  # with the chosen one
    left_out: tuple[Mapping[str, Any], ...]  # methods that would have taken too long
    failed: tuple[Failed, ...]
    answers_queries: bool  # whether releases of the chosen method are judged by random queries
    spared: tuple[Mapping[str, Any], ...] = ()  # methods that could not have lost less

    def summary(self) -> dict[str, Any]:
        """Return the entry in the JSON summary."""
        return {
            "measure": self.measure,
            **_named(self.chosen.method),
            "tried": [each.summary() for each in self.tried],
            "left_out": [dict(each) for each in self.left_out],
            "failed": [each.summary() for each in self.failed],
            "spared": [dict(each) for each in self.spared],
        }


@dataclass(frozen=True, eq=False)
class Outcome:
    """The released columns of the quasi-identifiers, and the steps that led to them.

    `kept` are the released rows, in order; None when all are. Codes of `columns` cover just those rows.
    """

    columns: tuple[Generalised, ...]
    steps: tuple[Step, ...] = ()
    kept: NDArray[np.intp] | None = None
    choice: Choice | None = None  # where the method is the best of several
