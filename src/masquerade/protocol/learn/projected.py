"""PP-SVM and PP-Cox: a builder that is no site fits a model to records that the sites have mapped by their common B.

    site → builder    each record's K(x, B'), with its label, or with its duration and whether it ended by death
    builder → sites   the model: coefficients in the mapped space, and an intercept or a baseline hazard

Who learns what: the builder every mapped record, from which site it is, and **its label or survival, in the clear** (D
is public in the paper, and so it is here); not B, nor how attributes are normalised. The sites learn the model, and of
each other's records the means, smallest and largest values (`projection.py`). They apply the model to new records by
themselves: score(x) = K(x, B')·u. A site and the builder together know B and all sites' mapped records, and thereby
mostly the records (tests/attacks/test_projected_records.py): this is as safe as the builder is apart from all sites.
The models of securely aggregated sums (`linear_models.py`, `cox.py`) show no mapped record to anybody.

A site that sends other records than it has gets a model of these; one that sends rows of another shape, or numbers that
are none, is named.

Cost: 8·m̄ + 16 bytes a record.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from masquerade.errors import AnswerIsNo, ParameterError, PeerBrokeProtocol
from masquerade.net.script import Message, Receive, Script, Send
from masquerade.protocol.learn.newton_svm import newton_svm
from masquerade.protocol.learn.ranking import area_under_curve, concordance

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
    rows, outcomes = (
        np.ascontiguousarray(each, "<f8").tobytes() for each in (records.rows, records.outcomes)
    )
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
    frame = pd.DataFrame(records.rows @ basis).assign(
        duration=records.outcomes[:, 0], died=records.died, weight=each
    )
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
        tuple(map(float, u)),
        at_mean,
        tuple(map(float, hazard.index)),
        tuple(map(float, hazard.to_numpy())),
        weights,
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
    return Mapped(
        np.concatenate([each.rows for each in some]), np.concatenate([each.outcomes for each in some])
    )


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
