"""Cox regression of records that n sites have: that of the pooled records, with no sum over a risk set ever opened.

Sums over those at risk at successive deaths differ by the few patients who left in between, so that whoever saw them
saw patients. Here each site's own sums are its shares of those of all sites. In every step

    1. a circuit on shares finds the reciprocal of each death's sum of weights (`crypto/reciprocal.py`);
    2. products on shares give what the gradient and the Hessian of Efron's partial likelihood add up over all deaths;
    3. these totals are rounded in a circuit and opened, and nothing else of the step is.

Who learns what: all sites the number of records, each attribute's mean, the products of each two, **how many died at
each step of time over all sites** (the deaths of a life table; with two sites, each learns the other's), the gradient
and the Hessian at the coefficients of every step and at the final ones, and the cumulative baseline hazard whenever
somebody dies, in so few digits that survival is told as well as agreed (`_Fit.baseline`). A coarser unit
of time makes the table of deaths coarser, and ties more. Against any n − 1 curious sites that follow the protocol. A
site that lies about its records, or in the protocol, makes the model wrong, and learns no more than the totals tell.

The gradient is exact to about 2^-17 of its terms, so the coefficients are lifelines' to about 1e-5 of a deviation. The
Hessian is rougher on the way, to about 2^-10, which costs no accuracy: Newton's method needs it for its way, not for
its aim. That of the end, which standard errors come from, is as exact as the gradient.

Cost of a step with E deaths, p attributes and q = p·(p + 1)/2: about 2,700·E ANDs on a path of 160; for each ordered
pair of sites 128·E transfers as long as p and p + q numbers, and for each pair 64·p·E as long as p. The end costs about
200·(n − 1)·p·E ANDs more, and 800·(n − 1) for each time of the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, e, floor, log2

import numpy as np
from numpy.typing import NDArray

from masquerade.crypto.bits import digits
from masquerade.crypto.reciprocal import MANTISSA, reciprocal_circuit
from masquerade.crypto.rings import Elements
from masquerade.engine.numbering import distinct_values
from masquerade.errors import AnswerIsNo, ParameterError, Problem
from masquerade.net.script import Script
from masquerade.protocol.learn.aggregate import Aggregation, Numbers
from masquerade.protocol.learn.arithmetic import combined
from masquerade.protocol.learn.extremes import largest
from masquerade.protocol.learn.identified import Columns, Determined, Moments, determined, refuse_one_sided
from masquerade.protocol.learn.linear_models import agreed, moments, standard_errors
from masquerade.protocol.learn.models.survival import Between
from masquerade.protocol.learn.risk_sets import Deaths, Steps, Survival
from masquerade.protocol.learn.shared_numbers import RING, SharedNumbers
from masquerade.protocol.learn.time_units import MOST_TIMES, ROUNDING

MOST_STEPS = 30
_SETTLED = 2e-5  # the last step, in deviations
LONGEST = 2.0  # a step may be, in deviations
LARGE = 25.0  # a coefficient of a standardised attribute beyond this only grows

_DROPPED = 4  # of a reciprocal's first digits: weights are 1 on average, so their sum is far below its bound
_ROUGH_SUMS, _ROUGH_RECIPROCALS = 14, 8  # least digits of what the Hessian is made of, relative to the bound
_OPENED = 20  # digits after the point of what is opened
_LARGE_HAZARD = 4.0  # takes no more digits than all are first opened in; survival is 2 % there
_ROOM = 11  # digits for how much larger than 1 squares of standardised attributes are on average
NOBODY = "nobody dies: there is nothing to learn from"
FIRST = "they tell who dies first perfectly, or have extreme values"


@dataclass(frozen=True)
class Curve:
    """How the baseline is told: at every time at which somebody dies, or at multiples of `step`.

    `error` is how far the survival of any record may be from the pooled model's at these times.
    """

    error: float = 0.005
    step: float | None = None

    @property
    def between(self) -> Between:
        """What the cumulative hazard is between two times."""
        return "constant" if self.step is None else "linear"

    def times(self, deaths: Steps, unit: float) -> tuple[NDArray[np.intp], Numbers]:
        """Return the times to tell, each by the last time of death until it (−1: none), and in the durations' unit."""
        if self.step is None:
            return np.arange(deaths.size), np.asarray(deaths * unit, np.float64)
        number = ceil(deaths[-1] * unit / self.step - ROUNDING)
        if number > MOST_TIMES:
            text = f"makes {number:,} times until the last death; at most {MOST_TIMES:,}: set a larger one"
            raise ParameterError(Problem(text, key=("algorithm", "baseline_step")))
        grid = self.step * np.arange(1, number + 1, dtype=np.float64)
        return np.searchsorted(deaths * unit, grid * (1 + ROUNDING), "right") - 1, grid

    def told(self, times: Numbers, hazards: Numbers) -> tuple[tuple[float, float], ...]:
        """Return times with hazards, without those at which a hazard that is constant between them stays the same."""
        rises = np.diff(hazards, prepend=0.0) > 0 if self.step is None else np.ones(times.size, bool)
        return tuple(zip(times[rises].tolist(), hazards[rises].tolist(), strict=True))


