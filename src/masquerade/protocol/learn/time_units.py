"""Durations in whole units of time, rounded up; and the unit that sites agree on where none is set.

That is 1 for whole durations, or the decimal fraction of which all sites' durations are multiples: then nothing is
rounded. Where the last death would be more than `MOST_TIMES` such units away, it is the smallest multiple that counts
fewer. All sites learn the unit, and nothing else of the durations (two numbers in a circuit, `extremes.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.errors import ParameterError
from masquerade.net.script import Script
from masquerade.protocol.collaborate.shared_bits import SharedBits
from masquerade.protocol.learn.aggregate import Numbers
from masquerade.protocol.learn.extremes import largest
from masquerade.protocol.learn.risk_sets import Steps

MOST_TIMES = 1 << 14
_MOST_DECIMALS = 9
ROUNDING = 1e-9  # of a unit


def in_steps(durations: Numbers, unit: float) -> Steps:
    """Return durations in whole units of time, rounded up."""
    if not unit > 0:
        raise ParameterError(f"a unit of time must be positive. Got {unit} instead.")
    if durations.size and not (np.isfinite(durations).all() and durations.min() >= 0):
        raise ParameterError("durations must be numbers of at least 0")
    steps = durations / unit
    near = np.rint(steps)
    exact = np.abs(steps - near) <= ROUNDING * np.maximum(1.0, near)
    return np.where(exact, near, np.ceil(steps)).astype(np.int64)


def agreed_unit(shared: SharedBits, durations: Numbers, died: NDArray[np.bool_]) -> Script[float]:
    """Return the unit of all sites' durations."""
    decimals = yield from largest(shared, np.array([decimals_of(durations)], np.float64))
    fine = int(decimals[0])
    multiple = yield from largest(shared, np.array([_multiple(durations[died], fine)], np.float64))
    return _unit(int(multiple[0]), fine)


def own_unit(durations: Numbers, died: NDArray[np.bool_]) -> float:
    """Return the unit of one table's durations."""
    fine = decimals_of(durations)
    return _unit(_multiple(durations[died], fine), fine)


def decimals_of(durations: Numbers) -> int:
    """Return how many decimals durations have, at most 9."""
    for decimals in range(_MOST_DECIMALS):
        scaled = durations * 10.0**decimals
        if (np.abs(scaled - np.rint(scaled)) <= ROUNDING * np.maximum(1.0, scaled)).all():
            return decimals
    return _MOST_DECIMALS


def _multiple(deaths: Numbers, decimals: int) -> int:
    last = deaths.max(initial=0.0) * 10.0**decimals
    return max(1, int(np.ceil(last / (MOST_TIMES - 1) - ROUNDING)))


def _unit(multiple: int, decimals: int) -> float:
    return float(multiple / 10**decimals)
