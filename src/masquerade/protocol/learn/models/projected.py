"""Models of mapped records (PP-SVM, PP-Cox): what the builder tells all, in the mapped space.

The matrix that maps records is not part of them. Only a site that has it can apply the model to new records: prediction
goes through the sites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from masquerade.errors import ParameterError
from masquerade.protocol.learn.models.linear import is_number
from masquerade.protocol.learn.models.model import Model, NotAModel, Numbers
from masquerade.protocol.learn.models.survival import read_baseline, survival_curves, written_baseline
from masquerade.protocol.learn.projection import Projection


@dataclass(frozen=True)
class MappedSpaceModel(Model):
    """Coefficients of the mapped dimensions; the kernel; each site's weight, in the contract's order."""

    coefficients: tuple[float, ...]
    kernel: str
    weights: tuple[float, ...]
    projection: Projection | None = field(
        default=None, compare=False, repr=False
    )  # a site's secret; never written

    def _written(self) -> dict[str, Any]:
        return {
            "coefficients": list(self.coefficients),
            "dimensions": len(self.coefficients),
            "kernel": self.kernel,
            "weights": list(self.weights),
        }

    def mapped_sum(self, x: Numbers) -> Numbers:
        """Return each record's weighted sum, at a site; x is record × column."""
        if self.projection is None:
            raise ParameterError(
                "prediction goes through the sites: only they have the matrix that maps records"
            )
        return np.asarray(self.projection(x) @ np.array(self.coefficients))


@dataclass(frozen=True)
class MappedSvm(MappedSpaceModel):
    """PP-SVM: the positive class is where the sum is above `threshold`."""

    threshold: float = 0.0
    classes: tuple[str, ...] = ()

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Read what `as_json` writes."""
        classes = written.get("classes")
        if (
            not isinstance(classes, list)
            or len(classes) != 2
            or not all(isinstance(each, str) for each in classes)
        ):
            raise NotAModel("its classes are not two texts")
        if not is_number(written.get("threshold")):
            raise NotAModel("its threshold is no number")
        return cls(*_common(written), threshold=float(written["threshold"]), classes=tuple(classes))

    def as_json(self) -> dict[str, Any]:
        """Return the coefficients in the mapped space, the threshold and both classes."""
        return {**self._written(), "threshold": self.threshold, "classes": list(self.classes)}

    def chances(self, x: Numbers) -> Numbers:
        """Return a number from 0 to 1 that grows with the sum, at a site; above ½ is the positive class."""
        return np.asarray(1 / (1 + np.exp(-np.clip(self.mapped_sum(x) - self.threshold, -700, 700))))


@dataclass(frozen=True)
class MappedCox(MappedSpaceModel):
    """PP-Cox: the baseline is of a record whose sum is `center`."""

    center: float = 0.0
    baseline: tuple[tuple[float, float], ...] = ()

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Read what `as_json` writes."""
        if not is_number(written.get("center")):
            raise NotAModel("its center is no number")
        baseline = read_baseline(written.get("baseline"))
        return cls(*_common(written), center=float(written["center"]), baseline=baseline)

    def as_json(self) -> dict[str, Any]:
        """Return the coefficients in the mapped space, and the baseline."""
        return {**self._written(), "center": self.center, "baseline": written_baseline(self.baseline)}

    def risks(self, x: Numbers) -> Numbers:
        """Return the logarithm of each record's hazard relative to an average one, at a site."""
        return self.mapped_sum(x) - self.center

    def survival(self, x: Numbers, times: Sequence[float]) -> Numbers:
        """Return each record's chance to live longer than each time, at a site, [records, times]."""
        return survival_curves(self.baseline, self.risks(x), times)


def _common(written: Mapping[str, Any]) -> tuple[tuple[float, ...], str, tuple[float, ...]]:
    coefficients, weights, kernel = (written.get(key) for key in ("coefficients", "weights", "kernel"))
    for each in (coefficients, weights):
        if not isinstance(each, list) or not all(map(is_number, each)):
            raise NotAModel("its coefficients and weights are no lists of numbers")
    if kernel not in ("linear", "gaussian"):
        raise NotAModel("its kernel is neither linear nor gaussian")
    return tuple(map(float, coefficients or ())), str(kernel), tuple(map(float, weights or ()))
