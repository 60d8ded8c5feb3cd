"""Cox regression of records that n sites have: that of the pooled records, with no sum over a risk set ever opened.

Sums over those at risk at successive deaths differ by the few patients who left in between, so that whoever saw them
saw patients. Here each site's own sums are its shares of those of all sites. In every step

    1. a circuit on shares finds the reciprocal of each death's sum of weights (`crypto/circuits_library.py`);
    2. products on shares give what the gradient and the Hessian of Efron's partial likelihood add up over all deaths;
    3. these totals are rounded in a circuit and opened, and nothing else of the step is.

Who learns what: all sites the number of records, each attribute's mean, the products of each two, **how many died at
each step of time over all sites** (the deaths of a life table; with two sites, each learns the other's), the gradient
and the Hessian at the coefficients of every step and at the final ones, and the cumulative baseline hazard whenever
somebody dies, in so few digits that survival is told as well as agreed (`_Fit.baseline`). A coarser unit
of time makes the table of deaths coarser, and ties more. Against any n − 1 curious sites that follow the protocol. A
site that lies about its records, or in the protocol, makes the model wrong, and learns no more than the totals tell, at
coefficients that it may choose; so each site sees to it that they rest on many of its records (`step_checks.py`).

The gradient is exact to about 2^-17 of its terms, so the coefficients are lifelines' to about 1e-5 of a deviation. The
Hessian is rougher on the way, to about 2^-10, which costs no accuracy: Newton's method needs it for its way, not for
its aim. That of the end, which standard errors come from, is as exact as the gradient.

Cost of a step with E deaths, p attributes and q = p·(p + 1)/2: about 2,700·E ANDs on a path of 160; for each ordered
pair of sites 128·E transfers as long as p and p + q numbers, and for each pair 64·p·E as long as p. The end costs about
200·(n − 1)·p·E ANDs more, and 800·(n − 1) for each time of the baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, e, floor, log2
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from masquerade.arrangement import Arrangement
from masquerade.crypto import MANTISSA, Elements, digits, reciprocal_circuit
from masquerade.engine import distinct_rows, distinct_values, value_counts, weighted_counts
from masquerade.errors import AnswerIsNo, ParameterError, Problem
from masquerade.forms import number, optional, parameter
from masquerade.net import Script
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn import linear
from masquerade.protocol.learn.frame import as_counts, result_of
from masquerade.protocol.learn.identified import DesignColumns, Determined, Moments, determined, refuse_one_sided
from masquerade.protocol.learn.inference import Coefficient, InferenceRow, inference_by_attribute, inference_rows
from masquerade.protocol.learn.method import SURVIVAL, LearningMethod
from masquerade.protocol.learn.models import Cells, Model, NotAModel, concordant_pairs
from masquerade.protocol.learn.shared_numbers import RING, SharedNumbers, composed, prepare_shared_numbers
from masquerade.protocol.learn.site import Site, durations_of, events_of
from masquerade.protocol.learn.step_checks import RiskTotals, StepGuard
from masquerade.protocol.learn.sums import Aggregation, OneSite, Openings, largest, prepare_aggregation
from masquerade.protocol.providers.shared_counts import SharedBits

# --- survival -----------------------------------------------------------------------------------------------
# A Cox model: how much each attribute raises the hazard, and the hazard of an average record over time.

Between = Literal["constant", "linear"]  # what the cumulative hazard is between two times

_MOST_USUAL = 10  # times at which survival is told where none are asked for


@dataclass(frozen=True)
class CoxSurvival(Model):
    """Coefficients by attribute, in its own unit, with their standard errors, given the penalty of `conditional_on`.

    `baseline` has times, and the cumulative hazard until each of a record whose weighted sum is `center`, which is that
    of the attributes' means. Between two times it is that of the earlier one, or changes evenly; files of before that
    was said have few times, and are read as the latter.
    """

    coefficients: Mapping[str, Coefficient]
    errors: Mapping[str, Coefficient]
    center: float
    baseline: tuple[tuple[float, float], ...]
    unit: float = 1.0  # to whose multiples durations were rounded up
    between_times: Between = "linear"
    conditional_on: str = ""

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Read what `as_json` writes."""
        coefficients = linear.read_coefficients(written.get("coefficients"))
        errors = linear.read_errors(written, coefficients)
        if not linear.is_number(written.get("center")):
            raise NotAModel("its center is no number")
        if not linear.is_number(written.get("unit", 1.0)):
            raise NotAModel("its unit of time is no number")
        between = written.get("between_times", "linear")
        if between not in ("constant", "linear"):
            raise NotAModel("its baseline is neither constant nor linear between times")
        baseline, unit = read_baseline(written.get("baseline")), float(written.get("unit", 1.0))
        given = str(written.get("conditional_on", ""))
        return cls(coefficients, errors, float(written["center"]), baseline, unit, cast(Between, between), given)

    def as_json(self) -> dict[str, Any]:
        """Return coefficients and standard errors by attribute, and the baseline."""
        return {
            "coefficients": dict(self.coefficients),
            "standard_errors": dict(self.errors),
            "center": self.center,
            "baseline": written_baseline(self.baseline),
            "between_times": self.between_times,
            "unit": self.unit,
            **({"conditional_on": self.conditional_on} if self.conditional_on else {}),
        }

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes in order."""
        return tuple(self.coefficients)

    def derived(self) -> dict[str, Any]:
        """Return z, p and 95 % bounds by attribute."""
        return inference_by_attribute(self.inference)

    @property
    def inference(self) -> tuple[InferenceRow, ...]:
        """What is known of each coefficient."""
        return tuple(inference_rows(self.coefficients, self.errors))

    def risks(self, cells: Cells) -> Numbers:
        """Return the logarithm of each record's hazard, relative to that of an average one."""
        return linear.weighted_sum(self.coefficients, cells) - self.center

    def survival(self, cells: Cells, times: Sequence[float]) -> Numbers:
        """Return each record's chance to live longer than each time, [records, times]."""
        return survival_curves(self.baseline, self.risks(cells), times, self.between_times)


