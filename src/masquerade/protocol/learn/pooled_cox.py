"""Cox regression of one table, in the clear: the steps of `cox.py` without shares."""

from __future__ import annotations

from math import ceil

import numpy as np

from masquerade.engine.numbering import distinct_rows
from masquerade.errors import AnswerIsNo
from masquerade.protocol.learn.aggregate import Numbers
from masquerade.protocol.learn.cox import GROWS, LARGE, LONGEST, MOST_STEPS, NOBODY, CoxModel
from masquerade.protocol.learn.linear_models import spread
from masquerade.protocol.learn.risk_sets import Deaths, Survival

_SETTLED = 1e-9


def pooled_cox(records: Survival, unit: float = 1.0, n_baseline: int = 10) -> CoxModel:
    """Fit the model of these records."""
    mean = records.x.mean(axis=0)
    deviation = spread(mean, records.x.std(axis=0))
    standard = Survival((records.x - mean) / deviation, records.steps, records.died)
    found, counts = distinct_rows(records.steps[records.died][:, None])
    deaths = Deaths(found[:, 0], counts)
    if not deaths.total:
        raise AnswerIsNo(NOBODY)
    dead = standard.x[records.died].sum(axis=0)
    at, before, best = np.zeros_like(mean), np.zeros_like(mean), np.inf
    for steps in range(1, MOST_STEPS + 1):
        expected, hessian, hazards = _totals(standard, deaths, at)
        direction = np.linalg.lstsq(hessian, dead - expected, rcond=None)[0]
        decrement = float((dead - expected) @ direction)
        if decrement > best and decrement > 1e-6 * deaths.total:  # it went too far
            direction = (before - at) / 2
        else:
            best, before = decrement, at
        direction *= min(1.0, LONGEST / max(np.abs(direction).max(), 1e-300))
        at = at + direction
        if np.abs(direction).max() <= _SETTLED:
            taken = steps
            break
        if not np.abs(at).max() <= LARGE:
            raise AnswerIsNo(GROWS)
    else:
        raise AnswerIsNo(GROWS)
    last = int(deaths.times[-1])
    times = sorted({ceil(last * number / n_baseline) for number in range(1, n_baseline + 1)})
    return CoxModel(
        tuple((at / deviation).tolist()),
        tuple(mean.tolist()),
        tuple((np.sqrt(np.diag(np.linalg.pinv(hessian))) / deviation).tolist()),
        tuple((time * unit, float(hazards[deaths.times <= time].sum())) for time in times),
        unit,
        taken,
        len(records.x),
        deaths.total,
    )


def _totals(records: Survival, deaths: Deaths, at: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the attributes expected over all deaths, their covariance, and the baseline hazard at each time."""
    with np.errstate(over="ignore"):
        weights = np.exp(records.x @ at)
    if not np.isfinite(weights).all():
        raise AnswerIsNo(GROWS)
    zeroth, first, second = records.sums(weights, deaths)
    means = first / zeroth[:, None]
    covariance = np.zeros((at.size, at.size))
    upper = np.triu_indices(at.size)
    covariance[upper] = covariance.T[upper] = (second / zeroth[:, None]).sum(axis=0)
    covariance -= means.T @ means
    return means.sum(axis=0), covariance, deaths.counts / zeroth[deaths.firsts]
