"""Records as their builder sees them: normalised, and mapped by a random matrix B that the sites keep to themselves.

Mangasarian and Wild's reduced kernel with completely random rows, as "Privacy-Preserving Predictive Models for Lung
Cancer Survival" (P3DM'08) has it for n sites: K(x, B') with B of m̄ < n rows from the normal distribution. Linear,
x·B'; or Gaussian, exp(−width · ‖x − B_i‖²).

The sites agree on B by common coins (`sums.py`), on each attribute's mean by masked sums, to fill in what is
missing, and on its smallest and largest value by a circuit, to normalise it to [0, 1]. Each site learns these; **the
smallest and the largest are somebody's values**. Of several matrices they may take the best, judged by sums alone: by
how much of the outcome a linear regression on x·B' explains, which follows from all sites' first and second moments.

What B hides is measured in tests/attacks/test_projected_records.py: whoever knows B and x·B' knows a record up to
n − m̄ dimensions, and where its values are whole numbers, mostly altogether.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from masquerade.errors import AnswerIsNo, DataError, ParameterError, PeerBrokeProtocol, Problem
from masquerade.forms import read_json
from masquerade.net import Message, Receive, Script, Send
from masquerade.protocol.learn.models import Cells, area_under_curve, concordance, known_categories
from masquerade.protocol.learn.sums import Aggregation, largest, smallest, tossed
from masquerade.protocol.providers.shared_counts import SharedBits

# --- projected ----------------------------------------------------------------------------------------------
# PP-SVM and PP-Cox: a builder that is no site fits a model to records that the sites have mapped by their
# common B.
#
#     site → builder    each record's K(x, B'), with its label, or with its duration and whether it ended by death
#     builder → sites   the model: coefficients in the mapped space, and an intercept or a baseline hazard
#
# Who learns what: the builder every mapped record, from which site it is, and **its label or survival, in
# the clear** (D is public in the paper, and so it is here); not B, nor how attributes are normalised. The
# sites learn the model, and of each other's records the means, smallest and largest values
# (`projection.py`). They apply the model to new records by themselves: score(x) = K(x, B')·u. A site and
# the builder together know B and all sites' mapped records, and thereby mostly the records
# (tests/attacks/test_projected_records.py): this is as safe as the builder is apart from all sites. The
# models of securely aggregated sums (`linear.py`, `cox.py`) show no mapped record to anybody.
#
# A site that sends other records than it has gets a model of these; one that sends rows of another shape,
# or numbers that are none, is named.
#
# Cost: 8·m̄ + 16 bytes a record.

Numbers = NDArray[np.float64]
Weighting = Literal["equal", "reliability"]

_LEAST_WEIGHT = 0.1  # of a site whose records the others' model ranks no better than chance


class MappedRecords(Message, tag="learn-mapped", frozen=True):
    """A site's mapped records, row by row, and for each its outcome: a label, or duration and death."""

    rows: bytes
    outcomes: bytes


