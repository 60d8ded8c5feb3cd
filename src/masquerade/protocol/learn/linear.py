"""Linear models of records that n sites have, by Newton's method on sums: no projection, no record leaves a site.

Every step opens to all sites: the value, the gradient and the Hessian of the loss, summed over all their records, at
the coefficients of that step (`sums.py`). That is what the pooled model needs, so it is what the pooled model is,
but for rounding. Before the first step the number of records, each attribute's mean, and the products of each two are
opened: the coefficients are found for standardised attributes and given in the attributes' own units. Those that the
records do not determine are refused by name (`identified.py`). Standard errors are from the last Hessian that was
opened, which is that of the last step's start: the step after it is so short that they are the same to five digits.

All sites compute the same steps from the same sums. The first one tells its coefficients after each, so that rounding
cannot drive them apart; whose differ by more is named.

Each site checks its own part of a sum before it adds it, and the others' part once it is opened, as any of them may lie
(`step_checks.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import isfinite
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from masquerade.arrangement import Arrangement
from masquerade.crypto import Elements
from masquerade.engine import pair_counts
from masquerade.errors import AnswerIsNo, DataError, PeerBrokeProtocol
from masquerade.forms import number, parameter
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn.frame import as_counts, result_of
from masquerade.protocol.learn.identified import (
    DesignColumns,
    Determined,
    Moments,
    determined,
    refuse_one_sided,
    refuse_rare,
)
from masquerade.protocol.learn.inference import (
    Coefficient,
    Inference,
    InferenceRow,
    fits,
    inference_by_attribute,
    inference_rows,
)
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.models import Cells, Classifier, Model, NotAModel, Numbers, Texts, known_categories
from masquerade.protocol.learn.site import Site
from masquerade.protocol.learn.step_checks import ConvexTotals, Flags, StepGuard, kept_apart, rounding_of
from masquerade.protocol.learn.sums import AddsUp, OneSite, prepare_aggregation

# --- binary figures -----------------------------------------------------------------------------------------
# How good a classifier of two classes is: from counts of its scores in bins, which add up over sites.
#
# The scores of each class are counted in 100 bins of equal width; records in one bin count as equally
# likely. Then the area under the ROC curve is at most half the share of pairs that meet in a bin away from
# the exact one.

BINS = 100


def binned_counts(chances: Numbers, positive: NDArray[np.bool_]) -> Elements:
    """Return how many records of each class have a chance in each bin, then how many are classified rightly."""
    bins = np.minimum((chances * BINS).astype(np.int64), BINS - 1)
    table = pair_counts(positive.astype(np.int64), bins, 2, BINS)
    right = np.count_nonzero((chances > 0.5) == positive)
    return as_counts([*table.ravel(), right])


def binary_metrics(n_records: int, counts: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return accuracy and AUC, and the ROC curve."""
    negative, positive = np.array(counts[: 2 * BINS], np.float64).reshape(2, BINS)
    false = np.concatenate(([0.0], np.cumsum(negative[::-1]) / max(negative.sum(), 1)))
    true = np.concatenate(([0.0], np.cumsum(positive[::-1]) / max(positive.sum(), 1)))
    area = float(((true[1:] + true[:-1]) / 2) @ np.diff(false))
    moves = (np.diff(false) != 0) | (np.diff(true) != 0)
    bends = np.concatenate(([0], 1 + np.flatnonzero(moves)))
    curve = {"false_positive": false[bends].round(6).tolist(), "true_positive": true[bends].round(6).tolist()}
    return {"accuracy": counts[2 * BINS] / n_records, "auc": round(area, 6)}, {"roc": curve}


# --- linear models ------------------------------------------------------------------------------------------

_MOST_OPENED = 30  # sums of a fit; each tells something of the records
_TOLERANCE = 1e-10  # of the loss, for each record
_SHRINKS = 0.5  # a step that settles is shorter than this times the one before
_ROUNDING = 1e-6  # between two sites' coefficients
_DEPENDENT = 1e-13  # of the Hessian's largest eigenvalue: smaller ones are rounding, of dependent columns
_CONSTANT = 1e-14  # of the mean: a smaller deviation is rounding


