"""A Cox model: how much each attribute raises the hazard, and the hazard of an average record over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from masquerade.protocol.learn.models.linear import Coefficient, is_number, read_coefficients, weighted_sum
from masquerade.protocol.learn.models.model import Cells, Model, NotAModel, Numbers


@dataclass(frozen=True)
class CoxSurvival(Model):
    """Coefficients by attribute, in its own unit, with their standard errors.

    `baseline` has times, and the cumulative hazard until each of a record whose weighted sum is `center`, which is that
    of the attributes' means.
    """

    coefficients: Mapping[str, Coefficient]
    errors: Mapping[str, Coefficient]
    center: float
    baseline: tuple[tuple[float, float], ...]
    unit: float = 1.0  # to whose multiples durations were rounded up

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Read what `as_json` writes."""
        coefficients = read_coefficients(written.get("coefficients"))
        errors = read_coefficients(written.get("standard_errors"))
        if not is_number(written.get("center")):
            raise NotAModel("its center is no number")
        if not is_number(written.get("unit", 1.0)):
            raise NotAModel("its unit of time is no number")
        baseline, unit = read_baseline(written.get("baseline")), float(written.get("unit", 1.0))
        return cls(coefficients, errors, float(written["center"]), baseline, unit)

    def as_json(self) -> dict[str, Any]:
        """Return coefficients and standard errors by attribute, and the baseline."""
        return {
            "coefficients": dict(self.coefficients),
            "standard_errors": dict(self.errors),
            "center": self.center,
            "baseline": written_baseline(self.baseline),
            "unit": self.unit,
        }

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes in order."""
        return tuple(self.coefficients)

    def risks(self, cells: Cells) -> Numbers:
        """Return the logarithm of each record's hazard, relative to that of an average one."""
        return weighted_sum(self.coefficients, cells) - self.center

    def survival(self, cells: Cells, times: Sequence[float]) -> Numbers:
        """Return each record's chance to live longer than each time, [records, times]."""
        return survival_curves(self.baseline, self.risks(cells), times)


def survival_curves(
    baseline: Sequence[tuple[float, float]], risks: Numbers, times: Sequence[float]
) -> Numbers:
    """Return each record's chance to live longer than each time; between the baseline's times, the earlier counts."""
    known, hazards = (np.array([0.0, *each]) for each in zip(*baseline, strict=True))
    until = hazards[np.searchsorted(known, np.asarray(times, float), "right") - 1]
    return np.asarray(np.exp(-np.exp(risks)[:, None] * until[None, :]))


def written_baseline(baseline: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
    """Return the baseline as it is written."""
    return [{"time": time, "cumulative_hazard": hazard} for time, hazard in baseline]


def read_baseline(written: Any) -> tuple[tuple[float, float], ...]:
    """Return the baseline; NotAModel unless times and hazards increase from 0 on."""
    if not isinstance(written, list) or not written:
        raise NotAModel("its baseline is no list of times")
    found = []
    for each in written:
        if not isinstance(each, dict) or not all(
            is_number(each.get(key)) for key in ("time", "cumulative_hazard")
        ):
            raise NotAModel("its baseline has no times and cumulative hazards")
        found.append((float(each["time"]), float(each["cumulative_hazard"])))
    if found[0][1] < 0 or any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(found)):
        raise NotAModel("its baseline does not increase")
    return tuple(found)
