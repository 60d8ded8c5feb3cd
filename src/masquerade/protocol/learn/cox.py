"""Cox regression of records that n sites have: that of the pooled records, with no sum over a risk set ever opened.

Sums over those at risk at successive deaths differ by the few patients who left in between, so that whoever saw them
saw patients. Here each site's own sums are its shares of those of all sites. In every step

    1. a circuit on shares finds the reciprocal of each death's sum of weights (`crypto/reciprocal.py`);
    2. products on shares give what the gradient and the Hessian of Efron's partial likelihood add up over all deaths;
    3. these totals are rounded in a circuit and opened, and nothing else of the step is.

Who learns what: all sites the number of records, each attribute's mean and deviation, **how many died at each step of
time over all sites** (the deaths of a life table; with two sites, each learns the other's), the gradient and the
Hessian at the coefficients of every step, and the cumulative baseline hazard at a few agreed times. A coarser unit of
time makes the table of deaths coarser, and ties more. Against any n − 1 curious sites that follow the protocol. A site
that lies about its records, or in the protocol, makes the model wrong, and learns no more than the totals tell.

The gradient is exact to about 2^-17 of its terms, so the coefficients are lifelines' to about 1e-5 of a deviation. The
Hessian is rougher, to about 2^-10, which costs no accuracy: Newton's method needs it for its way, not for its aim.

Cost of a step with E deaths, p attributes and q = p·(p + 1)/2: about 2,700·E ANDs on a path of 160; for each ordered
pair of sites 128·E transfers as long as p and p + q numbers, and for each pair 64·p·E as long as p.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from masquerade.crypto.bits import digits
from masquerade.crypto.reciprocal import MANTISSA, reciprocal_circuit
from masquerade.crypto.rings import Elements
from masquerade.errors import AnswerIsNo
from masquerade.net.script import Script
from masquerade.protocol.learn.aggregate import Aggregation, Numbers
from masquerade.protocol.learn.arithmetic import combined
from masquerade.protocol.learn.extremes import largest
from masquerade.protocol.learn.linear_models import agreed, moments
from masquerade.protocol.learn.risk_sets import Deaths, Survival
from masquerade.protocol.learn.shared_numbers import RING, SharedNumbers
from masquerade.protocol.learn.time_units import MOST_TIMES

MOST_STEPS = 30
_SETTLED = 2e-5  # the last step, in deviations
LONGEST = 2.0  # a step may be, in deviations
LARGE = 25.0  # a coefficient of a standardised attribute beyond this only grows

_DROPPED = 4  # of a reciprocal's first digits: weights are 1 on average, so their sum is far below its bound
_ROUGH_SUMS, _ROUGH_RECIPROCALS = 14, 8  # least digits of what the Hessian is made of, relative to the bound
_OPENED = 20  # digits after the point of what is opened
NOBODY = "nobody dies: there is nothing to learn from"
GROWS = (
    "the coefficients grow without end: some attribute tells who dies first perfectly, or has extreme values"
)


@dataclass(frozen=True)
class CoxModel:
    """Coefficients in the attributes' own units; `baseline` is the cumulative hazard at the attributes' means."""

    coefficients: tuple[float, ...]
    means: tuple[float, ...]
    errors: tuple[float, ...]
    baseline: tuple[tuple[float, float], ...]
    unit: float  # of time, in which durations were counted
    steps: int
    n_records: int
    n_deaths: int


def cox_model(
    sums: Aggregation, shared: SharedNumbers, records: Survival, unit: float = 1.0, n_baseline: int = 10
) -> Script[CoxModel]:
    """Fit the model of all sites' records; the baseline is given at `n_baseline` equally distant times."""
    n, mean, deviation = yield from moments(sums, records.x)
    deaths = yield from _deaths(sums, shared, records)
    standard = Survival((records.x - mean) / deviation, records.steps, records.died)
    fit = _Fit(shared, sums, standard, deaths, _Places.of(n, deaths.total))
    at, hessian, steps = yield from fit.run()
    baseline = yield from fit.baseline(at, n_baseline)
    errors = np.sqrt(np.diag(np.linalg.pinv(hessian))) / deviation
    return CoxModel(
        tuple((at / deviation).tolist()),
        tuple(mean.tolist()),
        tuple(errors.tolist()),
        tuple((time * unit, hazard) for time, hazard in baseline),
        unit,
        steps,
        n,
        deaths.total,
    )


def _deaths(sums: Aggregation, shared: SharedNumbers, records: Survival) -> Script[Deaths]:
    """Return how many died when, over all sites."""
    own = records.steps[records.died]
    last = int((yield from largest(shared.bits, np.array([float(own.max(initial=-1))])))[0])
    if last < 0:
        raise AnswerIsNo(NOBODY)
    if last >= MOST_TIMES:
        raise AnswerIsNo(
            f"the last death is at step {last:,} of time; at most {MOST_TIMES:,}: set a larger unit"
        )
    table = np.rint((yield from sums.total(records.death_counts(last)))).astype(np.int64)
    times = np.flatnonzero(table > 0)
    return Deaths(times, table[times])