class MappedModel(Message, tag="learn-mapped-model", frozen=True):
    """Coefficients in the mapped space; γ of a support vector machine, or times and hazards of a Cox model."""

    coefficients: tuple[float, ...]
    threshold: float
    times: tuple[float, ...]
    hazards: tuple[float, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class Mapped:
    """Mapped records with their outcomes: labels −1 and 1 in one column, or durations and deaths (1) in two."""

    rows: Numbers
    outcomes: Numbers

    @property
    def died(self) -> NDArray[np.bool_]:
        """Which of them died, where outcomes are survival."""
        return self.outcomes[:, 1] > 0


def hand_over(builder: str, records: Mapped) -> Script[MappedModel]:
    """Send this site's mapped records to the builder; return its model."""
    rows, outcomes = (np.ascontiguousarray(each, "<f8").tobytes() for each in (records.rows, records.outcomes))
    yield Send((builder,), MappedRecords(rows, outcomes))
    model: MappedModel = yield Receive(builder, MappedModel)
    if len(model.coefficients) != records.rows.shape[1]:
        raise PeerBrokeProtocol(builder, "sent a model of another number of dimensions")
    return model


def build_mapped(
    sites: Sequence[str], n_outcomes: Literal[1, 2], nu: float, weighting: Weighting
) -> Script[MappedModel]:
    """Run the builder's part: receive all sites' records, fit, send the model to all."""
    heard: dict[str, Mapped] = {}
    for name in sites:
        heard[name] = _read(name, (yield Receive(name, MappedRecords)), n_outcomes)
        first = next(iter(heard.values())).rows.shape[1]
        if heard[name].rows.shape[1] != first:
            raise PeerBrokeProtocol(name, f"sent mapped records that are not of {first} dimensions")
    model = fitted(heard, nu, weighting)
    yield Send(tuple(sites), model)
    return model


def fitted(records: Mapping[str, Mapped], nu: float, weighting: Weighting) -> MappedModel:
    """Fit a model to all sites' mapped records: a support vector machine to labels, Cox regression to survival."""
    everything = _joined(list(records.values()))
    if everything.outcomes.shape[1] == 1 and np.ptp(everything.outcomes) == 0:
        raise AnswerIsNo("all records have one class: there is nothing to learn from")
    weights = _reliability(records, nu) if weighting == "reliability" else [1.0] * len(records)
    each = np.repeat(weights, [len(some.rows) for some in records.values()])
    return _model(everything, nu, each, tuple(weights))


def scores(model: MappedModel, rows: Numbers) -> Numbers:
    """Return each mapped record's score: above 0 is class 1; of survival, the logarithm of its relative risk."""
    return np.asarray(rows @ np.array(model.coefficients) - model.threshold)


def quality(model: MappedModel, records: Mapped) -> float:
    """Return the area under the ROC curve, or the concordance, over these records."""
    found = scores(model, records.rows)
    if records.outcomes.shape[1] == 1:
        return area_under_curve(found, records.outcomes[:, 0] > 0)
    return concordance(found, records.outcomes[:, 0], records.died)


def _model(records: Mapped, nu: float, each: Numbers, weights: tuple[float, ...]) -> MappedModel:
    if records.outcomes.shape[1] == 1:
        u, threshold = newton_svm(records.rows, records.outcomes[:, 0], nu, each)
        return MappedModel(tuple(u.tolist()), threshold, (), (), weights)
    return _survival_model(records, each, weights)


def _survival_model(records: Mapped, each: Numbers, weights: tuple[float, ...]) -> MappedModel:
    """Fit Cox regression by lifelines; the threshold is the mean score, where the baseline hazard applies."""
    try:
        from lifelines import CoxPHFitter
        from lifelines.exceptions import ConvergenceError, ConvergenceWarning
    except ModuleNotFoundError as error:
        raise ParameterError(f'pp-cox needs {error.name}: pip install "masquerade[learn]"') from None
    import pandas as pd  # after lifelines, which brings it

    if not records.died.any():
        raise AnswerIsNo("nobody dies: there is nothing to learn from")
    basis = _uncorrelated(records.rows)
    frame = pd.DataFrame(records.rows @ basis).assign(duration=records.outcomes[:, 0], died=records.died, weight=each)
    fitter = CoxPHFitter()
    equal = bool((each == each[0]).all())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)  # a model that did not converge is none
            if equal:
                fitter.fit(frame.drop(columns="weight"), "duration", "died")
            else:
                fitter.fit(frame, "duration", "died", weights_col="weight", robust=True)
    except (ConvergenceError, ConvergenceWarning, np.linalg.LinAlgError):
        raise AnswerIsNo(
            "the coefficients grow without end: the mapped attributes tell who dies first perfectly"
        ) from None
    u = basis @ fitter.params_.to_numpy()
    hazard = fitter.baseline_cumulative_hazard_.iloc[:, 0]
    hazard = hazard[np.diff(hazard, prepend=0.0) > 0]  # without the times at which nobody died
    at_mean = float(records.rows.mean(axis=0) @ u)
    return MappedModel(
        tuple(map(float, u)), at_mean, tuple(map(float, hazard.index)), tuple(map(float, hazard.to_numpy())), weights
    )