@dataclass(frozen=True)
class CoxModel:
    """Coefficients in the attributes' own units; `baseline` is the cumulative hazard at the attributes' means.

    Of categories that no record has, coefficients and errors are NaN.
    """

    coefficients: tuple[float, ...]
    center: float  # the weighted sum of the means
    errors: tuple[float, ...]
    baseline: tuple[tuple[float, float], ...]
    unit: float  # of time, in which durations were counted
    steps: int
    n_records: int
    n_deaths: int
    determined: Determined = field(compare=False, repr=False)


def cox_model(
    sums: Aggregation,
    shared: SharedNumbers,
    records: Survival,
    unit: float = 1.0,
    curve: Curve | None = None,
    ridge: float = 0.0,
    columns: Columns | None = None,
) -> Script[CoxModel]:
    """Fit the model of all sites' records; `columns` say what those of x stand for."""
    every, curve = (yield from moments(sums, records.x)), curve or Curve()
    known = determined(columns or Columns.unnamed(records.x.shape[1]), every, penalised=ridge > 0)
    deaths = yield from _deaths(sums, shared, records)
    until, times = curve.times(deaths.times, unit)
    standard = records.standardised(known, every)
    fit = _Fit(shared, sums, standard, deaths, _Places.of(every.n, deaths.total), known, every, ridge)
    at, steps = yield from fit.run()
    hessian, hazards = yield from fit.final(at)
    found = yield from fit.baseline(hazards, until, curve.error)
    return fitted_model(known, every, at, hessian, curve.told(times, found), unit, steps, deaths.total)


