"""What all models in the manner of scikit-learn have in common: learning alone and with peers, columns, the file."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from masquerade.data.table import Table
from masquerade.errors import BadInput
from masquerade.files import write_whole
from masquerade.library.estimator_columns import column_of
from masquerade.net.channel import Channel
from masquerade.net.session import run_script
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn.frame import alone_at
from masquerade.protocol.learn.learned import Learned
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.models.inference import Inference, InferenceRow
from masquerade.protocol.learn.models.linear import LogisticModel
from masquerade.protocol.learn.models.model import Cells, Model
from masquerade.protocol.learn.models.survival import CoxSurvival
from masquerade.protocol.learn.predicting import Asked, unseen_of, unseen_values
from masquerade.protocol.method import Seat

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:  # pragma: no cover # the extra is installed wherever tests run
    raise ImportError("models in Python need scikit-learn: pip install 'masquerade[learn]'") from error


class LearnedEstimator(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """A model that is learned by a method of the registry. `learned_` has the model, its metrics and curves."""

    _name: ClassVar[str]  # of its method
    learned_: Learned

    def fit(self, X: Any, y: ArrayLike) -> Self:  # noqa: N803 # scikit-learn's name
        """Learn from these records."""
        table, contract = self._prepared(X, y, ("here",))
        method = self._method()
        try:
            self.learned_ = method.learned_alone(alone_at(method, contract, table))
        except BadInput as error:
            raise ValueError("; ".join(error.lines)) from error
        return self

    async def fit_together(
        self,
        X: Any,  # noqa: N803 # scikit-learn's name
        y: ArrayLike,
        *,
        name: str,
        channels: Mapping[str, Channel],
        session: str,
    ) -> Self:
        """Learn from these records and those of peers with the same columns, who call the same.

        `name` is ours, `channels` lead to the peers by their names, `session` is a text that all know and use once.
        """
        parties = tuple(sorted((name, *channels)))
        table, contract = self._prepared(X, y, parties, session)
        method = self._method()
        model = await run_script(method.among_parties(Seat(name, contract, table)), channels)
        self._take(model)
        self.learned_ = Learned(method.settings(), model, self._roles(), parties, len(table), {})
        return self

    def save(self, path: str | Path) -> None:
        """Write the model's file."""
        check_is_fitted(self)
        write_whole(Path(path), self.learned_.file())

    @abstractmethod
    def _method(self) -> LearningMethod:
        """Return the method with the estimator's parameters."""

    @abstractmethod
    def _prepared(
        self,
        X: Any,  # noqa: N803 # scikit-learn's name
        y: ArrayLike,
        parties: tuple[str, ...],
        session: str = "",
    ) -> tuple[Table, Contract]:
        """Return the records as a table, and the contract over them."""

    @abstractmethod
    def _roles(self) -> dict[str, str]:
        """Return the columns of the outcome by their roles."""

    def _take(self, model: Model) -> None:
        """Note what follows from a model that was learned with peers."""

    def _cells(self, X: Any) -> Cells:  # noqa: N803 # scikit-learn's name
        check_is_fitted(self)
        return self._columns(validate_data(self, X, dtype=None, reset=False))

    @property
    def _asked(self) -> Asked:
        """What the model needs besides records."""
        return Asked()

    def _said(self, X: Any, say: Callable[[Cells], NDArray[Any]]) -> NDArray[Any]:  # noqa: N803 # scikit-learn's name
        """Return what `say` makes of the records; where the model has never seen a value, NaN or None, and warn."""
        cells = self._cells(X)
        unseen = unseen_of(self.learned_.model, cells, self._asked)
        if not unseen:
            return say(cells)
        for each in unseen_values(unseen, cells):
            warnings.warn(each.warning(), stacklevel=3)
        known = ~np.logical_or.reduce(list(unseen.values()))
        said = say({name: np.asarray(column)[known] for name, column in cells.items()})
        kind, nothing = (np.float64, np.nan) if said.dtype.kind in "iuf" else (object, None)
        found: NDArray[Any] = np.full((known.size, *said.shape[1:]), nothing, kind)
        found[known] = said
        return found

    def _columns(self, checked: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the columns by name: numbers as numbers, all else as texts."""
        names = [str(each) for each in getattr(self, "feature_names_in_", ())]
        names = names or [f"x{at}" for at in range(checked.shape[1])]
        return {name: column_of(checked[:, at]) for at, name in enumerate(names)}


class InferredEstimator(LearnedEstimator):
    """A model whose coefficients have standard errors. Those of arrays are in the order of `coef_`.

    With a ridge they are conditional on it, and so are z, p and bounds.
    """

    @property
    def inference_(self) -> pa.Table:
        """A row for each coefficient, the intercept's first: standard error, z, p and 95 % bounds."""
        return pa.Table.from_pylist([{"coefficient_of": row.label, **row.as_json()} for row in self._rows])

    @property
    def standard_errors_(self) -> NDArray[np.float64]:
        """The coefficients' standard errors."""
        return np.array([each.standard_error for each in self._inferences])

    @property
    def z_values_(self) -> NDArray[np.float64]:
        """The coefficients in standard errors."""
        return np.array([each.z for each in self._inferences], np.float64)

    @property
    def p_values_(self) -> NDArray[np.float64]:
        """How likely a coefficient so far from 0 is where it is 0."""
        return np.array([each.p for each in self._inferences], np.float64)

    @property
    def confidence_intervals_(self) -> NDArray[np.float64]:
        """The coefficients' 95 % bounds, [coefficients, 2]."""
        return np.array([(each.lower_95, each.upper_95) for each in self._inferences]).reshape(-1, 2)

    @property
    def _rows(self) -> tuple[InferenceRow, ...]:
        check_is_fitted(self)
        model = self.learned_.model
        assert isinstance(model, LogisticModel | CoxSurvival)
        if not model.inference:
            raise AttributeError("the model's file is of before standard errors were told; learn it again")
        return model.inference

    @property
    def _inferences(self) -> list[Inference]:
        return [row.inference for row in self._rows if row.attribute is not None and not row.is_reference]