def _uncorrelated(rows: Numbers) -> Numbers:
    """Return a matrix that maps rows to uncorrelated columns of variance 1, leaving out what does not vary.

    A random matrix may give columns that vary little, or nearly together; Newton's steps on such columns get lost. The
    fit on uncorrelated ones is the same model, because their coefficients, mapped back, score every record alike.
    """
    _, spread, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    varies = spread > np.linalg.norm(rows) * len(rows) * np.finfo(np.float64).eps
    return np.asarray(axes[varies].T * (np.sqrt(len(rows)) / spread[varies]))


def _reliability(records: Mapping[str, Mapped], nu: float) -> list[float]:
    """Weigh each site by how much better than chance the others' model ranks its records; 1 is the mean.

    A site of which that cannot be told, because it or the others have too few records, has the mean weight.
    """
    found = []
    for name, own in records.items():
        others = _joined([each for other, each in records.items() if other != name])
        try:
            model = _model(others, nu, np.ones(len(others.rows)), ())
        except AnswerIsNo:  # the others have too few records
            found.append(np.nan)
        else:
            found.append(float(np.maximum(_LEAST_WEIGHT, 2 * quality(model, own) - 1)))  # keeps NaN
    known = [each for each in found if not np.isnan(each)] or [1.0]
    return [float(np.nan_to_num(each / np.mean(known), nan=1.0)) for each in found]


def _joined(some: Sequence[Mapped]) -> Mapped:
    return Mapped(np.concatenate([each.rows for each in some]), np.concatenate([each.outcomes for each in some]))


def _read(name: str, told: MappedRecords, n_outcomes: int) -> Mapped:
    """Return a site's records, or say what does not fit."""
    n = len(told.outcomes) // (8 * n_outcomes)
    if not n or len(told.outcomes) != 8 * n_outcomes * n or len(told.rows) % (8 * n) or not told.rows:
        raise PeerBrokeProtocol(name, "sent mapped records that are not as many as their outcomes")
    rows, outcomes = (np.frombuffer(each, "<f8").reshape(n, -1) for each in (told.rows, told.outcomes))
    if not (np.isfinite(rows).all() and np.isfinite(outcomes).all()):
        raise PeerBrokeProtocol(name, "sent mapped records that are no numbers")
    allowed = (-1.0, 1.0) if n_outcomes == 1 else (0.0, 1.0)
    if not np.isin(outcomes[:, -1], allowed).all() or (n_outcomes == 2 and (outcomes[:, 0] < 0).any()):
        raise PeerBrokeProtocol(name, "sent outcomes that are none")
    return Mapped(rows, outcomes)


# --- support vector machine --------------------------------------------------------------------------------
# The Newton method for Lagrangian support vector machines (Fung and Mangasarian), in the clear.
#
#     minimise  ν/2 · Σ c_i · (1 − d_i · (k_i·u − γ))₊²  +  ½ · (‖u‖² + γ²)
#
# over rows k_i with labels d_i of −1 or 1 and weights c_i. The objective is strongly convex and piecewise
# quadratic; steps use its generalised Hessian, and Armijo's rule makes them end.

_MOST_STEPS, _MOST_HALVINGS = 100, 40