def survival_curves(
    baseline: Sequence[tuple[float, float]], risks: Numbers, times: Sequence[float], between: Between = "constant"
) -> Numbers:
    """Return each record's chance to live longer than each time; the hazard stays as it is after the last one."""
    known, hazards = (np.array([0.0, *each]) for each in zip(*baseline, strict=True))
    asked = np.asarray(times, float)
    if between == "linear":
        until = np.interp(asked, known, hazards)
    else:
        until = hazards[np.searchsorted(known, asked, "right") - 1]
    return np.asarray(np.exp(-np.exp(risks)[:, None] * until[None, :]))


def usual_times(baseline: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Return the baseline's times, or of many about ten that are spread evenly from 0 to the last."""
    times = np.array([time for time, _ in baseline])
    if times.size > _MOST_USUAL:
        even = times[-1] * np.arange(1, _MOST_USUAL + 1) / _MOST_USUAL
        times = distinct_values(times[np.searchsorted(times, even)])[0]
    return tuple(times.tolist())


def written_baseline(baseline: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
    """Return the baseline as it is written."""
    return [{"time": time, "cumulative_hazard": hazard} for time, hazard in baseline]


def read_baseline(written: Any) -> tuple[tuple[float, float], ...]:
    """Return the baseline; NotAModel unless times and hazards increase from 0 on."""
    if not isinstance(written, list) or not written:
        raise NotAModel("its baseline is no list of times")
    found = []
    for each in written:
        if not isinstance(each, dict) or not all(
            linear.is_number(each.get(key)) for key in ("time", "cumulative_hazard")
        ):
            raise NotAModel("its baseline has no times and cumulative hazards")
        found.append((float(each["time"]), float(each["cumulative_hazard"])))
    if found[0][1] < 0 or any(a[0] >= b[0] or a[1] > b[1] for a, b in pairwise(found)):
        raise NotAModel("its baseline does not increase")
    return tuple(found)


# --- risk sets ----------------------------------------------------------------------------------------------
# A site's own sums over those at risk, at each death of all sites, as Efron counts tied ones.
#
# At a time with d deaths, the i-th of them counts the dead as at risk by 1 − (i − 1)/d. Every death is a
# row here: the sums of weights, of weights times attributes, and of weights times products of two
# attributes.

Numbers = NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True)
class Deaths:
    """How many deaths all sites have at which time; `times` increase, and no count is 0."""

    times: Steps
    counts: Steps

    @property
    def total(self) -> int:
        """The number of all deaths."""
        return int(self.counts.sum())

    @property
    def at(self) -> NDArray[np.intp]:
        """The time of each death, as an index."""
        return np.repeat(np.arange(self.times.size), self.counts)

    @property
    def firsts(self) -> NDArray[np.intp]:
        """The first death of each time."""
        return np.cumsum(self.counts) - self.counts

    def until(self, steps: Steps) -> Steps:
        """How many deaths there are until each step."""
        return np.append(0, np.cumsum(self.counts))[np.searchsorted(self.times, steps, "right")]

    @property
    def less(self) -> Numbers:
        """By how much the dead count less at each death: (i − 1)/d."""
        order = np.arange(self.total) - self.firsts[self.at]
        return np.asarray(order / self.counts[self.at])


@dataclass(frozen=True)
class Survival:
    """Records that are followed up: attributes, the step of time at which each leaves, and whether by death."""

    x: Numbers
    steps: Steps
    died: NDArray[np.bool_]

    def standardised(self, known: Determined, every: Moments) -> Survival:
        """Return the same patients with the columns to fit, each of mean 0 and deviation 1 over all sites."""
        x = (self.x[:, known.kept] - every.mean[known.kept]) / every.deviation[known.kept]
        return Survival(x, self.steps, self.died)

    def sums(self, weights: Numbers, deaths: Deaths) -> tuple[Numbers, Numbers, Numbers]:
        """Return at each death of all sites the sums of weights, with attributes, and with products of two."""
        p = self.x.shape[1]
        first, second = np.triu_indices(p)
        terms = np.column_stack([np.ones(len(self.x)), self.x, self.x[:, first] * self.x[:, second]])
        terms *= weights[:, None]
        order = np.argsort(self.steps, kind="stable")
        left = np.concatenate([np.cumsum(terms[order][::-1], axis=0)[::-1], np.zeros((1, terms.shape[1]))])
        at_risk = left[np.searchsorted(self.steps[order], deaths.times)]
        place = np.searchsorted(deaths.times, self.steps[self.died])
        dead = np.column_stack([weighted_counts(place, term, deaths.times.size) for term in terms[self.died].T])
        rows = at_risk[deaths.at] - deaths.less[:, None] * dead[deaths.at]
        return np.maximum(rows[:, 0], 0.0), rows[:, 1 : p + 1], rows[:, p + 1 :]


# --- time units ---------------------------------------------------------------------------------------------
# Durations in whole units of time, rounded up; and the unit that sites agree on where none is set.
#
# That is 1 for whole durations, or the decimal fraction of which all sites' durations are multiples: then
# nothing is rounded. Where the last death would be more than `MOST_TIMES` such units away, it is the
# smallest multiple that counts fewer. All sites learn the unit, and nothing else of the durations (two
# numbers in a circuit, `sums.py`).

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
    return float(int(multiple[0]) / 10**fine)


def own_unit(durations: Numbers, died: NDArray[np.bool_]) -> float:
    """Return the unit of one table's durations."""
    fine = decimals_of(durations)
    return float(_multiple(durations[died], fine) / 10**fine)


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


# --- cox ----------------------------------------------------------------------------------------------------

_MOST_STEPS = 30
_SETTLED = 2e-5  # the last step, in deviations
_LONGEST = 2.0  # a step may be, in deviations
_LARGE = 25.0  # a coefficient of a standardised attribute beyond this only grows

_DROPPED = 4  # of a reciprocal's first digits: weights are 1 on average, so their sum is far below its bound
_ROUGH_SUMS, _ROUGH_RECIPROCALS = 14, 8  # least digits of what the Hessian is made of, relative to the bound
_OPENED = 20  # digits after the point of what is opened
_LARGE_HAZARD = 4.0  # takes no more digits than all are first opened in; survival is 2 % there
_ROOM = 11  # digits for how much larger than 1 squares of standardised attributes are on average
_NOBODY = "nobody dies: there is nothing to learn from"
_FIRST = "they tell who dies first perfectly, or have extreme values"


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
    columns: DesignColumns | None = None,
    guard: StepGuard | None = None,
) -> Script[CoxModel]:
    """Fit the model of all sites' records; `columns` say what those of x stand for.

    Without a `guard` all sites are believed, and few records added up, too.
    """
    curve, columns = curve or Curve(), columns or DesignColumns.unnamed(records.x.shape[1])
    every = yield from linear.moments(sums, records.x, columns, guard=guard)
    known = determined(columns, every, penalised=ridge > 0)
    deaths = yield from _deaths(sums, shared, records, every.n, guard)
    until, times = curve.times(deaths.times, unit)
    standard = records.standardised(known, every)
    fit = _Fit(shared, sums, standard, deaths, _Places.of(every.n, deaths.total), known, every, ridge, guard)
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
        tuple(known.spread(linear.standard_errors(hessian, deviation)).tolist()),
        baseline,
        unit,
        steps,
        every.n,
        n_deaths,
        known,
    )


