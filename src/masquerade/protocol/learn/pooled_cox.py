"""Cox regression of one table, in the clear: the steps of `cox.py` without shares."""

from __future__ import annotations

import numpy as np

from masquerade.engine.numbering import distinct_rows
from masquerade.errors import AnswerIsNo
from masquerade.protocol.learn.aggregate import Numbers, alone
from masquerade.protocol.learn.cox import (
    FIRST,
    LARGE,
    LONGEST,
    MOST_STEPS,
    NOBODY,
    CoxModel,
    Curve,
    fitted_model,
)
from masquerade.protocol.learn.frame import result_of
from masquerade.protocol.learn.identified import Columns, Determined, determined, refuse_one_sided
from masquerade.protocol.learn.linear_models import moments
from masquerade.protocol.learn.risk_sets import Deaths, Survival

_SETTLED = 1e-9


def pooled_cox(
    records: Survival,
    unit: float = 1.0,
    curve: Curve | None = None,
    ridge: float = 0.0,
    columns: Columns | None = None,
) -> CoxModel:
    """Fit the model of these records; its baseline has every time at which somebody dies, unless `curve` has a step."""
    every, curve = result_of(moments(alone(), records.x)), curve or Curve()
    known = determined(columns or Columns.unnamed(records.x.shape[1]), every, penalised=ridge > 0)
    standard = records.standardised(known, every)
    found, counts = distinct_rows(records.steps[records.died][:, None])
    deaths = Deaths(found[:, 0], counts)
    if not deaths.total:
        raise AnswerIsNo(NOBODY)
    until, times = curve.times(deaths.times, unit)
    dead = standard.x[records.died].sum(axis=0)
    if not ridge:
        refuse_one_sided(known, every, dead, deaths.total, events=True)
    p = dead.size
    at, before, best = np.zeros(p), np.zeros(p), np.inf
    for step in range(1, MOST_STEPS + 1):
        expected, information, hazards = _totals(standard, deaths, at, known)
        gradient, hessian = dead - expected - ridge * at, information + ridge * np.eye(p)
        direction = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        decrement = float(gradient @ direction)
        if decrement > best and decrement > 1e-6 * deaths.total:  # it went too far
            direction = (before - at) / 2
        else:
            best, before = decrement, at
        direction *= min(1.0, LONGEST / max(np.abs(direction).max(initial=0.0), 1e-300))
        at = at + direction
        if np.abs(direction).max(initial=0.0) <= _SETTLED:
            cumulative = np.append(np.cumsum(hazards), 0.0)[until]
            told = curve.told(times, cumulative)
            return fitted_model(known, every, at, hessian, told, unit, step, deaths.total)
        if not np.abs(at).max() <= LARGE:
            break
    raise known.grows(at, FIRST)


def _totals(
    records: Survival, deaths: Deaths, at: Numbers, known: Determined
) -> tuple[Numbers, Numbers, Numbers]:
    """Return the attributes expected over all deaths, their covariance, and the baseline hazard at each time."""
    with np.errstate(over="ignore"):
        weights = np.exp(records.x @ at)
    if not np.isfinite(weights).all():
        raise known.grows(at, FIRST)
    zeroth, first, second = records.sums(weights, deaths)
    means = first / zeroth[:, None]
    covariance = np.zeros((at.size, at.size))
    upper = np.triu_indices(at.size)
    covariance[upper] = covariance.T[upper] = (second / zeroth[:, None]).sum(axis=0)
    covariance -= means.T @ means
    return means.sum(axis=0), covariance, deaths.counts / zeroth[deaths.firsts]
