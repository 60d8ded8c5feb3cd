"""Linear models of records that n sites have, by Newton's method on sums: no projection, no record leaves a site.

Every step opens to all sites: the value, the gradient and the Hessian of the loss, summed over all their records, at
the coefficients of that step (`aggregate.py`). That is what the pooled model needs, so it is what the pooled model is,
but for rounding. Before the first step the number of records, each attribute's mean, and the products of each two are
opened: the coefficients are found for standardised attributes and given in the attributes' own units. Those that the
records do not determine are refused by name (`identified.py`). Standard errors are from the last Hessian that was
opened, which is that of the last step's start: the step after it is so short that they are the same to five digits.

All sites compute the same steps from the same sums. The first one tells its coefficients after each, so that rounding
cannot drive them apart; whose differ by more is named.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from masquerade.errors import AnswerIsNo, PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.learn.aggregate import AddsUp, Numbers
from masquerade.protocol.learn.identified import Columns, Determined, Moments, determined, refuse_one_sided

_MOST_STEPS, _MOST_HALVINGS = 50, 30
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
    def sums(self, x: Numbers, y: Numbers, at: Numbers) -> tuple[float, Numbers, Numbers]:
        """Return value, gradient and Hessian over records x with outcomes y of −1 or 1."""

    def penalty(self, at: Numbers) -> tuple[float, Numbers, Numbers]:
        """Return value, gradient and Hessian of the penalty."""
        return 0.0, np.zeros_like(at), np.zeros((at.size, at.size))

    @property
    @abstractmethod
    def penalised(self) -> bool:
        """Whether a penalty determines the coefficients where the records do not."""

    def has_no_minimum(self, value: float) -> bool:
        """Return whether a loss as small as this shows that it falls for ever, and the coefficients grow."""
        return False


@dataclass(frozen=True)
class Logistic(Loss):
    """Logistic regression; `ridge` is the weight of the squared coefficients, not of the intercept."""

    ridge: float = 0.0

    def sums(self, x: Numbers, y: Numbers, at: Numbers) -> tuple[float, Numbers, Numbers]:
        """Return the log-likelihood's."""
        margin = y * (x @ at)
        wrong = np.exp(-np.logaddexp(0.0, margin))  # the probability of the other outcome
        weights = wrong * (1 - wrong)
        return float(np.logaddexp(0.0, -margin).sum()), -x.T @ (y * wrong), (x * weights[:, None]).T @ x

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

    def sums(self, x: Numbers, y: Numbers, at: Numbers) -> tuple[float, Numbers, Numbers]:
        """Return those of the records inside the margin."""
        short = 1 - y * (x @ at)
        inside = short > 0
        some, by = x[inside], short[inside]
        gradient = -self.nu * some.T @ (y[inside] * by)
        return self.nu / 2 * float(by @ by), gradient, self.nu * some.T @ some

    def penalty(self, at: Numbers) -> tuple[float, Numbers, Numbers]:
        """Return that of all coefficients, the intercept's among them."""
        return float(at @ at) / 2, at, np.eye(at.size)

    @property
    def penalised(self) -> bool:
        """It always is."""
        return True


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
class Progress:
    """How far a fit has come: sums that were opened, and the coefficients at which they are to be opened next.

    A fit that is interrupted goes on from here, with other sites maybe. Nothing that was opened is opened again.
    """

    totals: Numbers | None = None
    products: Numbers | None = None
    at: Numbers | None = None


