"""Ratios as counts: how many groups or pairs a ratio asks for, exactly, as its decimals are written."""

from __future__ import annotations

import math
from fractions import Fraction

from masquerade.risk.separation import Extent, Measure


def at_least(ratio: float, whole: Extent, measure: Measure) -> int:
    """The smallest count whose share is at least the ratio."""
    return math.ceil(Fraction(str(ratio)) * whole.of(measure))


def at_most(ratio: float, whole: Extent, measure: Measure) -> int:
    """The largest count whose share is at most the ratio; below 0 for none: one row alone is told apart by anything."""
    if not whole.of(measure):
        return 0 if ratio >= 1 else -1
    return math.floor(Fraction(str(ratio)) * whole.of(measure))