class Coefficients(Message, tag="learn-coefficients", frozen=True):
    """The coefficients after a step, of standardised attributes; the intercept last."""

    values: tuple[float, ...]


class Loss(ABC):
    """What a model minimises: the sum over all records, and a penalty on the coefficients."""

    @abstractmethod
    def sums(self, x: Numbers, y: Numbers, at: Numbers, counted: Flags | None = None) -> tuple[float, Numbers, Numbers]:
        """Return value, gradient and Hessian over records x, outcomes y of −1 or 1; `counted` overrides `counts`."""

    def penalty(self, at: Numbers) -> tuple[float, Numbers, Numbers]:
        """Return value, gradient and Hessian of the penalty."""
        return 0.0, np.zeros_like(at), np.zeros((at.size, at.size))

    @abstractmethod
    def weights(self, x: Numbers, y: Numbers, at: Numbers, counted: Flags | None = None) -> Sequence[Numbers]:
        """Return how much each record weighs in Hessian and gradient."""

    def counts(self, x: Numbers, y: Numbers, at: Numbers) -> tuple[Flags, Numbers] | None:
        """Return which records the loss counts, and the cost of each that it does not or should not; None: all."""
        return None

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """How much a record's loss curves at most, by its square, and its value at coefficients 0; it is then so."""

    @property
    def penalised(self) -> bool:
        """Whether a penalty determines the coefficients where the records do not."""
        return True

    def has_no_minimum(self, value: float) -> bool:
        """Return whether a loss as small as this shows that it falls for ever, and the coefficients grow."""
        return False


@dataclass(frozen=True)
class Logistic(Loss):
    """Logistic regression; `ridge` is the weight of the squared coefficients, not of the intercept."""

    ridge: float = 0.0

    def sums(self, x: Numbers, y: Numbers, at: Numbers, counted: Flags | None = None) -> tuple[float, Numbers, Numbers]:
        """Return the log-likelihood's."""
        margin = y * (x @ at)
        wrong = np.exp(-np.logaddexp(0.0, margin))  # the probability of the other outcome
        weights = wrong * (1 - wrong)
        return float(np.logaddexp(0.0, -margin).sum()), -x.T @ (y * wrong), (x * weights[:, None]).T @ x

    def weights(self, x: Numbers, y: Numbers, at: Numbers, counted: Flags | None = None) -> Sequence[Numbers]:
        """Return the outcome's variance, and the probability of the other outcome."""
        wrong = np.exp(-np.logaddexp(0.0, y * (x @ at)))
        return wrong * (1 - wrong), wrong

    @property
    def bounds(self) -> tuple[float, float]:
        """A quarter, and ln 2."""
        return 0.25, float(np.log(2))

    def penalty(self, at: Numbers) -> tuple[float, Numbers, Numbers]:
        """Return the ridge's."""
        counted = np.append(np.ones(at.size - 1), 0.0) * self.ridge
        return float(counted @ at**2) / 2, counted * at, np.diag(counted)

    @property
    def penalised(self) -> bool:
        """Whether there is a ridge."""
        return self.ridge > 0

    def has_no_minimum(self, value: float) -> bool:
        """Return whether every record is on its side: one that is not adds ln 2 or more."""
        return self.ridge == 0 and value < np.log(2)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """Mangasarian and Musicant's support vector machine: ν/2 · Σ (1 − y·f)₊² and half of the squared coefficients."""

    nu: float = 1.0

    def sums(self, x: Numbers, y: Numbers, at: Numbers, counted: Flags | None = None) -> tuple[float, Numbers, Numbers]:
        """Return those of the records inside the margin."""
        short = 1 - y * (x @ at)
        inside = short > 0 if counted is None else counted
        some, by = x[inside], short[inside]
        gradient = -self.nu * some.T @ (y[inside] * by)
        return self.nu / 2 * float(by @ by), gradient, self.nu * some.T @ some

    def weights(self, x: Numbers, y: Numbers, at: Numbers, counted: Flags | None = None) -> Sequence[Numbers]:
        """Return which records are inside the margin, and how far."""
        short = 1 - y * (x @ at)
        inside = (short > 0 if counted is None else counted).astype(np.float64)
        return inside, np.abs(short) * inside

    def counts(self, x: Numbers, y: Numbers, at: Numbers) -> tuple[Flags, Numbers]:
        """Return those inside the margin; the cost is what the loss is wrong by."""
        short = 1 - y * (x @ at)
        return short > 0, short**2

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of ν/2 · (1 − f)²."""
        return self.nu, self.nu / 2

    def penalty(self, at: Numbers) -> tuple[float, Numbers, Numbers]:
        """Return that of all coefficients, the intercept's among them."""
        return float(at @ at) / 2, at, np.eye(at.size)