def linear_model(
    me: int,
    parties: Sequence[str],
    sums: AddsUp,
    x: Numbers,
    y: Numbers,
    loss: Loss,
    progress: Progress | None = None,
    columns: Columns | None = None,
) -> Script[LinearModel]:
    """Fit a model of outcomes −1 and 1 by attributes x, record × attribute; return the one of all sites' records.

    `columns` say what those of x stand for. AnswerIsNo where the records leave coefficients open.
    """
    progress, columns = progress or Progress(), columns or Columns.unnamed(x.shape[1])
    all_of_it = yield from moments(sums, x, progress)
    support_vectors = isinstance(loss, SquaredHinge)
    known = determined(columns, all_of_it, penalised=loss.penalised, may_be_constant=support_vectors)
    mean, deviation = all_of_it.mean[known.kept], all_of_it.deviation[known.kept]
    standard = np.column_stack([(x[:, known.kept] - mean) / deviation, np.ones(len(x))])
    fit = _Fit(me, tuple(parties), sums, loss, standard, y, progress, known, all_of_it)
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
        to_own = np.block(
            [[to_own, np.zeros((mean.size, 1))], [-(mean / deviation)[None, :], np.ones((1, 1))]]
        )
    spread_of = to_own @ np.linalg.pinv(hessian, rcond=_DEPENDENT, hermitian=True) @ to_own.T
    return np.asarray(np.sqrt(np.maximum(np.diag(spread_of), 0.0)))


def moments(sums: AddsUp, x: Numbers, progress: Progress | None = None) -> Script[Moments]:
    """Return number, mean, deviation (`spread`) and correlation over all sites' records."""
    known = progress or Progress()
    if known.totals is None:
        known.totals = yield from sums.total(np.concatenate(([len(x)], x.sum(axis=0))))
    n, mean = round(known.totals[0]), known.totals[1:] / known.totals[0]
    upper = np.triu_indices(mean.size)
    if known.products is None:
        centred = x - mean
        known.products = yield from sums.total((centred.T @ centred)[upper])
    covariance = np.zeros((mean.size, mean.size))
    covariance[upper] = covariance.T[upper] = known.products / n
    deviation = spread(mean, np.sqrt(np.diag(covariance)))
    return Moments(n, mean, deviation, covariance / np.outer(deviation, deviation))


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
    progress: Progress
    determined: Determined
    moments: Moments

    def run(self) -> Script[tuple[Numbers, Numbers, int]]:
        """Return the coefficients, the Hessian before the last step, and the number of steps."""
        if self.progress.at is None:
            self.progress.at = np.zeros(self.x.shape[1])
            at = self.progress.at
        else:
            at = yield from self._agreed(self.progress.at)
        value, gradient, hessian = yield from self._at(at)
        if not at.any() and not self.loss.penalised:
            self._refuse_one_sided(gradient)
        before = None
        for step in range(1, _MOST_STEPS + 1):
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
            for halving in range(_MOST_HALVINGS):
                ahead = yield from self._agreed(at + direction / 2**halving)
                found = yield from self._at(ahead)
                if found[0] <= value - 1e-4 * gain / 2**halving:
                    break
            at, (value, gradient, hessian) = ahead, found
        raise AnswerIsNo(f"the coefficients do not settle in {_MOST_STEPS} steps; set ridge")

    def _refuse_one_sided(self, gradient: Numbers) -> None:
        """AnswerIsNo if all records of a category have one class; the gradient is that at coefficients 0."""
        of_second = self.moments.n / 2 - gradient[-1]  # half of Σ y is −gradient, and n = second + first
        # Σ over the second class of z is half of Σ z·y, as Σ z is 0.
        refuse_one_sided(self.determined, self.moments, -gradient[:-1], of_second, events=False)

    def _grows(self, direction: Numbers) -> AnswerIsNo:
        return self.determined.grows(direction[:-1], "they tell the classes of some records apart perfectly")

    def _agreed(self, own: Numbers) -> Script[Numbers]:
        """Return the coefficients of the next sums."""
        self.progress.at = own
        self.progress.at = yield from agreed(self.me, self.parties, own)
        return self.progress.at

    def _at(self, coefficients: Numbers) -> Script[tuple[float, Numbers, Numbers]]:
        """Return value, gradient and Hessian over all sites."""
        size = coefficients.size
        value, gradient, hessian = self.loss.sums(self.x, self.y, coefficients)
        upper = np.triu_indices(size)
        totals = yield from self.sums.total(np.concatenate(([value], gradient, hessian[upper])))
        whole = np.zeros((size, size))
        whole[upper] = whole.T[upper] = totals[1 + size :]
        more = self.loss.penalty(coefficients)
        return totals[0] + more[0], totals[1 : 1 + size] + more[1], whole + more[2]


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
