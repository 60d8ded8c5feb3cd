"""Records as their builder sees them: normalised, and mapped by a random matrix B that the sites keep to themselves.

Mangasarian and Wild's reduced kernel with completely random rows, as "Privacy-Preserving Predictive Models for Lung
Cancer Survival" (P3DM'08) has it for n sites: K(x, B') with B of m̄ < n rows from the normal distribution. Linear,
x·B'; or Gaussian, exp(−width · ‖x − B_i‖²).

The sites agree on B by common coins (`coin_toss.py`), on each attribute's mean by masked sums, to fill in what is
missing, and on its smallest and largest value by a circuit, to normalise it to [0, 1]. Each site learns these; **the
smallest and the largest are somebody's values**. Of several matrices they may take the best, judged by sums alone: by
how much of the outcome a linear regression on x·B' explains, which follows from all sites' first and second moments.

What B hides is measured in tests/attacks/test_projected_records.py: whoever knows B and x·B' knows a record up to
n − m̄ dimensions, and where its values are whole numbers, mostly altogether.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from masquerade.errors import AnswerIsNo, ParameterError, Problem
from masquerade.net.script import Script
from masquerade.protocol.collaborate.shared_bits import SharedBits
from masquerade.protocol.learn.aggregate import Aggregation
from masquerade.protocol.learn.coin_toss import tossed
from masquerade.protocol.learn.extremes import largest, smallest

Numbers = NDArray[np.float64]
Kernel = Literal["linear", "gaussian"]


@dataclass(frozen=True)
class Projection:
    """What the sites know and the builder must not: B, and how attributes are normalised."""

    matrix: Numbers
    means: Numbers
    low: Numbers
    high: Numbers
    kernel: Kernel = "linear"
    width: float = 1.0

    def __call__(self, x: Numbers) -> Numbers:
        """Return each record as the builder sees it, [records, rows of B]."""
        return mapped(self.normalised(x), self.matrix, self.kernel, self.width)

    def normalised(self, x: Numbers) -> Numbers:
        """Return records with means for missing values and every attribute between 0 and 1."""
        filled = np.where(np.isnan(x), self.means, x)
        spread = np.where(self.high > self.low, self.high - self.low, 1.0)
        return np.asarray((filled - self.low) / spread)


@dataclass(frozen=True)
class ProjectionTerms:
    """What is agreed before: how many rows B has (None: one fewer than attributes), the kernel, and its choice."""

    dimensions: int | None = None
    kernel: Kernel = "linear"
    width: float | None = None  # of the Gaussian kernel; None: 1 / number of attributes
    candidates: int = 1

    def rows(self, n_attributes: int) -> int:
        """Return how many rows B has, or refuse."""
        if text := too_many_rows(self.dimensions, n_attributes):
            raise ParameterError(Problem(text, key=("algorithm", "dimensions")))
        if self.candidates > 1 and self.kernel != "linear":
            raise ParameterError("the best of several matrices is known for the linear kernel alone")
        return n_attributes - 1 if self.dimensions is None else self.dimensions


def too_many_rows(dimensions: int | None, n_columns: int) -> str:
    """Return what is wrong with the number of rows of B for records of so many columns; "" if nothing is."""
    counted = "a number is one, a category one fewer than it has values"
    if n_columns < 2:
        return f"B has fewer rows than records have columns ({counted}), and there are {n_columns}: add attributes"
    if dimensions is not None and not 1 <= dimensions < n_columns:
        most = n_columns - 1
        return (
            f"must be from 1 to {most}, below the columns of records ({counted}). Got {dimensions} instead."
        )
    return ""


def random_matrix(coin: bytes, rows: int, columns: int) -> Numbers:
    """Return the matrix of a coin, with entries from the standard normal distribution."""
    drawn = np.frombuffer(hashlib.shake_256(coin).digest(8 * rows * columns), "<u8") >> np.uint64(12)
    normal = NormalDist()
    entries = [normal.inv_cdf((int(each) + 0.5) / 2**52) for each in drawn]
    return np.array(entries).reshape(rows, columns)


def mapped(x: Numbers, matrix: Numbers, kernel: Kernel, width: float) -> Numbers:
    """Return K(x, B'), [records, rows of B]."""
    if kernel == "linear":
        return np.asarray(x @ matrix.T)
    distances = ((x[:, None, :] - matrix[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(np.exp(-width * distances))


def agree_on_projection(
    me: int,
    parties: Sequence[str],
    sums: Aggregation,
    shared: SharedBits,
    x: Numbers,
    outcome: Numbers,
    terms: ProjectionTerms,
    purpose: bytes,
) -> Script[Projection]:
    """Agree with the other sites on B and on how attributes are normalised; NaN is missing."""
    n = x.shape[1]
    rows = terms.rows(n)
    known = ~np.isnan(x)
    totals = yield from sums.total(np.concatenate((known.sum(axis=0), np.where(known, x, 0.0).sum(axis=0))))
    counts = np.rint(totals[:n])
    if not counts.all():
        raise AnswerIsNo(f"attribute {int(np.argmin(counts)) + 1} is missing in every record of every site")
    high = yield from largest(shared, np.where(known, x, -np.inf).max(axis=0, initial=-np.inf))
    low = yield from smallest(shared, np.where(known, x, np.inf).min(axis=0, initial=np.inf))
    coins = []
    for number in range(terms.candidates):
        coins.append((yield from tossed(me, parties, b"%d\0" % number + purpose)))
    width = 1.0 / n if terms.width is None else terms.width
    projections = [
        Projection(random_matrix(coin, rows, n), totals[n:] / counts, low, high, terms.kernel, width)
        for coin in coins
    ]
    if len(projections) == 1:
        return projections[0]
    normal = projections[0].normalised(x)
    both = np.column_stack([np.ones(len(x)), normal, outcome])
    moments = (yield from sums.total((both.T @ both).ravel())).reshape(n + 2, n + 2)
    return max(projections, key=lambda each: explained(moments, each.matrix))


def explained(moments: Numbers, matrix: Numbers) -> float:
    """Return which share of the outcome's variance x·B' explains; moments are Σ vv' of v = (1, x, outcome)."""
    mean = moments[0] / moments[0, 0]
    spread = (moments / moments[0, 0] - np.outer(mean, mean))[1:, 1:]
    inside, along = matrix @ spread[:-1, :-1] @ matrix.T, matrix @ spread[:-1, -1]
    return float(along @ np.linalg.lstsq(inside, along, rcond=None)[0] / max(spread[-1, -1], 1e-300))