@dataclass(frozen=True)
class LinearModel:
    """Coefficients in the attributes' own units with their standard errors; NaN for categories that no record has.

    The errors are from the Hessian of loss and penalty, so those of logistic regression alone mean something.
    """

    coefficients: tuple[float, ...]
    intercept: float
    steps: int
    n_records: int
    errors: tuple[float, ...]
    intercept_error: float
    determined: Determined = field(compare=False, repr=False)


@dataclass
class FitProgress:
    """How far a fit has come: sums that were opened, and the coefficients at which they are to be opened next.

    A fit that is interrupted goes on from here, with other sites maybe. Nothing that was opened is opened again.
    """

    totals: Numbers | None = None
    totals_of: tuple[str, ...] = ()  # whose sums they are
    products: Numbers | None = None
    products_of: tuple[str, ...] = ()
    at: Numbers | None = None
    counted: list[Flags] = field(default_factory=list)  # which of this site's records each sum counted
    opened: int = 0  # how often value, gradient and Hessian were


def linear_model(
    me: int,
    parties: Sequence[str],
    sums: AddsUp,
    x: Numbers,
    y: Numbers,
    loss: Loss,
    progress: FitProgress | None = None,
    columns: DesignColumns | None = None,
    guard: StepGuard | None = None,
) -> Script[LinearModel]:
    """Fit a model of outcomes −1 and 1 by attributes x, record × attribute; return the one of all sites' records.

    `columns` say what those of x stand for; without a `guard` all sites are believed, and few records added up, too.
    AnswerIsNo where the records leave coefficients open.
    """
    progress, columns = progress or FitProgress(), columns or DesignColumns.unnamed(x.shape[1])
    all_of_it = yield from moments(sums, x, columns, progress, guard)
    support_vectors = isinstance(loss, SquaredHinge)
    known = determined(columns, all_of_it, penalised=loss.penalised, may_be_constant=support_vectors)
    mean, deviation = all_of_it.mean[known.kept], all_of_it.deviation[known.kept]
    standard = np.column_stack([(x[:, known.kept] - mean) / deviation, np.ones(len(x))])
    fit = _Fit(me, tuple(parties), sums, loss, standard, y, progress, known, all_of_it, guard)
    at, hessian, steps = yield from fit.run()
    coefficients = at[:-1] / deviation
    errors = standard_errors(hessian, deviation, mean)
    return LinearModel(
        tuple(known.spread(coefficients).tolist()),
        float(at[-1] - coefficients @ mean),
        steps,
        all_of_it.n,
        tuple(known.spread(errors[:-1]).tolist()),
        float(errors[-1]),
        known,
    )


