"""What a site checks of each step of a fit, as other sites may lie: its own part of a sum, and what was opened.

A site that lies may choose at which coefficients the next sums are opened, and sums at well chosen ones are those of
few records. These are checked, by every site for itself:

 1. Before it adds its part: whether that rests on at least `min_records` of **its own** records, by the effective
    number (Σw)²/Σw² of the weights that the step gives them (Kish), so that no record has more than a share of
    1/√min_records in it; and whether scores are within what a fit may need. Whatever made the coefficients what they
    are, a site shows no few records. It then ends the session, and names no figure; the liar has one bit.
 2. Where a step counts some records and not others, as a margin does: that these sets of its own records are the same
    at two steps, or differ by at least `min_records` (`kept_apart`).
 3. After a sum is opened: whether there can be records of which the **others'** part of it, the total without its own,
    is the sum. What no records have is somebody's lie; of two sites the other one is named.

A liar may still give the sums of records that it has made up, as it may have such records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from masquerade.errors import AnswerIsNo, PeerBrokeProtocol, Problem

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]  # which of a site's own records

_LARGEST_SCORE = 25.0  # of half of a site's own records; fits that settle have 1 to 10
_ROUNDING = 1e-9  # of sums, for each record
_DIGITS = 1e-14  # of a mean, by which records of another rounding differ
_CONTRADICTS = 1e-4  # of products, where the others' records vary
_ROUGH = 2.0**-9  # to which gradient and Hessian of Cox regression are exact, for each death
_NARROW = 1e-7  # of the products' largest eigenvalue: a direction in which records hardly vary is not judged


def effective_number(weights: Numbers) -> float:
    """Return on how many records a weighted sum rests: Kish's (Σw)²/Σw², n for equal weights."""
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def kept_apart(wanted: Flags, costs: Numbers, earlier: Sequence[Flags], least: int) -> Flags:
    """Return a set of records near the `wanted` one that is one of the `earlier` sets, or differs from each by many.

    Sums over two sets that differ by few records tell of these few. A set is as far from the wanted one as the `costs`
    of the records in which it differs; the nearest earlier one is taken, or where that is nearer, the wanted one but
    for so many further records that it differs by `least` from each.
    """
    nearest = min(earlier, key=lambda each: float(costs[each ^ wanted].sum()), default=None)
    if nearest is None:
        return wanted
    found = wanted.copy()
    for each in earlier:
        alike = np.flatnonzero(found == each)
        lacking = least - (len(found) - len(alike))
        if lacking > 0:
            found[alike[np.argsort(costs[alike], kind="stable")[:lacking]]] ^= True
    apart = all(np.count_nonzero(found ^ each) >= least for each in earlier)
    return found if apart and costs[found ^ wanted].sum() < costs[nearest ^ wanted].sum() else nearest


@dataclass(frozen=True)
class StepGuard:
    """One site's checks; `most_records` is how many the others may have by what they said before."""

    me: int
    parties: tuple[str, ...]
    min_records: int
    most_records: float

    # --- its own part

    def insist_on_records(self, n: int) -> None:
        """AnswerIsNo if this site has too few records to add anything up."""
        if n < self.min_records:
            raise self._too_few(f"{n} records are too few; a site needs at least {self.min_records}")

    def insist_on_many(self, weights: Sequence[Numbers], scores: Numbers) -> None:
        """AnswerIsNo if a step rests on too few of this site's records, by any of its weights, or goes too far."""
        far = scores.size and not np.median(np.abs(scores)) <= _LARGEST_SCORE
        if far or any(effective_number(each) < self.min_records for each in weights):
            text = f"a sum would rest on fewer than {self.min_records} of this site's records"
            raise self._too_few(f"{text}: they are too few, or told apart too well; set ridge")

    def _too_few(self, text: str) -> AnswerIsNo:
        return AnswerIsNo(Problem(text, key=("algorithm", "min_records")))

    # --- what was opened

    def insist(self, holds: bool | np.bool_, what: str) -> None:
        """PeerBrokeProtocol unless something holds of the others' sums, as it does of any records'."""
        if not holds:
            others = [name for at, name in enumerate(self.parties) if at != self.me]
            text = f"sent sums that no records have: {what}"
            raise PeerBrokeProtocol(others[0], text) if len(others) == 1 else PeerBrokeProtocol("", f"somebody {text}")

    def check_number(self, others: float) -> None:
        """Check how many records the others have."""
        self.insist(others == round(others), "their number is not whole")
        self.insist(1 <= others <= self.most_records, "there are more, or fewer, than was announced")

    def check_products(self, n: int, mean: Numbers, deviation: Numbers, products: Numbers, centred: Numbers) -> None:
        """Check the products of each two columns around the mean of all n records; this site's are `centred`."""
        others, n_others = products - centred.T @ centred, n - len(centred)
        ahead = -centred.sum(axis=0) / n_others  # of the others, as that of all is 0
        varies = np.where(np.isfinite(deviation), deviation, 0.0)
        rounding = np.maximum(np.sqrt(n) * (_ROUNDING * np.abs(mean) + _CONTRADICTS * varies), 1e-100)
        unit = np.sqrt(np.maximum(np.diag(others), 0.0)) + rounding
        within = (others - n_others * np.outer(ahead, ahead)) / np.outer(unit, unit)
        self.insist(_least(within) >= -_CONTRADICTS, "products that contradict the means")

    def check_deaths(self, others: NDArray[np.int64], n_others: int) -> None:
        """Check how many of the others' records died at each time."""
        self.insist((others >= 0).all() and int(others.sum()) <= n_others, "deaths of nobody")

    def check_dead(self, sums: Numbers, n_dead: int, n: int, products: Numbers) -> None:
        """Check what the attributes of the others' dead add up to, by their products; all have n records."""
        # By Cauchy and Schwarz; the products are rounded as sums over all records are.
        largest = n_dead * (np.diag(products) + _ROUNDING * n)
        self.insist((sums**2 <= largest + _ROUNDING * n).all(), "attributes of the dead that nobody has")


