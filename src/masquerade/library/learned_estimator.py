"""What all models in the manner of scikit-learn have in common: learning alone and with peers, columns, the file."""

from __future__ import annotations

import secrets
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from masquerade.data.table import Table
from masquerade.errors import BadInput
from masquerade.files import PRIVATE, write_whole
from masquerade.library.estimator_columns import column_of
from masquerade.library.model_file import SITE_KEY
from masquerade.net.channel import Channel
from masquerade.net.session import run_script
from masquerade.protocol.contract import Contract
from masquerade.protocol.learn.frame import alone_at
from masquerade.protocol.learn.learned import Learned
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.methods.projected import MappedMethod
from masquerade.protocol.learn.models.inference import Inference, InferenceRow
from masquerade.protocol.learn.models.linear import LogisticModel
from masquerade.protocol.learn.models.model import Cells, Model
from masquerade.protocol.learn.models.survival import CoxSurvival
from masquerade.protocol.learn.predicting import Asked, predictions, unseen_of, unseen_values
from masquerade.protocol.learn.site_key import SiteKey
from masquerade.protocol.method import ASSEMBLER, Seat

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
        table, contract = self._prepared(X, y, ("here",), secrets.token_hex(16))
        method = self._method()
        try:
            site = alone_at(method, contract, table)
            learned = method.learned_alone(site)
        except BadInput as error:
            raise ValueError("; ".join(error.lines)) from error
        self.learned_ = replace(learned, session=contract.hash.hex())
        if (kept := method.kept(site, learned.model)) is not None:
            self._keep(contract.hash.hex(), kept)
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
        parties = tuple(sorted({name, *channels} - {ASSEMBLER}))
        table, contract = self._prepared(X, y, parties, session)
        method = self._method()
        seat = Seat(name, contract, table, keep=self._keep)
        model = await run_script(method.among_parties(seat), channels)
        self._take(model)
        self.learned_ = Learned(
            method.settings(),
            model,
            self._roles(),
            parties,
            len(table),
            {},
            session=contract.hash.hex(),
        )
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

    def _keep(self, session: str, kept: bytes) -> None:
        """Keep what this site needs to use the model, and nobody else may have."""

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


class MappedEstimator(LearnedEstimator):
    """A model of mapped records: in `site_key_` is the sites' common matrix, without which it says nothing.

    Who builds it is none of the sites, and never has that matrix: it calls `build_together` on an estimator with the
    same parameters, while the sites call `fit_together`.
    """

    site_key_: SiteKey

    async def fit_together(
        self,
        X: Any,  # noqa: N803 # scikit-learn's name
        y: ArrayLike,
        *,
        name: str,
        channels: Mapping[str, Channel],
        session: str,
        builder: str = "builder",
    ) -> Self:
        """Learn from these records and those of peers with the same columns, who call the same.

        `name` is ours, `channels` lead to the peers and to the builder by their names, of which `builder` is one;
        `session` is a text that all know and use once.
        """
        if builder not in channels:
            raise ValueError(f'no channel leads to the builder, "{builder}"; there are {", ".join(channels)}')
        others = {ASSEMBLER if peer == builder else peer: channel for peer, channel in channels.items()}
        return await super().fit_together(X, y, name=name, channels=others, session=session)

    async def build_together(self, *, channels: Mapping[str, Channel]) -> None:
        """Build the model of the sites to which the channels lead: receive their mapped records, send it to all."""
        method = self._method()
        assert isinstance(method, MappedMethod)
        await run_script(method.built_for(tuple(sorted(channels))), channels)

    def save(self, path: str | Path) -> None:
        """Write the model's file, and beside it the site's matrix, which only its owner may read."""
        super().save(path)
        write_whole(Path(path).with_suffix(SITE_KEY), self.site_key_.written(), PRIVATE)

    def _keep(self, session: str, kept: bytes) -> None:
        self.site_key_ = SiteKey.read(kept, "the site's matrix")

    @property
    def _asked(self) -> Asked:
        return Asked(key=self.site_key_)

    def _answer(self, X: Any, column: str) -> NDArray[Any]:  # noqa: N803 # scikit-learn's name
        """Return one of the columns that `predict` writes."""
        check_is_fitted(self)
        return self._said(X, lambda cells: predictions(self.learned_.model, cells, self._asked)[column])


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