def standard_errors(hessian: Numbers, deviation: Numbers, mean: Numbers | None = None) -> Numbers:
    """Return the standard errors of coefficients in the attributes' own units, by the Hessian of standardised ones.

    With `mean` the last row of the Hessian is the intercept's, and so is the last error.
    """
    to_own = np.diag(1 / deviation)
    if mean is not None:
        to_own = np.block([[to_own, np.zeros((mean.size, 1))], [-(mean / deviation)[None, :], np.ones((1, 1))]])
    spread_of = to_own @ np.linalg.pinv(hessian, rcond=_DEPENDENT, hermitian=True) @ to_own.T
    return np.asarray(np.sqrt(np.maximum(np.diag(spread_of), 0.0)))


def moments(
    sums: AddsUp,
    x: Numbers,
    columns: DesignColumns,
    progress: FitProgress | None = None,
    guard: StepGuard | None = None,
) -> Script[Moments]:
    """Return number, mean, deviation (`spread`) and correlation over all sites' records."""
    known = progress or FitProgress()
    if guard is not None:
        guard.insist_on_records(len(x))
    parties = guard.parties if guard is not None else ()
    if known.totals is None:
        known.totals, known.totals_of = (yield from sums.total(np.concatenate(([len(x)], x.sum(axis=0))))), parties
        if guard is not None:
            guard.check_number(known.totals[0] - len(x))
            refuse_rare(columns, round(known.totals[0]), known.totals[1:], guard.min_records)
    n, mean = round(known.totals[0]), known.totals[1:] / known.totals[0]
    centred, upper, opens = x - mean, np.triu_indices(mean.size), known.products is None
    if known.products is None:
        known.products, known.products_of = (yield from sums.total((centred.T @ centred)[upper])), parties
    products = np.zeros((mean.size, mean.size))
    products[upper] = products.T[upper] = known.products
    deviation = spread(mean, np.sqrt(np.maximum(np.diag(products), 0.0) / n))
    if guard is not None and opens and known.totals_of == parties:
        guard.check_products(n, mean, deviation, products, centred)
    return Moments(n, mean, deviation, products / n / np.outer(deviation, deviation))


def spread(mean: Numbers, deviation: Numbers) -> Numbers:
    """Return the deviations; infinity for attributes that vary by rounding alone, so that they count as 0."""
    return np.where(deviation > _CONSTANT * np.abs(mean), deviation, np.inf)