@dataclass
class ConvexTotals:
    """What must hold of value, gradient and Hessian of a loss over the others' records, at every coefficients.

    The loss of any record is convex, at least 0, and curves at most `curvature` times the record's own square, which it
    does at coefficients 0, where its value is `at_zero`. `products` are the others' XᵀX, known from the means and
    products that were opened before. `smooth`: whether each sum is of the same function of the same records.
    """

    guard: StepGuard
    products: Numbers
    n_records: float  # of the others
    curvature: float
    at_zero: float
    slack: float  # rounding, in records
    smooth: bool = True
    exact: bool = True  # whether the others are those whose products are known, and not fewer
    opened: list[tuple[Numbers, float, Numbers]] = field(default_factory=list)

    def __post_init__(self) -> None:
        sizes, axes = np.linalg.eigh(self.products)
        wide = sizes > _NARROW * max(float(sizes[-1]), 1.0)
        self._root = axes[:, wide] / np.sqrt(self.curvature * (sizes[wide] + self.slack))

    def check(self, at: Numbers, value: float, gradient: Numbers, hessian: Numbers) -> None:
        """PeerBrokeProtocol unless there may be records of which these are the sums."""
        insist, most = self.guard.insist, self.curvature * self.products
        unit = max(self.curvature, self.at_zero)
        slack = self.slack * unit
        insist(_least(hessian) >= -slack, "a loss that is not convex")
        insist(_least(most - hessian) >= -slack, "a loss that curves more than all records together")
        insist(value >= self._bend(gradient) - slack, "a loss too small for its gradient")
        if not at.any():
            insist(value <= self.at_zero * self.n_records + slack, "a loss at coefficients 0")
            if self.exact:
                insist(value >= self.at_zero * self.n_records - slack, "a loss at coefficients 0")
                insist(_least(hessian - most) >= -slack, "a Hessian at coefficients 0")
        for other, its_value, its_gradient in self.opened if self.smooth else ():
            bend = self._bend(gradient - its_gradient)
            for ahead, gained in (
                (float(its_gradient @ (at - other)), value - its_value),
                (float(gradient @ (other - at)), its_value - value),
            ):
                rounding = slack + _ROUNDING * abs(ahead)
                insist(gained >= ahead + bend - rounding, "a loss and gradients that no convex loss has")
        self.opened.append((at, value, gradient))

    def _bend(self, gradient: Numbers) -> float:
        """Return by how much a loss that curves no more must rise or fall, if its gradient changes by this."""
        along = gradient @ self._root
        return float(along @ along) / 2


@dataclass
class RiskTotals:
    """What must hold of sums over all deaths, at every coefficients, of Cox's partial likelihood.

    A death adds its risk set's weighted mean and covariance. Of any weights, mean and covariance of records x with
    xᵀP⁻¹x ≤ 1, P being `products`, have meanᵀP⁻¹mean + tr(P⁻¹ covariance) ≤ 1; and the mean rises along every step.
    """

    guard: StepGuard
    products: Numbers  # of all records
    n_deaths: int
    opened: list[tuple[Numbers, Numbers]] = field(default_factory=list)

    def __post_init__(self) -> None:
        sizes, axes = np.linalg.eigh(self.products)
        wide = sizes > _NARROW * max(float(np.max(sizes, initial=0.0)), 1.0)
        self._root = axes[:, wide] / np.sqrt(sizes[wide])
        self._rough = _ROUGH * self.n_deaths * max(len(sizes), 1)
        self._rough_trace = self._rough * float(np.sum(1 / sizes[wide])) + _ROUNDING * self.n_deaths

    def check(self, at: Numbers, expected: Numbers, covariance: Numbers) -> None:
        """PeerBrokeProtocol unless there may be records of which these are the sums."""
        along = expected @ self._root
        self.check_spread(covariance, float(along @ along) / self.n_deaths)
        for other, before in self.opened:
            rising, step = float((expected - before) @ (at - other)), np.abs(at - other).sum()
            self.guard.insist(rising >= -_ROUGH * self.n_deaths * step, "gradients that no convex loss has")
        self.opened.append((at, expected))

    def check_spread(self, covariance: Numbers, means: float = 0.0) -> None:
        """Check covariances; `means` is what their means add up to at least."""
        insist = self.guard.insist
        insist(_least(covariance) >= -self._rough, "a Hessian that is not positive")
        trace = float(np.einsum("ik,ij,jk", self._root, covariance, self._root))
        insist(means + trace <= self.n_deaths + self._rough_trace, "attributes of the dead that nobody has")


def rounding_of(n: float, mean: Numbers, deviation: Numbers) -> float:
    """Return the slack of sums over n records of standardised attributes, in records."""
    digits = float(np.max(np.abs(mean) / deviation, initial=0.0))
    return n * (_ROUNDING + _DIGITS * digits) * (1 + mean.size)


def _least(matrix: Numbers) -> float:
    """Return the smallest eigenvalue."""
    return float(np.linalg.eigvalsh(matrix)[0]) if matrix.size else 0.0