def newton_svm(
    rows: Numbers, labels: Numbers, nu: float = 1.0, weights: Numbers | None = None
) -> tuple[Numbers, float]:
    """Return u and γ; a row is of class 1 where row·u > γ."""
    cost = nu * (np.ones(len(rows)) if weights is None else weights)
    extended = np.column_stack([rows, -np.ones(len(rows))])

    def short(at: Numbers) -> Numbers:
        return np.asarray(np.maximum(0.0, 1 - labels * (extended @ at)))

    def value(at: Numbers) -> float:
        return float(cost @ short(at) ** 2 / 2 + at @ at / 2)

    at = np.zeros(extended.shape[1])
    for _ in range(_MOST_STEPS):
        by = short(at)
        gradient = at - extended.T @ (cost * labels * by)
        if np.abs(gradient).max() < 1e-10 * (1 + cost.sum()):
            break
        inside = extended * (cost * (by > 0))[:, None]
        direction = -np.linalg.solve(np.eye(at.size) + inside.T @ extended, gradient)
        slope, now = float(gradient @ direction), value(at)
        for halving in range(_MOST_HALVINGS):
            if value(at + direction / 2**halving) <= now + 1e-4 * slope / 2**halving:
                break
        at = at + direction / 2**halving
    return at[:-1], float(at[-1])


# --- projection ---------------------------------------------------------------------------------------------

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
        return f"must be from 1 to {most}, below the columns of records ({counted}). Got {dimensions} instead."
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
    projections = [
        Projection(random_matrix(coin, rows, n), totals[n:] / counts, low, high, terms.kernel, 1 / n) for coin in coins
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


# --- site key -----------------------------------------------------------------------------------------------
# What a site keeps of a session whose records were mapped: the common matrix B, and how records become
# numbers.
#
# A model of mapped records says nothing of a new record without B. Every site keeps B in a file of its own,
# which only its owner may read; whoever has it and the mapped records has most of the records, so it never
# goes to the builder, into a model's file or into a log. The file names the session of its model: another
# session's B gives other numbers, and no error would show it.

Row = tuple[float, ...]


@dataclass(frozen=True)
class SiteKey:
    """One session's secret, the same at each of its sites."""

    session: str
    attributes: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]  # of the attributes that have categories
    matrix: tuple[Row, ...] = field(repr=False)
    means: Row = field(repr=False)
    low: Row = field(repr=False)
    high: Row = field(repr=False)
    kernel: Kernel
    width: float

    @classmethod
    def of(
        cls, session: str, attributes: tuple[str, ...], values: Mapping[str, tuple[str, ...]], projection: Projection
    ) -> SiteKey:
        """Return the key of a session in which records were mapped like this."""
        return cls(
            session=session,
            attributes=attributes,
            values={name: values[name] for name in attributes if name in values},
            matrix=tuple(tuple(row) for row in projection.matrix.tolist()),
            means=tuple(projection.means.tolist()),
            low=tuple(projection.low.tolist()),
            high=tuple(projection.high.tolist()),
            kernel=projection.kernel,
            width=projection.width,
        )

    def written(self) -> bytes:
        """Return the content of its file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    @classmethod
    def read(cls, data: bytes, source: str) -> SiteKey:
        """Read the content of a file; DataError, which quotes nothing of it, if it is none."""
        try:
            key: SiteKey = read_json(data, cls, source)
        except ParameterError:
            raise DataError.about(source, "this is no file of a site's matrix") from None
        rows = {len(row) for row in key.matrix} | {len(each) for each in (key.means, key.low, key.high)}
        if rows != {key.columns}:
            raise DataError.about(source, "its matrix does not fit its attributes")
        return key

    @property
    def columns(self) -> int:
        """How many numbers a record has: one for an attribute, or for each of its values but the first."""
        return sum(len(self.values[name]) - 1 if name in self.values else 1 for name in self.attributes)

    @property
    def projection(self) -> Projection:
        """How records are mapped."""
        return Projection(
            matrix=np.array(self.matrix),
            means=np.array(self.means),
            low=np.array(self.low),
            high=np.array(self.high),
            kernel=self.kernel,
            width=self.width,
        )

    def design(self, cells: Cells) -> Numbers:
        """Return records as numbers: each category but an attribute's first is a column of 0 and 1."""
        columns = []
        for name in self.attributes:
            if name not in self.values:
                columns.append(np.asarray(cells[name], np.float64))
                continue
            found, places = known_categories(name, cells[name], self.values[name])
            columns += [(found == value)[places].astype(np.float64) for value in self.values[name][1:]]
        return np.column_stack(columns)