@dataclass
class _Fit:
    me: int
    parties: tuple[str, ...]
    sums: AddsUp
    loss: Loss
    x: Numbers
    y: Numbers
    progress: FitProgress
    determined: Determined
    moments: Moments
    guard: StepGuard | None

    def __post_init__(self) -> None:
        self.others = None if self.guard is None else self._bounds_of_others(self.guard)

    def run(self) -> Script[tuple[Numbers, Numbers, int]]:
        """Return the coefficients, the Hessian before the last step, and the number of steps."""
        if self.progress.at is None:
            self.progress.at = np.zeros(self.x.shape[1])
            at = self.progress.at
        else:
            at = yield from self._agreed(self.progress.at)
        value, gradient, hessian = yield from self._at(at)
        if not at.any() and not self.loss.penalised:
            of_second = self.moments.n / 2 - gradient[-1]  # half of Σ y is −gradient, and n = second + first
            # Σ over the second class of z is half of Σ z·y, as Σ z is 0.
            refuse_one_sided(self.determined, self.moments, -gradient[:-1], of_second, events=False)
        before = None
        for step in count(1):
            direction = -np.asarray(np.linalg.lstsq(hessian, gradient, rcond=_DEPENDENT)[0], np.float64)
            if self.loss.has_no_minimum(value):
                raise self._grows(direction)
            gain = -float(gradient @ direction)
            if gain <= _TOLERANCE * min(self.moments.n, 4 * hessian[-1, -1]):
                # Where coefficients grow, the loss stands still, and every step is as long as the one before.
                size = np.abs(direction).max()
                if not self.loss.penalised and before is not None and size > _SHRINKS * before:
                    raise self._grows(direction)
                # The last step doubles the digits, and needs no sums.
                return (yield from self._agreed(at + direction)), hessian, step
            before = np.abs(direction).max()
            for halving in count():
                ahead = yield from self._agreed(at + direction / 2**halving)
                found = yield from self._at(ahead)
                if found[0] <= value - 1e-4 * gain / 2**halving:
                    break
            at, (value, gradient, hessian) = ahead, found
        raise AssertionError

    def _grows(self, direction: Numbers) -> AnswerIsNo:
        return self.determined.grows(direction[:-1], "they tell the classes of some records apart perfectly")

    def _agreed(self, own: Numbers) -> Script[Numbers]:
        """Return the coefficients of the next sums."""
        self.progress.at = own
        self.progress.at = yield from agreed(self.me, self.parties, own)
        return self.progress.at

    def _at(self, coefficients: Numbers) -> Script[tuple[float, Numbers, Numbers]]:
        """Return value, gradient and Hessian over all sites."""
        if self.progress.opened == _MOST_OPENED:
            raise AnswerIsNo(f"the coefficients do not settle in {_MOST_OPENED} steps; set ridge")
        counted = self._counted(coefficients)
        if self.guard is not None:
            weights = self.loss.weights(self.x, self.y, coefficients, counted)
            self.guard.insist_on_many(weights, self.x @ coefficients)
        size = coefficients.size
        value, gradient, hessian = self.loss.sums(self.x, self.y, coefficients, counted)
        upper = np.triu_indices(size)
        totals = yield from self.sums.total(np.concatenate(([value], gradient, hessian[upper])))
        self.progress.opened += 1
        whole = np.zeros((size, size))
        whole[upper] = whole.T[upper] = totals[1 + size :]
        all_of_it = totals[0], totals[1 : 1 + size], whole
        if self.others is not None:
            self.others.check(coefficients, all_of_it[0] - value, all_of_it[1] - gradient, whole - hessian)
        more = self.loss.penalty(coefficients)
        return all_of_it[0] + more[0], all_of_it[1] + more[1], whole + more[2]

    def _counted(self, coefficients: Numbers) -> Flags | None:
        """Return which own records a step counts, that steps do not differ by few; None: those that the loss does."""
        counts = self.loss.counts(self.x, self.y, coefficients)
        if counts is None or self.guard is None or self.guard.min_records == 1:
            return None
        found = kept_apart(*counts, self.progress.counted, self.guard.min_records)
        self.progress.counted.append(found)
        return found

    def _bounds_of_others(self, guard: StepGuard) -> ConvexTotals | None:
        """Return what must hold of the others' sums; None where sites were lost between means and products."""
        if self.progress.totals_of != self.progress.products_of:
            return None
        n, kept, size = self.moments.n, self.determined.kept, self.x.shape[1]
        everybody = np.zeros((size, size))
        everybody[:-1, :-1], everybody[-1, -1] = self.moments.correlation[np.ix_(kept, kept)], 1.0
        slack = rounding_of(n, self.moments.mean[kept], self.moments.deviation[kept])
        same = self.progress.products_of == self.parties
        others = n * everybody - self.x.T @ self.x
        smooth = guard.min_records == 1 or self.loss.counts(self.x, self.y, np.zeros(size)) is None
        return ConvexTotals(guard, others, n - len(self.x), *self.loss.bounds, slack, smooth, same)


def agreed(me: int, parties: Sequence[str], own: Numbers) -> Script[Numbers]:
    """Return the first site's coefficients, which must be ours but for rounding."""
    first, others = parties[0], tuple(parties[1:])
    if me == 0:
        yield Send(others, Coefficients(tuple(own.tolist())))
        return own
    heard = np.array((yield Receive(first, Coefficients)).values)
    if heard.shape != own.shape or not np.abs(heard - own).max() <= _ROUNDING * (1 + np.abs(own).max()):
        raise PeerBrokeProtocol(first, "sent coefficients that do not follow from the sums")
    return heard


