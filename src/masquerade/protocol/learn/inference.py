"""What standard errors tell of coefficients: z, p and 95 % bounds, by attribute or as rows of a table.

They follow from coefficients and errors alone (Wald): a model's file has them for its readers, and they are not read
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import erfc, sqrt
from typing import Any

Coefficient = float | dict[str, float]  # of a number; of each category
_Z95 = 1.959963984540054  # the normal distribution's 97.5 % quantile
_BY_ATTRIBUTE = ("z", "p", "lower_95", "upper_95")


@dataclass(frozen=True)
class Inference:
    """A coefficient with its standard error."""

    coefficient: float
    standard_error: float

    @property
    def z(self) -> float | None:
        """The coefficient in standard errors; None of a reference, which has none."""
        return self.coefficient / self.standard_error if self.standard_error > 0 else None

    @property
    def p(self) -> float | None:
        """How likely a coefficient so far from 0 is where it is 0, both ways."""
        return None if self.z is None else erfc(abs(self.z) / sqrt(2))

    @property
    def lower_95(self) -> float:
        """The lower end of the 95 % interval."""
        return self.coefficient - _Z95 * self.standard_error

    @property
    def upper_95(self) -> float:
        """The upper end of the 95 % interval."""
        return self.coefficient + _Z95 * self.standard_error

    def as_json(self) -> dict[str, float | None]:
        """Return all figures."""
        return {**asdict(self), **{name: getattr(self, name) for name in _BY_ATTRIBUTE}}


@dataclass(frozen=True)
class InferenceRow:
    """One line of a table of coefficients; the value is that of a category, if it is one's, the intercept has none."""

    attribute: str | None
    value: str | None
    inference: Inference

    @property
    def label(self) -> str:
        """What the coefficient is of, as a person reads it."""
        if self.attribute is None:
            return "intercept"
        return self.attribute if self.value is None else f"{self.attribute} = {self.value}"

    @property
    def is_reference(self) -> bool:
        """Whether it is the category that the others differ from."""
        return self.value is not None and self.inference.z is None

    def as_json(self) -> dict[str, Any]:
        """Return the line's cells by name."""
        return {"attribute": self.attribute, "value": self.value, **self.inference.as_json()}


def inference_rows(
    coefficients: Mapping[str, Coefficient], errors: Mapping[str, Coefficient]
) -> Iterator[InferenceRow]:
    """Yield a row for each coefficient, categories one after the other, references among them."""
    for name, coefficient in coefficients.items():
        error = errors[name]
        if isinstance(coefficient, Mapping) and isinstance(error, Mapping):
            for value, each in coefficient.items():
                yield InferenceRow(name, value, Inference(each, error[value]))
        elif not isinstance(coefficient, Mapping) and not isinstance(error, Mapping):
            yield InferenceRow(name, None, Inference(coefficient, error))


def inference_by_attribute(rows: Iterable[InferenceRow]) -> dict[str, dict[str, Any]]:
    """Return z, p and bounds as a model's file has them, each by attribute."""
    written: dict[str, dict[str, Any]] = {name: {} for name in _BY_ATTRIBUTE}
    for row in rows:
        for figure, by_attribute in written.items():
            told = getattr(row.inference, figure)
            if row.value is None:
                by_attribute[str(row.attribute)] = told
            else:
                by_attribute.setdefault(str(row.attribute), {})[row.value] = told
    return written


def fits(coefficients: Mapping[str, Coefficient], errors: Mapping[str, Coefficient]) -> bool:
    """Return whether errors are of the same attributes and categories as coefficients, and none is negative."""
    if coefficients.keys() != errors.keys():
        return False
    for name, coefficient in coefficients.items():
        error = errors[name]
        if isinstance(coefficient, Mapping) != isinstance(error, Mapping):
            return False
        if isinstance(error, Mapping) and isinstance(coefficient, Mapping) and error.keys() != coefficient.keys():
            return False
        if any(each < 0 for each in (error.values() if isinstance(error, Mapping) else (error,))):
            return False
    return True
