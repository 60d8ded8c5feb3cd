"""Logistic regression and linear support vector machines as methods (`protocol/learn/linear_models.py`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from masquerade.crypto.rings import Elements
from masquerade.errors import DataError
from masquerade.forms.declared import parameter
from masquerade.forms.rules import number
from masquerade.net.script import Script
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn.aggregate import AddsUp, alone, prepare_aggregation
from masquerade.protocol.learn.binary_figures import binary_metrics, binned_counts
from masquerade.protocol.learn.frame import result_of
from masquerade.protocol.learn.identified import Columns
from masquerade.protocol.learn.linear_models import (
    LinearModel,
    Logistic,
    Loss,
    Progress,
    SquaredHinge,
    linear_model,
)
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.models.linear import (
    LinearClassifier,
    LogisticModel,
    SupportVectorModel,
)
from masquerade.protocol.learn.models.model import Model, Numbers
from masquerade.protocol.learn.site import Site


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
        return (yield from self._fitted(site, sums))

    def alone(self, site: Site) -> Model:
        """Take the same steps on one table."""
        model: Model = result_of(self._fitted(site, alone()))
        return model

    def _fitted(self, site: Site, sums: AddsUp) -> Script[Model]:
        x, y = design(site), np.where(outcomes(site, self.name), 1.0, -1.0)
        progress, columns = site.memory.setdefault("progress", Progress()), columns_of(site)
        found = yield from linear_model(site.me, site.parties, sums, x, y, self.loss, progress, columns)
        return self._model(found, site.classes)

    def _model(self, found: LinearModel, classes: tuple[str, ...]) -> LinearClassifier:
        return self.learns(found.determined.by_attribute(found.coefficients), found.intercept, *classes)

    def counts(self, site: Site, model: Model) -> Script[Elements]:
        """Count the scores of this site's records."""
        yield from ()
        assert isinstance(model, LinearClassifier)
        return binned_counts(model.chances(site.cells()), outcomes(site, self.name))

    def metrics(
        self, model: Model, n_records: int, counts: Sequence[int]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
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
class LogisticRegression(LinearMethod):
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
        number(0),
        0.0,
        help="the weight of the squared coefficients of standardised attributes; 0: unpenalised",
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
    """A linear support vector machine of n sites with the same columns, that of the pooled records.

    Mangasarian and Musicant's squared hinge loss, by Newton's method on sums over all sites. Attributes are
    standardised for it; the coefficients are given in their own units.
    """

    name = "svm"
    summary = "a linear support vector machine; n sites learn the sums of each step, and no summand"
    learns = SupportVectorModel

    nu: float = parameter(
        number(0, open_low=True), 1.0, help="the weight of records on the wrong side of the margin"
    )

    @property
    def loss(self) -> Loss:
        """The squared hinge loss, with its margin."""
        return SquaredHinge(self.nu)


def design(site: Site) -> Numbers:
    """Return this site's records as numbers: each category but an attribute's first is a column of 0 and 1."""
    columns = []
    for name, cells in site.cells().items():
        if name in site.values:
            columns += [
                (site.codes(name) == at).astype(np.float64) for at in range(1, len(site.values[name]))
            ]
        else:
            columns.append(np.asarray(cells, np.float64))
    return np.column_stack(columns) if columns else np.zeros((len(site.table), 0))


def columns_of(site: Site) -> Columns:
    """Return what the columns of `design` stand for."""
    return Columns(
        site.attributes, {name: site.values[name] for name in site.attributes if name in site.values}
    )


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