# --- linear -------------------------------------------------------------------------------------------------
# A weighted sum of numbers that tells two classes apart: logistic regression, a linear support vector
# machine.
#
# Coefficients are by attribute, in its own unit. Of an attribute with categories there is one for each:
# that of its first is 0, the others are differences from it.


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
        if not isinstance(classes, list) or len(classes) != 2 or not all(isinstance(each, str) for each in classes):
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


def weighted_sum(coefficients: Mapping[str, Coefficient], cells: Cells) -> Numbers:
    """Return each record's sum of attributes times coefficients, or of its categories' coefficients."""
    total = np.zeros(len(next(iter(cells.values()))) if cells else 1)
    for name, coefficient in coefficients.items():
        if isinstance(coefficient, dict):
            values, places = known_categories(name, cells[name], coefficient)
            total = total + np.array([coefficient[value] for value in values], np.float64)[places]
        else:
            total = total + coefficient * np.asarray(cells[name], np.float64)
    return total


def read_coefficients(written: Any) -> Mapping[str, Coefficient]:
    """Return coefficients by attribute; NotAModel if these are none."""
    if isinstance(written, dict):
        by_value = (each.values() if isinstance(each, dict) else (each,) for each in written.values())
        if all(is_number(number) for numbers in by_value for number in numbers):
            return written
    raise NotAModel("its coefficients are no numbers by attribute")


def read_errors(written: Mapping[str, Any], coefficients: Mapping[str, Coefficient]) -> Mapping[str, Coefficient]:
    """Return standard errors by attribute; NotAModel unless they are of these coefficients."""
    errors = read_coefficients(written.get("standard_errors"))
    if not fits(coefficients, errors):
        raise NotAModel("its standard errors are not those of its coefficients")
    return errors


