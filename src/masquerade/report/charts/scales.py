"""Axis scales: the positions of numbers, and the choice of tick labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ScaleKind = Literal["linear", "log"]


@dataclass(frozen=True)
class Scale:
    """Maps values in `[low, high]` to positions from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float
    kind: ScaleKind = "linear"

    def __call__(self, value: float) -> float:
        """Return the position of a value, clamped to the ends of the axis."""
        low, high, value = (self._measure(each) for each in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + (self.stop - self.start) * min(1.0, max(0.0, share))

    def _measure(self, value: float) -> float:
        return math.log(value) if self.kind == "log" else value


def ticks(low: float, high: float, about: int = 5) -> tuple[float, ...]:
    """Return about `about` round numbers in `[low, high]`, 1, 2 or 5 times a power of ten apart."""
    if not high > low:
        return (low,)
    step = nice_step((high - low) / about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(float(f"{index * step:.12g}") for index in range(first, last + 1))


def nice_step(rough: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten that is at least `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def log_ticks(low: float, high: float, digits: Sequence[float] = (1, 2, 5)) -> tuple[float, ...]:
    """Return the given digits times powers of ten in `[low, high]`; `low` must be above 0."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = (float(f"{digit * 10.0**power:.12g}") for power in powers for digit in digits)
    return tuple(value for value in values if low <= value <= high)