@dataclass(frozen=True)
class _Places:
    """Digits: sums of weights are below 2^`bound` with `sums` after the point, reciprocals have `reciprocals`."""

    bound: int
    sums: int
    reciprocals: int
    rough_sums: int

    @classmethod
    def of(cls, n_records: int, n_deaths: int) -> _Places:
        bound = ceil(log2(n_records + 1)) + 4
        reciprocals = bound + MANTISSA - 2 - _DROPPED
        death_digits = ceil(log2(n_deaths + 1))
        sums = 60 - death_digits - reciprocals
        if sums < 8:
            raise AnswerIsNo(f"{n_deaths:,} deaths among {n_records:,} records are too many")
        # Squares of the means over all deaths must fit the ring: where deaths are few, there is room for more digits.
        rough_sums = _ROUGH_SUMS + max(0, (12 - death_digits) // 2)
        return cls(bound, sums, reciprocals, rough_sums)

    @property
    def width(self) -> int:
        return self.bound + self.sums

    @property
    def out(self) -> int:
        """Digits of a reciprocal: sums of weights are at least 2^-10."""
        return self.reciprocals + 10


@dataclass
class _Fit:
    shared: SharedNumbers
    sums: Aggregation
    records: Survival
    deaths: Deaths
    places: _Places

    def run(self) -> Script[tuple[Numbers, Numbers, int]]:
        """Return the coefficients, the Hessian there, and the number of steps."""
        p = self.records.x.shape[1]
        dead = yield from self.sums.total(self.records.x[self.records.died].sum(axis=0))
        at, before, best = np.zeros(p), np.zeros(p), np.inf
        for step in range(1, MOST_STEPS + 1):
            expected, hessian = yield from self._totals(at)
            gradient = dead - expected
            direction = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
            decrement = float(gradient @ direction)
            if decrement > best and decrement > 1e-6 * self.deaths.total:  # it went too far
                direction = (before - at) / 2
            else:
                best, before = decrement, at
            direction *= min(1.0, LONGEST / max(np.abs(direction).max(), 1e-300))
            at = yield from agreed(self.shared.me, self.shared.parties, at + direction)
            if np.abs(direction).max() <= _SETTLED:
                return at, hessian, step
            if not np.abs(at).max() <= LARGE:
                break
        raise AnswerIsNo(GROWS)

    def baseline(self, at: Numbers, n_times: int) -> Script[list[tuple[int, float]]]:
        """Return some times, and the cumulative hazard until each, as Breslow estimates it."""
        weights = yield from self._reciprocals(self.records.sums(self._weights(at), self.deaths)[0])
        shares = combined(weights, [1 << place for place in range(len(weights))], RING)
        hazards = RING.multiply(shares[self.deaths.firsts], self.deaths.counts.astype(np.uint64))
        last = int(self.deaths.times[-1])
        times = sorted({ceil(last * number / n_times) for number in range(1, n_times + 1)})
        until = [RING.total(hazards[self.deaths.times <= time]) for time in times]
        found = yield from self.shared.opened(
            np.array(until, np.uint64), max(0, self.places.reciprocals - _OPENED)
        )
        scale = 1 << min(self.places.reciprocals, _OPENED)
        return [(time, hazard / scale) for time, hazard in zip(times, found.tolist(), strict=True)]

    def _weights(self, at: Numbers) -> Numbers:
        with np.errstate(over="ignore"):
            weights: Numbers = np.exp(self.records.x @ at)
        most = 2.0**self.places.bound / len(self.shared.parties)
        dying = weights[self.records.died].min(initial=1.0) / self.deaths.counts.max()
        if not weights.sum() < most or dying < 2.0**-10:
            raise AnswerIsNo(GROWS)
        return weights

    def _reciprocals(self, sums: Numbers) -> Script[Elements]:
        """Return shares of the binary digits of each sum's reciprocal, [digits, deaths]."""
        places = self.places
        circuit = reciprocal_circuit(len(self.shared.parties), places.width, _DROPPED, places.out)
        own = digits((sums * 2.0**places.sums).astype(np.uint64), places.width)
        shared = self.shared.bits
        inputs = {f"provider {number}": shared.share(number, own) for number in range(len(shared.parties))}
        bits = yield from shared.evaluate_shares(circuit, inputs, "reciprocal")
        return (yield from self.shared.from_digits(bits))

    def _totals(self, at: Numbers) -> Script[tuple[Numbers, Numbers]]:
        """Return what the deaths' attributes are expected to add up to, and their covariance, over all deaths."""
        places, p = self.places, len(at)
        weights, with_one, with_two = self.records.sums(self._weights(at), self.deaths)
        bits = yield from self._reciprocals(weights)
        exact = combined(bits, [1 << place for place in range(len(bits))], RING)
        means = yield from self.shared.products(exact, _fixed(with_one, places.sums))
        expected = RING.total(means)

        below = places.reciprocals - places.bound - _ROUGH_RECIPROCALS
        rough = combined(bits[below:], [1 << place for place in range(len(bits) - below)], RING)
        rows = _fixed(np.column_stack([with_one, with_two]), places.rough_sums - places.bound)
        products = yield from self.shared.products(rough, rows)
        squares = yield from self.shared.gram(products[:, :p])
        upper = np.triu_indices(p)
        digits_of_products = places.rough_sums + _ROUGH_RECIPROCALS
        moments = RING.multiply(
            RING.total(products[:, p:]), np.full(upper[0].size, 1 << digits_of_products, np.uint64)
        )
        covariance = RING.subtract(moments, squares[upper])

        opened = yield from self.shared.opened(expected, places.sums + places.reciprocals - _OPENED)
        spread = yield from self.shared.opened(covariance, 2 * digits_of_products - _OPENED)
        hessian = np.zeros((p, p))
        hessian[upper] = hessian.T[upper] = spread / 2**_OPENED
        return opened / 2**_OPENED, hessian


def _fixed(numbers: Numbers, places: int) -> Elements:
    """Return numbers in fixed point, negative ones counted down from the modulus."""
    return np.asarray(np.rint(numbers * 2.0**places).astype(np.int64).view(np.uint64))
