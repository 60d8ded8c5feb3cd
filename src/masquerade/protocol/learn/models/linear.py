"""A weighted sum of numbers that tells two classes apart: logistic regression, a linear support vector machine.

Coefficients are by attribute, in its own unit. Of an attribute with categories there is one for each: that of its first
is 0, the others are differences from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Self

import numpy as np

from masquerade.engine.numbering import distinct_values
from masquerade.errors import ParameterError
from masquerade.protocol.learn.models.inference import (
    Coefficient,
    Inference,
    InferenceRow,
    fits,
    inference_by_attribute,
    inference_rows,
)
from masquerade.protocol.learn.models.model import Cells, Classifier, NotAModel, Numbers, Texts


@dataclass(frozen=True)
class LinearClassifier(Classifier):
    """Coefficients, an intercept, and the classes that a negative and a positive sum stand for."""

    coefficients: Mapping[str, Coefficient]
    intercept: float
    negative: str
    positive: str

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Read `{"coefficients": …, "intercept": …, "classes": …}`."""
        coefficients, classes = read_coefficients(written.get("coefficients")), written.get("classes")
        if not is_number(written.get("intercept")):
            raise NotAModel("its intercept is no number")
        if (
            not isinstance(classes, list)
            or len(classes) != 2
            or not all(isinstance(each, str) for each in classes)
        ):
            raise NotAModel("its classes are not two texts")
        return cls(coefficients, float(written["intercept"]), *classes)

    def as_json(self) -> dict[str, Any]:
        """Return the coefficients by attribute, the intercept and both classes."""
        return {
            "coefficients": dict(self.coefficients),
            "intercept": self.intercept,
            "classes": [self.negative, self.positive],
        }

    @property
    def classes(self) -> tuple[str, ...]:
        """The class of negative sums, then that of positive ones."""
        return (self.negative, self.positive)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it has coefficients of."""
        return tuple(self.coefficients)

    def scores(self, cells: Cells) -> Numbers:
        """Return each record's sum; above 0 it is the positive class."""
        return weighted_sum(self.coefficients, cells) + self.intercept

    def predict(self, cells: Cells) -> Texts:
        """Return the class that each record's sum stands for."""
        said: Texts = np.array(self.classes, object)[(self.scores(cells) > 0).astype(int)]
        return said

    def chances(self, cells: Cells) -> Numbers:
        """Return a number from 0 to 1 that grows with the sum: of logistic regression the positive class's chance."""
        return 1 / (1 + np.exp(-np.clip(self.scores(cells), -700, 700)))


@dataclass(frozen=True)
class LogisticModel(LinearClassifier):
    """Logistic regression: the sum is the logarithm of the odds.

    Standard errors are by attribute as the coefficients are; None in a file of before they were told. `conditional_on`
    names the penalty that they are given, if there is one.
    """

    errors: Mapping[str, Coefficient] | None = None
    intercept_error: float | None = None
    conditional_on: str = ""

    @property
    def inference(self) -> tuple[InferenceRow, ...]:
        """What is known of the intercept and of each coefficient; nothing where errors are not."""
        if self.errors is None or self.intercept_error is None:
            return ()
        intercept = InferenceRow(None, None, Inference(self.intercept, self.intercept_error))
        return (intercept, *inference_rows(self.coefficients, self.errors))

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Read what `as_json` writes."""
        plain = super().read(written)
        if "standard_errors" not in written:
            return plain
        errors = read_errors(written, plain.coefficients)
        intercept = written.get("intercept_standard_error", -1.0)
        if not is_number(intercept) or intercept < 0:
            raise NotAModel("its intercept has no standard error")
        return replace(
            plain,
            errors=errors,
            intercept_error=float(intercept),
            conditional_on=str(written.get("conditional_on", "")),
        )

    def as_json(self) -> dict[str, Any]:
        """Return what every linear model has, and standard errors by attribute."""
        if self.errors is None or self.intercept_error is None:
            return super().as_json()
        return {
            **super().as_json(),
            "standard_errors": dict(self.errors),
            "intercept_standard_error": self.intercept_error,
            **({"conditional_on": self.conditional_on} if self.conditional_on else {}),
        }

    def derived(self) -> dict[str, Any]:
        """Return z, p and 95 % bounds by attribute, and all of the intercept."""
        if not self.inference:
            return {}
        intercept, *others = self.inference
        return {**inference_by_attribute(others), "intercept_statistics": intercept.inference.as_json()}


class SupportVectorModel(LinearClassifier):
    """A linear support vector machine: the sum is the distance from the margin's middle."""


def weighted_sum(coefficients: Mapping[str, Coefficient], cells: Cells) -> Numbers:
    """Return each record's sum of attributes times coefficients, or of its categories' coefficients."""
    total = np.zeros(len(next(iter(cells.values()))) if cells else 1)
    for name, coefficient in coefficients.items():
        if isinstance(coefficient, dict):
            total = total + _of_categories(name, coefficient, cells[name])
        else:
            total = total + coefficient * np.asarray(cells[name], np.float64)
    return total


def read_coefficients(written: Any) -> Mapping[str, Coefficient]:
    """Return coefficients by attribute; NotAModel if these are none."""
    if not isinstance(written, dict) or not all(map(_is_coefficient, written.values())):
        raise NotAModel("its coefficients are no numbers by attribute")
    return written


def read_errors(
    written: Mapping[str, Any], coefficients: Mapping[str, Coefficient]
) -> Mapping[str, Coefficient]:
    """Return standard errors by attribute; NotAModel unless they are of these coefficients."""
    errors = read_coefficients(written.get("standard_errors"))
    if not fits(coefficients, errors):
        raise NotAModel("its standard errors are not those of its coefficients")
    return errors


def is_number(value: Any) -> bool:
    """Return whether a value that was read is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _of_categories(name: str, coefficients: dict[str, float], column: Any) -> Numbers:
    values, places = distinct_values(np.asarray(column, object).astype(str))
    for value in values:
        if value not in coefficients:
            known = ", ".join(f'"{each}"' for each in list(coefficients)[:10])
            text = f'attribute {name}: "{value}" is none of the categories that the model knows'
            raise ParameterError(f"{text}: {known}")
    return np.array([coefficients[value] for value in values], np.float64)[places]


def _is_coefficient(value: Any) -> bool:
    return all(map(is_number, value.values())) if isinstance(value, dict) else is_number(value)
