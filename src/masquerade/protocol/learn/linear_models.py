"""Linear models of records that n sites have, by Newton's method on sums: no projection, no record leaves a site.

Every step opens to all sites: the value, the gradient and the Hessian of the loss, summed over all their records, at
the coefficients of that step (`aggregate.py`). That is what the pooled model needs, so it is what the pooled model is,
but for rounding. Before the first step the number of records, and mean and deviation of each attribute, are opened: the
coefficients are found for standardised attributes and given in the attributes' own units.

All sites compute the same steps from the same sums. The first one tells its coefficients after each, so that rounding
cannot drive them apart; whose differ by more is named.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.errors import AnswerIsNo, PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.learn.aggregate import AddsUp, Numbers

_MOST_STEPS, _MOST_HALVINGS = 50, 30
_TOLERANCE = 1e-9  # of the loss, for each record
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


@dataclass(frozen=True)
class LinearModel:
    """Coefficients in the attributes' own units."""

    coefficients: tuple[float, ...]
    intercept: float
    steps: int
    n_records: int


@dataclass
class Progress:
    """How far a fit has come: sums that were opened, and the coefficients at which they are to be opened next.

    A fit that is interrupted goes on from here, with other sites maybe. Nothing that was opened is opened again.
    """

    totals: Numbers | None = None
    squares: Numbers | None = None
    at: Numbers | None = None


def linear_model(
    me: int,
    parties: Sequence[str],
    sums: AddsUp,
    x: Numbers,
    y: Numbers,
    loss: Loss,
    progress: Progress | None = None,
) -> Script[LinearModel]:
    """Fit a model of outcomes −1 and 1 by attributes x, record × attribute; return the one of all sites' records."""
    progress = progress or Progress()
    n, mean, deviation = yield from moments(sums, x, progress)
    standard = np.column_stack([(x - mean) / deviation, np.ones(len(x))])
    fit = _Fit(me, tuple(parties), sums, loss, standard, y, progress)
    at, steps = yield from fit.run(n)
    coefficients = at[:-1] / deviation
    return LinearModel(tuple(coefficients.tolist()), float(at[-1] - coefficients @ mean), steps, n)


def moments(
    sums: AddsUp, x: Numbers, progress: Progress | None = None
) -> Script[tuple[int, Numbers, Numbers]]:
    """Return the number of all records, and each attribute's mean and deviation (`spread`)."""
    known = progress or Progress()
    if known.totals is None:
        known.totals = yield from sums.total(np.concatenate(([len(x)], x.sum(axis=0))))
    n, mean = round(known.totals[0]), known.totals[1:] / known.totals[0]
    if known.squares is None:
        known.squares = yield from sums.total(((x - mean) ** 2).sum(axis=0))
    return n, mean, spread(mean, np.sqrt(known.squares / n))


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

    def run(self, n: int) -> Script[tuple[Numbers, int]]:
        if self.progress.at is None:
            self.progress.at = np.zeros(self.x.shape[1])
            at = self.progress.at
        else:
            at = yield from self._agreed(self.progress.at)
        value, gradient, hessian = yield from self._at(at)
        for step in range(1, _MOST_STEPS + 1):
            if self.loss.has_no_minimum(value):
                raise AnswerIsNo(
                    "the coefficients grow without end: the attributes tell the classes apart perfectly; set a penalty"
                )
            direction = -np.linalg.lstsq(hessian, gradient, rcond=_DEPENDENT)[0]
            gain = -float(gradient @ direction)
            if gain <= _TOLERANCE * n:  # the last step doubles the digits, and needs no sums
                return (yield from self._agreed(at + direction)), step
            for halving in range(_MOST_HALVINGS):
                ahead = yield from self._agreed(at + direction / 2**halving)
                found = yield from self._at(ahead)
                if found[0] <= value - 1e-4 * gain / 2**halving:
                    break
            at, (value, gradient, hessian) = ahead, found
        raise AnswerIsNo(f"the coefficients do not settle in {_MOST_STEPS} steps; set a penalty")

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