def is_number(value: Any) -> bool:
    """Return whether a value that was read is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


# --- the methods --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearMethod(LearningMethod):
    """A linear model of two classes, from sums over all sites."""

    arrangements: ClassVar[tuple[Arrangement, ...]] = ("horizontal",)
    takes = "numbers"
    activity = "adding up gradients"
    learns: ClassVar[type[LinearClassifier]]
    drop_outs = ("stop", "start-over", "go-on")

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """What the model minimises."""

    def learn(self, site: Site) -> Script[Model]:
        """Take Newton's steps on sums over all sites."""
        purpose = site.purpose("linear model")
        sums = yield from prepare_aggregation(site.me, site.parties, purpose, site.openings)
        return (yield from self._fitted(site, sums, guard_of(site, self.min_records)))

    def alone(self, site: Site) -> Model:
        """Take the same steps on one table."""
        model: Model = result_of(self._fitted(site, OneSite()))
        return model

    def _fitted(self, site: Site, sums: AddsUp, guard: StepGuard | None = None) -> Script[Model]:
        x, y = design(site), np.where(outcomes(site, self.name), 1.0, -1.0)
        progress, columns = site.memory.setdefault("progress", FitProgress()), columns_of(site)
        found = yield from linear_model(site.me, site.parties, sums, x, y, self.loss, progress, columns, guard)
        return self._model(found, site.classes)

    def _model(self, found: LinearModel, classes: tuple[str, ...]) -> LinearClassifier:
        return self.learns(found.determined.by_attribute(found.coefficients), found.intercept, *classes)

    def counts(self, site: Site, model: Model) -> Script[Elements]:
        """Count the scores of this site's records."""
        yield from ()
        assert isinstance(model, LinearClassifier)
        return binned_counts(model.chances(site.cells()), outcomes(site, self.name))

    def metrics(self, model: Model, n_records: int, counts: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return accuracy, AUC and the ROC curve."""
        return binary_metrics(n_records, counts)

    def tells(self, contract: Contract, party: str) -> Iterator[str]:
        """Yield the sums that every step opens."""
        others = ", ".join(name for name in contract.parties if name != party)
        before = "the number of records, each attribute's mean and the products of each two"
        yield f"{others}: sums over all parties: {before}, and at every step loss, gradient and Hessian"
        if len(contract.parties) == 2:
            yield f"{others}: as there are two parties, the same sums over {party}'s records alone"


@dataclass(frozen=True)
class LogisticRegressionMethod(LinearMethod):
    """Logistic regression of n sites with the same columns: that of the pooled records, but for rounding.

    Every step of Newton's method opens the loss, its gradient and its Hessian, summed over all sites. Coefficients are
    unpenalised, unless `ridge` is set, and in the attributes' own units; that of a category is the difference from the
    first one that some record has. Where the records leave coefficients open (a column that does not vary or follows
    from others, a category of one class alone) they are refused by name. Standard errors are those of maximum
    likelihood, from the last Hessian; with `ridge` they are conditional on it.
    """

    name = "logistic"
    summary = "logistic regression; n sites learn the sums of each step, and no summand"
    learns = LogisticModel

    ridge: float = parameter(
        number(0), 0.0, help="the weight of the squared coefficients of standardised attributes; 0: unpenalised"
    )

    @property
    def loss(self) -> Loss:
        """The log-likelihood, with its penalty."""
        return Logistic(self.ridge)

    def _model(self, found: LinearModel, classes: tuple[str, ...]) -> LogisticModel:
        negative, positive = classes
        return LogisticModel(
            found.determined.by_attribute(found.coefficients),
            found.intercept,
            negative,
            positive,
            errors=found.determined.by_attribute(found.errors),
            intercept_error=found.intercept_error,
            conditional_on=given_ridge(self.ridge),
        )


@dataclass(frozen=True)
class SupportVectors(LinearMethod):
    """A linear support vector machine of n sites with the same columns, nearly that of the pooled records.

    Mangasarian and Musicant's squared hinge loss, by Newton's method on sums over all sites. Attributes are
    standardised for it; the coefficients are given in their own units. Records inside the margin are those of an
    earlier step, unless `min_records` or more of a site's are others; with 1 the model is that of the pooled records.
    """

    name = "svm"
    summary = "a linear support vector machine; n sites learn the sums of each step, and no summand"
    learns = LinearClassifier

    nu: float = parameter(number(0, open_low=True), 1.0, help="the weight of records on the wrong side of the margin")

    @property
    def loss(self) -> Loss:
        """The squared hinge loss, with its margin."""
        return SquaredHinge(self.nu)


def design(site: Site) -> Numbers:
    """Return this site's records as numbers: each category but an attribute's first is a column of 0 and 1."""
    columns = []
    for name, cells in site.cells().items():
        if name in site.values:
            columns += [(site.codes(name) == at).astype(np.float64) for at in range(1, len(site.values[name]))]
        else:
            columns.append(np.asarray(cells, np.float64))
    return np.column_stack(columns) if columns else np.zeros((len(site.table), 0))


def columns_of(site: Site) -> DesignColumns:
    """Return what the columns of `design` stand for."""
    return DesignColumns(site.attributes, {name: site.values[name] for name in site.attributes if name in site.values})


def guard_of(site: Site, min_records: int) -> StepGuard:
    """Return the checks of one of several sites."""
    most_records = (len(site.parties) - 1) * 2.0**site.most_bits
    return StepGuard(site.me, site.parties, min_records, most_records)


def given_ridge(ridge: float) -> str:
    """Return on what standard errors are conditional, as a model says it."""
    return f"ridge = {ridge:g}" if ridge > 0 else ""


def outcomes(site: Site, method: str) -> Any:
    """Return which of this site's records have the second class; DataError unless there are two."""
    if len(site.classes) != 2:
        found = f"{len(site.classes)}: {', '.join(site.classes[:10])}"
        text = f"{method} tells two classes apart; the records have {found}"
        raise DataError(f"class {site.contract.class_name}: {text}")
    return site.codes(str(site.contract.class_name)) == 1