def _deaths(
    sums: Aggregation, shared: SharedNumbers, records: Survival, n: int, guard: StepGuard | None
) -> Script[Deaths]:
    """Return how many of all sites' n records died when."""
    own = records.steps[records.died]
    last = float((yield from largest(shared.bits, np.array([float(own.max(initial=-1))])))[0])
    if last < 0:
        raise AnswerIsNo(_NOBODY)
    if not last < MOST_TIMES:
        raise AnswerIsNo(f"the last death is at step {last:,.0f} of time; at most {MOST_TIMES:,}: set a larger unit")
    here = value_counts(own, int(last) + 1)
    table = np.rint((yield from sums.total(here.astype(np.float64)))).astype(np.int64)
    if guard is not None:
        guard.check_deaths(table - here, n - len(records.x))
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


def _stepped(
    totals: Callable[[Numbers], Script[tuple[Numbers, Numbers]]],
    agree: Callable[[Numbers], Script[Numbers]],
    dead: Numbers,
    n_deaths: int,
    ridge: float,
    known: Determined,
    settled: float,
) -> Script[tuple[Numbers, int]]:
    """Take Newton's steps until one is short enough; return the coefficients, and the number of steps.

    `totals` gives what the attributes of the `dead` are expected to add up to, and their covariance.
    """
    at, before, best = np.zeros(dead.size), np.zeros(dead.size), np.inf
    for step in range(1, _MOST_STEPS + 1):
        expected, hessian = yield from totals(at)
        gradient = dead - expected - ridge * at
        direction = np.linalg.lstsq(hessian + ridge * np.eye(dead.size), gradient, rcond=None)[0]
        decrement = float(gradient @ direction)
        if decrement > best and decrement > 1e-6 * n_deaths:  # it went too far
            direction = (before - at) / 2
        else:
            best, before = decrement, at
        direction *= min(1.0, _LONGEST / max(np.abs(direction).max(initial=0.0), 1e-300))
        at = yield from agree(at + direction)
        if np.abs(direction).max(initial=0.0) <= settled:
            return at, step
        if not np.abs(at).max() <= _LARGE:
            break
    raise known.grows(at, _FIRST)


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
    guard: StepGuard | None

    def __post_init__(self) -> None:
        kept = self.determined.kept
        self.products = self.moments.n * self.moments.correlation[np.ix_(kept, kept)]
        self.bound = RiskTotals(self.guard, self.products, self.deaths.total) if self.guard is not None else None

    def run(self) -> Script[tuple[Numbers, int]]:
        """Return the coefficients, and the number of steps."""
        records = self.records
        if self.guard is not None and records.died.any():
            self.guard.insist_on_many([records.died.astype(np.float64)], np.zeros(0))
        own = records.x[records.died].sum(axis=0)
        dead = yield from self.sums.total(own)
        if self.guard is not None:
            n_dead = self.deaths.total - int(records.died.sum())
            self.guard.check_dead(dead - own, n_dead, self.moments.n, self.products - records.x.T @ records.x)
        if not self.ridge:
            refuse_one_sided(self.determined, self.moments, dead, self.deaths.total, events=True)

        def agree(at: Numbers) -> Script[Numbers]:
            return (yield from linear.agreed(self.shared.me, self.shared.parties, at))

        known, total = self.determined, self.deaths.total
        return (yield from _stepped(self._totals, agree, dead, total, self.ridge, known, _SETTLED))

    def final(self, at: Numbers) -> Script[tuple[Numbers, Elements]]:
        """Return the Hessian at the coefficients, as exact as the gradient, and shares of each time's hazard."""
        places, p = self.places, len(at)
        weights, with_one, with_two = self.records.sums(self._weights(at), self.deaths)
        bits = yield from self._reciprocals(weights)
        exact = composed(bits)
        hazards = RING.multiply(exact[self.deaths.firsts], self.deaths.counts.astype(np.uint64))

        # Squares of means over all deaths fit the ring if means have half of the digits that it has to spare.
        spare = 63 - places.deaths - _ROOM
        rows = np.column_stack([_fixed(with_one, places.sums), _fixed(with_two, spare - places.reciprocals)])
        products = yield from self.shared.products(exact, rows)
        means = yield from self.shared.truncated(products[:, :p], places.sums + places.reciprocals - spare // 2)
        upper = np.triu_indices(p)
        squares = (yield from self.shared.gram(means))[upper]
        if spare % 2:
            squares = RING.add(squares, squares)
        covariance = RING.subtract(RING.total(products[:, p:]), squares)
        spread = yield from self.shared.opened(covariance, max(0, spare - _OPENED))
        hessian = np.zeros((p, p))
        hessian[upper] = hessian.T[upper] = spread / 2.0 ** min(spare, _OPENED)
        if self.bound is not None:
            self.bound.check_spread(hessian)
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
            raise self.determined.grows(at, _FIRST)
        if self.guard is not None:
            self.guard.insist_on_many([weights * self.deaths.until(self.records.steps)], self.records.x @ at)
        return weights

    def _reciprocals(self, sums: Numbers) -> Script[Elements]:
        """Return shares of the binary digits of each sum's reciprocal, [digits, deaths]."""
        places = self.places
        out = places.reciprocals + 10  # digits: sums of weights are at least 2^-10
        circuit = reciprocal_circuit(len(self.shared.parties), places.width, _DROPPED, out)
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
        exact = composed(bits)
        means = yield from self.shared.products(exact, _fixed(with_one, places.sums))
        expected = RING.total(means)

        below = places.reciprocals - places.bound - _ROUGH_RECIPROCALS
        rough = composed(bits[below:])
        rows = _fixed(np.column_stack([with_one, with_two]), places.rough_sums - places.bound)
        products = yield from self.shared.products(rough, rows)
        squares = yield from self.shared.gram(products[:, :p])
        upper = np.triu_indices(p)
        digits_of_products = places.rough_sums + _ROUGH_RECIPROCALS
        moments = RING.multiply(RING.total(products[:, p:]), np.full(upper[0].size, 1 << digits_of_products, np.uint64))
        covariance = RING.subtract(moments, squares[upper])

        opened = yield from self.shared.opened(expected, places.sums + places.reciprocals - _OPENED)
        spread = yield from self.shared.opened(covariance, 2 * digits_of_products - _OPENED)
        hessian = np.zeros((p, p))
        hessian[upper] = hessian.T[upper] = spread / 2**_OPENED
        if self.bound is not None:
            self.bound.check(at, opened / 2**_OPENED, hessian)
        return opened / 2**_OPENED, hessian


def _fixed(numbers: Numbers, places: int) -> Elements:
    """Return numbers in fixed point, negative ones counted down from the modulus."""
    return np.asarray(np.rint(numbers * 2.0**places).astype(np.int64).view(np.uint64))


# --- pooled cox ---------------------------------------------------------------------------------------------
# Cox regression of one table, in the clear: the steps of `cox.py` without shares.

_POOLED_SETTLED = 1e-9


def pooled_cox(
    records: Survival,
    unit: float = 1.0,
    curve: Curve | None = None,
    ridge: float = 0.0,
    columns: DesignColumns | None = None,
) -> CoxModel:
    """Fit the model of these records; its baseline has every time at which somebody dies, unless `curve` has a step."""
    curve, columns = curve or Curve(), columns or DesignColumns.unnamed(records.x.shape[1])
    every = result_of(linear.moments(OneSite(), records.x, columns))
    known = determined(columns, every, penalised=ridge > 0)
    standard = records.standardised(known, every)
    found, counts = distinct_rows(records.steps[records.died][:, None])
    deaths = Deaths(found[:, 0], counts)
    if not deaths.total:
        raise AnswerIsNo(_NOBODY)
    until, times = curve.times(deaths.times, unit)
    dead = standard.x[records.died].sum(axis=0)
    if not ridge:
        refuse_one_sided(known, every, dead, deaths.total, events=True)
    information, hazards = np.zeros((0, 0)), np.zeros(0)

    def totals(at: Numbers) -> Script[tuple[Numbers, Numbers]]:
        nonlocal information, hazards
        yield from ()
        expected, information, hazards = _totals(standard, deaths, at, known)
        return expected, information

    def agree(at: Numbers) -> Script[Numbers]:
        yield from ()
        return at

    at, steps = result_of(_stepped(totals, agree, dead, deaths.total, ridge, known, _POOLED_SETTLED))
    told = curve.told(times, np.append(np.cumsum(hazards), 0.0)[until])
    hessian = information + ridge * np.eye(dead.size)
    return fitted_model(known, every, at, hessian, told, unit, steps, deaths.total)


def _totals(records: Survival, deaths: Deaths, at: Numbers, known: Determined) -> tuple[Numbers, Numbers, Numbers]:
    """Return the attributes expected over all deaths, their covariance, and the baseline hazard at each time."""
    with np.errstate(over="ignore"):
        weights = np.exp(records.x @ at)
    if not np.isfinite(weights).all():
        raise known.grows(at, _FIRST)
    zeroth, first, second = records.sums(weights, deaths)
    means = first / zeroth[:, None]
    covariance = np.zeros((at.size, at.size))
    upper = np.triu_indices(at.size)
    covariance[upper] = covariance.T[upper] = (second / zeroth[:, None]).sum(axis=0)
    covariance -= means.T @ means
    return means.sum(axis=0), covariance, deaths.counts / zeroth[deaths.firsts]


# --- the method ---------------------------------------------------------------------------------------------

_MOST_SHOWN = 200  # points of a curve that is drawn


@dataclass(frozen=True)
class CoxRegressionMethod(LearningMethod):
    """Cox regression of n sites with the same columns: that of the pooled records, ties as Efron counts them.

    Sums over those at risk stay shared among the sites, and so do the divisions by them; a step opens the gradient and
    the Hessian over all deaths. Coefficients are unpenalised and in the attributes' own units. How many die at
    which time, over all sites, is opened; times are counted in whole units, and durations rounded up to them.
    """

    name = "cox"
    summary = "fits Cox regression of survival; n sites learn the sums of each step, and when deaths occur, not whose"
    activity = "adding up over risk sets"
    arrangements: ClassVar[tuple[Arrangement, ...]] = ("horizontal",)
    roles = SURVIVAL
    takes = "numbers"
    learns = CoxSurvival
    drop_outs = ("stop", "start-over")
    must_stop = "each step needs everybody's shares, and the deaths of all sites are opened before the first"

    unit: float | None = parameter(
        optional(number(0, open_low=True)),
        None,
        help="durations are rounded up to multiples of this; a larger unit tells less of when somebody died. Unset: "
        "1, or as fine as the durations are, but so that the last death is fewer than 16,384 units away",
    )
    survival_error: float = parameter(
        number(0.0001, 0.1),
        0.005,
        help="how far the survival of any record may be from the pooled records' model; a smaller one shows sites and "
        "readers of the model more of who was still followed up. One table has no such error",
    )
    baseline_step: float | None = parameter(
        optional(number(0, open_low=True)),
        None,
        help="the baseline hazard is told at multiples of this, and is a straight line between them; a larger step "
        "shows readers of the model less of when somebody died. Unset: whenever somebody dies",
    )
    ridge: float = parameter(
        number(0), 0.0, help="the weight of the squared coefficients of standardised attributes; 0: unpenalised"
    )

    def learn(self, site: Site) -> Script[Model]:
        """Take Newton's steps on shares."""
        purpose = site.purpose("cox sums")
        sums = yield from prepare_aggregation(site.me, site.parties, purpose, site.openings)
        shared = yield from prepare_shared_numbers(site.me, site.parties, site.purpose("cox"))
        unit = self.unit
        if unit is None:
            openings = site.openings or Openings()
            openings.under_way = True
            unit = yield from agreed_unit(shared.bits, *survival_of(site))
            openings.rounds, openings.under_way = openings.rounds + 1, False
        records = survival_records(site, unit)
        guard = linear.guard_of(site, self.min_records)
        found = yield from cox_model(
            sums, shared, records, unit, self._curve, self.ridge, linear.columns_of(site), guard
        )
        return self._model(found)

    def alone(self, site: Site) -> Model:
        """Take the same steps on one table."""
        unit = self.unit or own_unit(*survival_of(site))
        records = survival_records(site, unit)
        return self._model(pooled_cox(records, unit, self._curve, self.ridge, linear.columns_of(site)))

    @property
    def _curve(self) -> Curve:
        return Curve(self.survival_error, self.baseline_step)

    def _model(self, found: CoxModel) -> CoxSurvival:
        return CoxSurvival(
            found.determined.by_attribute(found.coefficients),
            found.determined.by_attribute(found.errors),
            found.center,
            found.baseline,
            found.unit,
            self._curve.between,
            linear.given_ridge(self.ridge),
        )

    def counts(self, site: Site, model: Model) -> Script[Elements]:
        """Count the pairs of this site's records that are ranked rightly, and all pairs."""
        yield from ()
        assert isinstance(model, CoxSurvival)
        durations, died = survival_of(site)
        return as_counts(concordant_pairs(model.risks(site.cells()), durations, died))

    def metrics(self, model: Model, n_records: int, counts: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the concordance over pairs of records of the same site, and the survival of an average record."""
        assert isinstance(model, CoxSurvival)
        return concordance_metrics(counts, model.baseline)

    def tells(self, contract: Contract, party: str) -> Iterator[str]:
        """Yield the sums that are opened."""
        others = ", ".join(name for name in contract.parties if name != party)
        yield (
            f"{others}: over all parties: the number of records, each attribute's mean and the products of each two, "
            "how many die at each step of time, at every step of the fit gradient and Hessian, and whenever somebody "
            f"dies the survival curve, to {self.survival_error:g}"
        )
        often = "whenever somebody died" if self.baseline_step is None else f"every {self.baseline_step:g}"
        yield f"{others}, the coordinator and the recipients, in the model: that curve {often}"
        if len(contract.parties) == 2:
            yield f"{others}: as there are two parties, when {party}'s patients die, and its means and deviations"


def concordance_metrics(
    counts: Sequence[int], baseline: Sequence[tuple[float, float]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the concordance, and the curve of an average record's survival."""
    right, pairs = counts
    shown = distinct_values(np.linspace(0, len(baseline) - 1, _MOST_SHOWN).astype(int))[0].tolist()
    curve = {
        "times": [0.0, *(baseline[at][0] for at in shown)],
        "shares": [1.0, *(float(np.exp(-baseline[at][1])) for at in shown)],
    }
    figures = {"concordance": round(right / pairs, 6) if pairs else None, "pairs": "of records of the same site"}
    return figures, {"survival": {"an average record": curve}}


def survival_of(site: Site) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return this site's durations, and whose ended by the event."""
    named = {column.role: column.name for column in site.contract.columns}
    return durations_of(site.table, named["duration"]), events_of(site.table, named["event"])


def survival_records(site: Site, unit: float) -> Survival:
    """Return this site's records with durations in whole units of time."""
    durations, died = survival_of(site)
    return Survival(linear.design(site), in_steps(durations, unit), died)
