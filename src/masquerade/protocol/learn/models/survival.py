"""A Cox model: how much each attribute raises the hazard, and the hazard of an average record over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Self, cast

import numpy as np

from masquerade.engine.numbering import distinct_values
from masquerade.protocol.learn.models.inference import (
    Coefficient,
    InferenceRow,
    inference_by_attribute,
    inference_rows,
)
from masquerade.protocol.learn.models.linear import is_number, read_coefficients, read_errors, weighted_sum
from masquerade.protocol.learn.models.model import Cells, Model, NotAModel, Numbers

Between = Literal["constant", "linear"]  # what the cumulative hazard is between two times

_MOST_USUAL = 10  # times at which survival is told where none are asked for


@dataclass(frozen=True)
class CoxSurvival(Model):
    """Coefficients by attribute, in its own unit, with their standard errors, given the penalty of `conditional_on`.

    `baseline` has times, and the cumulative hazard until each of a record whose weighted sum is `center`, which is that
    of the attributes' means. Between two times it is that of the earlier one, or changes evenly; files of before that
    was said have few times, and are read as the latter.
    """

    coefficients: Mapping[str, Coefficient]
    errors: Mapping[str, Coefficient]
    center: float
    baseline: tuple[tuple[float, float], ...]
    unit: float = 1.0  # to whose multiples durations were rounded up
    between_times: Between = "linear"
    conditional_on: str = ""

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Read what `as_json` writes."""
        coefficients = read_coefficients(written.get("coefficients"))
        errors = read_errors(written, coefficients)
        if not is_number(written.get("center")):
            raise NotAModel("its center is no number")
        if not is_number(written.get("unit", 1.0)):
            raise NotAModel("its unit of time is no number")
        between = written.get("between_times", "linear")
        if between not in ("constant", "linear"):
            raise NotAModel("its baseline is neither constant nor linear between times")
        baseline, unit = read_baseline(written.get("baseline")), float(written.get("unit", 1.0))
        given = str(written.get("conditional_on", ""))
        return cls(
            coefficients, errors, float(written["center"]), baseline, unit, cast(Between, between), given
        )

    def as_json(self) -> dict[str, Any]:
        """Return coefficients and standard errors by attribute, and the baseline."""
        return {
            "coefficients": dict(self.coefficients),
            "standard_errors": dict(self.errors),
            "center": self.center,
            "baseline": written_baseline(self.baseline),
            "between_times": self.between_times,
            "unit": self.unit,
            **({"conditional_on": self.conditional_on} if self.conditional_on else {}),
        }

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes in order."""
        return tuple(self.coefficients)

    def derived(self) -> dict[str, Any]:
        """Return z, p and 95 % bounds by attribute."""
        return inference_by_attribute(self.inference)

    @property
    def inference(self) -> tuple[InferenceRow, ...]:
        """What is known of each coefficient."""
        return tuple(inference_rows(self.coefficients, self.errors))

    def risks(self, cells: Cells) -> Numbers:
        """Return the logarithm of each record's hazard, relative to that of an average one."""
        return weighted_sum(self.coefficients, cells) - self.center

    def survival(self, cells: Cells, times: Sequence[float]) -> Numbers:
        """Return each record's chance to live longer than each time, [records, times]."""
        return survival_curves(self.baseline, self.risks(cells), times, self.between_times)


def survival_curves(
    baseline: Sequence[tuple[float, float]],
    risks: Numbers,
    times: Sequence[float],
    between: Between = "constant",
) -> Numbers:
    """Return each record's chance to live longer than each time; the hazard stays as it is after the last one."""
    known, hazards = (np.array([0.0, *each]) for each in zip(*baseline, strict=True))
    asked = np.asarray(times, float)
    if between == "linear":
        until = np.interp(asked, known, hazards)
    else:
        until = hazards[np.searchsorted(known, asked, "right") - 1]
    return np.asarray(np.exp(-np.exp(risks)[:, None] * until[None, :]))


def usual_times(baseline: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Return the baseline's times, or of many about ten that are spread evenly from 0 to the last."""
    times = np.array([time for time, _ in baseline])
    if times.size > _MOST_USUAL:
        even = times[-1] * np.arange(1, _MOST_USUAL + 1) / _MOST_USUAL
        times = distinct_values(times[np.searchsorted(times, even)])[0]
    return tuple(times.tolist())


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
