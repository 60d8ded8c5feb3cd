"""Cox regression in the manner of scikit-learn: `fit`, `predict`, `predict_survival_function`.

    model = mq.CoxRegression().fit(patients[["age", "dose"]], patients[["months", "died"]])
    model.predict_survival_function(others, times=[12, 24])

The outcome has two columns: how long a record was seen, and whether until the event.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.library.estimator_columns import attribute_of
from masquerade.library.learned_estimator import InferredEstimator, LearnedEstimator, MappedEstimator
from masquerade.methods import learning_methods, written_method
from masquerade.protocol.arrangement import PROVIDER
from masquerade.protocol.contract import EVERYBODY, Contract, Contribution, Role
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.methods.projected import PpCox as PpCoxMethod
from masquerade.protocol.learn.methods.survival import CoxRegression as CoxMethod
from masquerade.protocol.learn.models.projected import MappedCox
from masquerade.protocol.learn.models.survival import CoxSurvival
from masquerade.protocol.learn.ranking import concordance

try:
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:  # pragma: no cover # the extra is installed wherever tests run
    raise ImportError("models in Python need scikit-learn: pip install 'masquerade[learn]'") from error

_OUTCOME: dict[str, Role] = {"duration": "duration", "event": "event"}


class _Survival(LearnedEstimator):
    def score(self, X: Any, y: ArrayLike) -> float:  # noqa: N803 # scikit-learn's name
        """Return the concordance."""
        durations, events = _outcome(y)
        return concordance(self.predict(X), durations, events)

    @abstractmethod
    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 # scikit-learn's name
        """Return the logarithm of each record's hazard, relative to that of an average one."""

    def _roles(self) -> dict[str, str]:
        return dict(_OUTCOME)

    def _method(self) -> LearningMethod:
        return learning_methods()[self._name](**self.get_params())

    def _prepared(
        self,
        X: Any,  # noqa: N803 # scikit-learn's name
        y: ArrayLike,
        parties: tuple[str, ...],
        session: str = "",
    ) -> tuple[Table, Contract]:
        """Return the records as a table, and the contract over them."""
        checked = validate_data(self, X, dtype=None)
        durations, events = _outcome(y)
        if len(checked) != len(durations):
            raise ValueError(f"{len(checked)} records have {len(durations)} outcomes")
        cells = self._columns(checked)
        columns = {name: pa.array(column.tolist()) for name, column in cells.items()}
        columns |= {"duration": pa.array(durations), "event": pa.array(events.astype(int))}
        roles: dict[str, Role] = {**dict.fromkeys(cells, "attribute"), **_OUTCOME}
        contract = Contract(
            parties,
            tuple(Contribution(name, EVERYBODY, role) for name, role in roles.items()),
            (),
            written_method(self._method()),
            provider=PROVIDER,
            nonce=session,
        )
        schema = Schema([attribute_of(name, column) for name, column in cells.items()])
        return Table(pa.table(columns), schema), contract


class CoxRegression(InferredEstimator, _Survival):
    """Cox regression, unpenalised unless `ridge` is set, ties as Efron counts them.

    `learned_` has the model, its metrics and curves.
    """

    _name = CoxMethod.name

    def __init__(
        self,
        unit: float | None = None,
        survival_error: float = 0.005,
        baseline_step: float | None = None,
        ridge: float = 0.0,
    ) -> None:
        self.unit = unit
        self.survival_error = survival_error
        self.baseline_step = baseline_step
        self.ridge = ridge

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 # scikit-learn's name
        """Return the logarithm of each record's hazard, relative to that of an average one."""
        return self._said(X, self._model.risks)

    def predict_survival_function(
        self,
        X: Any,  # noqa: N803 # scikit-learn's name
        times: Sequence[float] | None = None,
    ) -> NDArray[np.float64]:
        """Return each record's chance to be without the event after each time, [records, times].

        Without `times`, those of the model's baseline.
        """
        wanted = [time for time, _ in self._model.baseline] if times is None else times
        return self._said(X, lambda cells: self._model.survival(cells, wanted))

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The coefficients in the order of the columns, those of categories one after the other."""
        flat: list[float] = []
        for each in self._model.coefficients.values():
            flat += list(each.values())[1:] if isinstance(each, dict) else [each]
        return np.array(flat)

    @property
    def _model(self) -> CoxSurvival:
        check_is_fitted(self)
        assert isinstance(self.learned_.model, CoxSurvival)
        return self.learned_.model


class PpCox(MappedEstimator, _Survival):
    """Cox regression of records that the sites map by a matrix of their own, by lifelines.

    Its builder sees the mapped records, durations and events. `CoxRegression` shows less, and is exact.
    """

    _name = PpCoxMethod.name

    def __init__(
        self,
        dimensions: int | None = None,
        kernel: str = "linear",
        candidates: int = 1,
        weighting: str = "equal",
    ) -> None:
        self.dimensions = dimensions
        self.kernel = kernel
        self.candidates = candidates
        self.weighting = weighting

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 # scikit-learn's name
        """Return the logarithm of each record's hazard, relative to that of an average one."""
        return self._answer(X, "risk")

    def predict_survival_function(
        self,
        X: Any,  # noqa: N803 # scikit-learn's name
        times: Sequence[float] | None = None,
    ) -> NDArray[np.float64]:
        """Return each record's chance to be without the event after each time, as `CoxRegression` does."""
        check_is_fitted(self)
        model, key = self.learned_.model, self.site_key_
        assert isinstance(model, MappedCox)
        here = replace(model, projection=key.projection)
        wanted = [time for time, _ in model.baseline] if times is None else times
        return self._said(X, lambda cells: here.survival(key.design(cells), wanted))


def _outcome(y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return durations and events from two columns, or from a structured array of two fields in this order."""
    found = np.asarray(y)
    if found.dtype.names is not None:
        found = np.column_stack([found[name] for name in found.dtype.names])
    found = found.astype(np.float64)
    if found.ndim != 2 or found.shape[1] != 2:
        raise ValueError(
            "the outcome must have two columns: how long a record was seen, and whether until the event"
        )
    if not np.isin(found[:, 1], (0.0, 1.0)).all():
        raise ValueError("events must be 1 or 0, or true or false")
    return found[:, 0], found[:, 1] > 0