def fitted_model(
    known: Determined,
    every: Moments,
    at: Numbers,
    hessian: Numbers,
    baseline: tuple[tuple[float, float], ...],
    unit: float,
    steps: int,
    n_deaths: int,
) -> CoxModel:
    """Return the model in the attributes' own units, from coefficients and Hessian of standardised ones."""
    deviation = every.deviation[known.kept]
    coefficients = at / deviation
    return CoxModel(
        tuple(known.spread(coefficients).tolist()),
        float(coefficients @ every.mean[known.kept]),
        tuple(known.spread(standard_errors(hessian, deviation)).tolist()),
        baseline,
        unit,
        steps,
        every.n,
        n_deaths,
        known,
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
    deaths: int  # digits of their number

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
        return cls(bound, sums, reciprocals, rough_sums, death_digits)

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
    determined: Determined
    moments: Moments
    ridge: float

    def run(self) -> Script[tuple[Numbers, int]]:
        """Return the coefficients, and the number of steps."""
        p = self.records.x.shape[1]
        dead = yield from self.sums.total(self.records.x[self.records.died].sum(axis=0))
        if not self.ridge:
            refuse_one_sided(self.determined, self.moments, dead, self.deaths.total, events=True)
        at, before, best = np.zeros(p), np.zeros(p), np.inf
        for step in range(1, MOST_STEPS + 1):
            expected, hessian = yield from self._totals(at)
            gradient = dead - expected - self.ridge * at
            direction = np.linalg.lstsq(hessian + self.ridge * np.eye(p), gradient, rcond=None)[0]
            decrement = float(gradient @ direction)
            if decrement > best and decrement > 1e-6 * self.deaths.total:  # it went too far
                direction = (before - at) / 2
            else:
                best, before = decrement, at
            direction *= min(1.0, LONGEST / max(np.abs(direction).max(initial=0.0), 1e-300))
            at = yield from agreed(self.shared.me, self.shared.parties, at + direction)
            if np.abs(direction).max(initial=0.0) <= _SETTLED:
                return at, step
            if not np.abs(at).max() <= LARGE:
                break
        raise self.determined.grows(at, FIRST)

    def final(self, at: Numbers) -> Script[tuple[Numbers, Elements]]:
        """Return the Hessian at the coefficients, as exact as the gradient, and shares of each time's hazard."""
        places, p = self.places, len(at)
        weights, with_one, with_two = self.records.sums(self._weights(at), self.deaths)
        bits = yield from self._reciprocals(weights)
        exact = combined(bits, [1 << place for place in range(len(bits))], RING)
        hazards = RING.multiply(exact[self.deaths.firsts], self.deaths.counts.astype(np.uint64))

        # Squares of means over all deaths fit the ring if means have half of the digits that it has to spare.
        spare = 63 - places.deaths - _ROOM
        rows = np.column_stack([_fixed(with_one, places.sums), _fixed(with_two, spare - places.reciprocals)])
        products = yield from self.shared.products(exact, rows)
        means = yield from self.shared.truncated(
            products[:, :p], places.sums + places.reciprocals - spare // 2
        )
        upper = np.triu_indices(p)
        squares = (yield from self.shared.gram(means))[upper]
        if spare % 2:
            squares = RING.add(squares, squares)
        covariance = RING.subtract(RING.total(products[:, p:]), squares)
        spread = yield from self.shared.opened(covariance, max(0, spare - _OPENED))
        hessian = np.zeros((p, p))
        hessian[upper] = hessian.T[upper] = spread / 2.0 ** min(spare, _OPENED)
        return hessian + self.ridge * np.eye(p), hazards

    def baseline(self, hazards: Elements, until: NDArray[np.intp], error: float) -> Script[Numbers]:
        """Return the cumulative hazard until some times of death, as Breslow estimates it (−1: before the first).

        Of a hazard h that is off by d, a survival exp(−θ·h) is off by at most d / (e·h), whatever θ. So each is opened
        in as many digits as its own size takes, which a few digits of it tell.
        """
        until, back = distinct_values(until)
        shares = np.cumsum(hazards, dtype=np.uint64)[np.maximum(until, 0)]
        most, spare = min(_OPENED, self.places.reciprocals), 57 - self.places.reciprocals
        first = max(1, floor(-log2(e * error * _LARGE_HAZARD)))
        found, places = np.zeros(len(until)), np.full(len(until), first)
        lacks = until >= 0
        while lacks.any():
            fewest = int(places[lacks].min())
            places = np.minimum(places, min(fewest + spare, most))
            # The last digits to drop are as many of all numbers, once they are shifted.
            shifted = RING.multiply(shares[lacks], np.uint64(1) << (places[lacks] - fewest).astype(np.uint64))
            told = yield from self.shared.opened(shifted, self.places.reciprocals - fewest)
            found[lacks] = told / 2.0 ** places[lacks]
            lacks &= (0.5 ** (places + 1) > e * error * found) & (places < most)
            enough = np.ceil(-np.log2(e * error * np.maximum(found, 1e-300))) - 1
            places = np.where(lacks, np.where(found > 0, enough, places + first), places).astype(int)
        # What was rounded down is in the middle of where it may be.
        middle = np.where(until >= 0, found + 0.5 ** (places + 1.0), 0.0)
        return np.asarray(np.maximum.accumulate(middle)[back])

    def _weights(self, at: Numbers) -> Numbers:
        with np.errstate(over="ignore"):
            weights: Numbers = np.exp(self.records.x @ at)
        most = 2.0**self.places.bound / len(self.shared.parties)
        dying = weights[self.records.died].min(initial=1.0) / self.deaths.counts.max()
        if not weights.sum() < most or dying < 2.0**-10:
            raise self.determined.grows(at, FIRST)
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
