"""The models of `learn` in the manner of scikit-learn: `fit`, `predict`, `predict_proba`, and files to load them from.

    model = mq.LogisticRegression().fit(patients[["age", "dose"]], patients["outcome"])
    model.predict(others); model.save("model.json"); mq.load_model("model.json")

`fit` learns from the records at hand. Several sites learn together by `fit_together`, each with its own records and its
channels to the others, or by `masquerade learn`. Needs the extra `learn`.
"""

from __future__ import annotations

import secrets
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from masquerade.arrangement import PROVIDER
from masquerade.data import Attribute, Schema, Table
from masquerade.engine import distinct_values
from masquerade.errors import BadInput, DataError
from masquerade.files import PRIVATE, write_whole
from masquerade.jobs import SITE_KEY, read_model_file, read_site_key
from masquerade.methods import learning_methods, written_method
from masquerade.net import Channel, run_script
from masquerade.protocol import (
    ASSEMBLER,
    EVERYBODY,
    Asked,
    BayesNetMethod,
    Cells,
    Classifier,
    Coefficient,
    Contract,
    Contribution,
    CoxRegressionMethod,
    CoxSurvival,
    Id3,
    Inference,
    InferenceRow,
    Learned,
    LearningMethod,
    LinearClassifier,
    LogisticModel,
    LogisticRegressionMethod,
    MappedCox,
    MappedMethod,
    MappedSvm,
    Model,
    NetModel,
    Participant,
    PpCoxMethod,
    PpSvmMethod,
    Role,
    SiteKey,
    SupportVectors,
    alone_at,
    concordance,
    predictions,
    unseen_of,
    unseen_values,
)

# --- estimator columns --------------------------------------------------------------------------------------
# The columns of an estimator's records: numbers as numbers, all else as texts.


def column_of(cells: NDArray[Any]) -> NDArray[Any]:
    """Return cells as numbers, or where some are none, as texts."""
    if cells.dtype.kind in "fiub":
        return cells.astype(np.float64)
    texts = [text_of(each) for each in cells.tolist()]
    try:
        return cells.astype(np.float64)
    except ValueError:
        return np.array(texts, object)


def text_of(cell: Any) -> str:
    """Write a cell as a table's text: whole numbers without `.0`."""
    if isinstance(cell, dict | list):
        raise TypeError(f"argument must be a string or a number, not {type(cell).__name__}")
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


# --- learned estimator --------------------------------------------------------------------------------------
# What all models in the manner of scikit-learn have in common: learning alone and with peers, columns, the
# file.

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:  # pragma: no cover # the extra is installed wherever tests run
    raise ImportError("models in Python need scikit-learn: pip install 'masquerade[learn]'") from error

_CLASS = "class"


class LearnedEstimator(BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """A model that is learned by a method of the registry. `learned_` has the model, its metrics and curves."""

    _name: ClassVar[str]  # of its method
    _outcomes: ClassVar[Mapping[str, Role]] = {}  # columns other than a class that are predicted, by name
    learned_: Learned

    def fit(self, X: Any, y: ArrayLike) -> Self:
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
        self, X: Any, y: ArrayLike, *, name: str, channels: Mapping[str, Channel], session: str
    ) -> Self:
        """Learn from these records and those of peers with the same columns, who call the same.

        `name` is ours, `channels` lead to the peers by their names, `session` is a text that all know and use once.
        """
        parties = tuple(sorted({name, *channels} - {ASSEMBLER}))
        table, contract = self._prepared(X, y, parties, session)
        method = self._method()
        participant = Participant(name, contract, table, keep=self._keep)
        model = await run_script(method.among_parties(participant), channels)
        self._take(model)
        roles = {name: name for name in self._outcomes or (_CLASS,)}
        self.learned_ = Learned(method.settings(), model, roles, parties, len(table), {}, session=contract.hash.hex())
        return self

    def save(self, path: str | Path) -> None:
        """Write the model's file."""
        check_is_fitted(self)
        write_whole(Path(path), self.learned_.file())

    def _method(self) -> LearningMethod:
        return learning_methods()[self._name](**self.get_params())

    def _prepared(self, X: Any, y: ArrayLike, parties: tuple[str, ...], session: str) -> tuple[Table, Contract]:
        """Return the records as a table, and the contract over them."""
        checked, outcome = self._checked(X, y, alone=len(parties) == 1)
        cells = self._columns(checked)
        texts = {name for name, column in cells.items() if column.dtype == object}
        schema = Schema([Attribute(name) if name in texts else Attribute(name, "continuous") for name in cells])
        roles: dict[str, Role] = {**dict.fromkeys(cells, "attribute"), **self._outcomes}
        contract = Contract(
            parties,
            tuple(Contribution(name, EVERYBODY, role) for name, role in roles.items()),
            (),
            written_method(self._method()),
            class_name=None if self._outcomes else _CLASS,
            provider=PROVIDER,
            nonce=session,
        )
        columns = {name: pa.array(column.tolist()) for name, column in cells.items()} | outcome
        return Table(pa.table(columns), schema), contract

    @abstractmethod
    def _checked(self, X: Any, y: ArrayLike, *, alone: bool) -> tuple[NDArray[Any], dict[str, pa.Array]]:
        """Return valid records, and the columns of their outcome; peers may have further classes, unless `alone`."""

    def _keep(self, session: str, kept: bytes) -> None:
        """Keep what this site needs to use the model, and nobody else may have."""

    def _take(self, model: Model) -> None:
        """Note what follows from a model that was learned with peers."""

    @property
    def _asked(self) -> Asked:
        """What the model needs besides records."""
        return Asked()

    def _said(self, X: Any, say: Callable[[Cells], NDArray[Any]]) -> NDArray[Any]:
        """Return what `say` makes of the records; where the model has never seen a value, NaN or None, and warn."""
        check_is_fitted(self)
        cells = self._columns(validate_data(self, X, dtype=None, reset=False))
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
        X: Any,
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

    def _answer(self, X: Any, column: str) -> NDArray[Any]:
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


# --- survival estimator -------------------------------------------------------------------------------------
# Cox regression in the manner of scikit-learn: `fit`, `predict`, `predict_survival_function`.
#
#     model = mq.CoxRegression().fit(patients[["age", "dose"]], patients[["months", "died"]])
#     model.predict_survival_function(others, times=[12, 24])
#
# The outcome has two columns: how long a record was seen, and whether until the event.


class _Survival(LearnedEstimator):
    _outcomes: ClassVar[Mapping[str, Role]] = {"duration": "duration", "event": "event"}

    def score(self, X: Any, y: ArrayLike) -> float:
        """Return the concordance."""
        durations, events = _outcome(y)
        return concordance(self.predict(X), durations, events)

    @abstractmethod
    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of each record's hazard, relative to that of an average one."""

    def _checked(self, X: Any, y: ArrayLike, *, alone: bool) -> tuple[NDArray[Any], dict[str, pa.Array]]:
        checked = validate_data(self, X, dtype=None)
        durations, events = _outcome(y)
        if len(checked) != len(durations):
            raise ValueError(f"{len(checked)} records have {len(durations)} outcomes")
        return checked, {"duration": pa.array(durations), "event": pa.array(events.astype(int))}


class CoxRegression(InferredEstimator, _Survival):
    """Cox regression, unpenalised unless `ridge` is set, ties as Efron counts them.

    `learned_` has the model, its metrics and curves.
    """

    _name = CoxRegressionMethod.name

    def __init__(
        self,
        unit: float | None = None,
        survival_error: float = 0.005,
        baseline_step: float | None = None,
        ridge: float = 0.0,
        min_records: int = 10,
    ) -> None:
        self.unit = unit
        self.survival_error = survival_error
        self.baseline_step = baseline_step
        self.ridge = ridge
        self.min_records = min_records

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of each record's hazard, relative to that of an average one."""
        return self._said(X, self._model.risks)

    def predict_survival_function(self, X: Any, times: Sequence[float] | None = None) -> NDArray[np.float64]:
        """Return each record's chance to be without the event after each time, [records, times].

        Without `times`, those of the model's baseline.
        """
        wanted = [time for time, _ in self._model.baseline] if times is None else times
        return self._said(X, lambda cells: self._model.survival(cells, wanted))

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The coefficients in the order of the columns, those of categories one after the other."""
        return _flat(self._model.coefficients)

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
        self, dimensions: int | None = None, kernel: str = "linear", candidates: int = 1, weighting: str = "equal"
    ) -> None:
        self.dimensions = dimensions
        self.kernel = kernel
        self.candidates = candidates
        self.weighting = weighting

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithm of each record's hazard, relative to that of an average one."""
        return self._answer(X, "risk")

    def predict_survival_function(self, X: Any, times: Sequence[float] | None = None) -> NDArray[np.float64]:
        """Return each record's chance to be without the event after each time, as `CoxRegression` does."""
        check_is_fitted(self)
        model, key = self.learned_.model, self.site_key_
        assert isinstance(model, MappedCox)
        here = replace(model, projection=key.projection)
        wanted = [time for time, _ in model.baseline] if times is None else times
        return self._said(X, lambda cells: here.survival(key.design(cells), wanted))


def _flat(coefficients: Mapping[str, Coefficient]) -> NDArray[np.float64]:
    """Return the coefficients one after the other, without the categories that others differ from."""
    flat: list[float] = []
    for each in coefficients.values():
        flat += list(each.values())[1:] if isinstance(each, dict) else [each]
    return np.array(flat)


def _outcome(y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return durations and events from two columns, or from a structured array of two fields in this order."""
    found = np.asarray(y)
    if found.dtype.names is not None:
        found = np.column_stack([found[name] for name in found.dtype.names])
    found = found.astype(np.float64)
    if found.ndim != 2 or found.shape[1] != 2:
        raise ValueError("the outcome must have two columns: how long a record was seen, and whether until the event")
    if not np.isin(found[:, 1], (0.0, 1.0)).all():
        raise ValueError("events must be 1 or 0, or true or false")
    return found[:, 0], found[:, 1] > 0


# --- estimators ---------------------------------------------------------------------------------------------


class _LearnedClassifier(ClassifierMixin, LearnedEstimator):  # type: ignore[misc] # scikit-learn has no types
    """What the classifiers have in common."""

    classes_: NDArray[Any]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return each record's class; None, or NaN of numbers, where the model has never seen one of its values."""
        return self._said(X, self._classes)

    def _classes(self, cells: Cells) -> NDArray[Any]:
        place = {str(label): at for at, label in enumerate(self.classes_)}
        said = predictions(self.learned_.model, cells, self._asked)["prediction"]
        found: NDArray[Any] = self.classes_[[place[label] for label in said]]
        return found

    def _checked(self, X: Any, y: ArrayLike, *, alone: bool) -> tuple[NDArray[Any], dict[str, pa.Array]]:
        checked, target = validate_data(self, X, y, dtype=None)
        check_classification_targets(target)
        self.classes_, _ = distinct_values(target)
        self._check_classes(target, alone=alone)
        return checked, {_CLASS: pa.array([str(label) for label in target.tolist()])}

    def _take(self, model: Model) -> None:
        own = {str(label): label for label in self.classes_.tolist()}
        kind = self.classes_.dtype
        other = kind.type if kind.kind in "iuf" else str  # how a label is written that only a peer has
        labels = [own[label] if label in own else other(label) for label in _classes_of(model, _CLASS)]
        self.classes_ = np.array(labels, kind if kind.kind in "iufb" else object)

    def _check_classes(self, target: NDArray[Any], *, alone: bool) -> None:
        """Raise ValueError where the model does not take this number of classes; peers may have further ones."""


class _OfCategories(_LearnedClassifier):
    def _columns(self, checked: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return all columns as texts."""
        columns = super()._columns(checked)
        return {name: np.array([text_of(each) for each in column.tolist()], object) for name, column in columns.items()}


class DecisionTree(_OfCategories):
    """ID3 in the manner of scikit-learn. Every value is a category: give intervals in place of numbers.

    Fewer than `min_records` people are no node of their own, and a column that nearly numbers them is refused.
    """

    _name = Id3.name

    def __init__(self, terms: int | None = None, min_records: int = 10) -> None:
        self.terms = terms
        self.min_records = min_records

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return 1 for the class that the tree says, and 0 for the others."""

        def chances(cells: Cells) -> NDArray[np.float64]:
            said: NDArray[np.bool_] = self._classes(cells)[:, None] == self.classes_[None, :]
            return said.astype(np.float64)

        return self._said(X, chances)


class BayesNet(_OfCategories):
    """A Bayes net in the manner of scikit-learn, whose class is `y`. Every value is a category, as of a tree.

    Values are equally likely in a row of fewer than `min_records` people; columns are refused as of a tree.
    """

    _name = BayesNetMethod.name

    def __init__(self, parents: int = 2, terms: int | None = None, min_records: int = 10) -> None:
        self.parents = parents
        self.terms = terms
        self.min_records = min_records

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class."""
        check_is_fitted(self)
        model, target = self.learned_.model, self.learned_.roles[_CLASS]
        assert isinstance(model, NetModel)
        return self._said(X, lambda cells: model.chances(target, cells))

    @property
    def _asked(self) -> Asked:
        return Asked(target=self.learned_.roles[_CLASS])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of numbers, each of which is a category
        return tags


class _OfTwoClasses(_LearnedClassifier):
    def _check_classes(self, target: NDArray[Any], *, alone: bool) -> None:
        """Insist on two classes."""
        if self.classes_.size > 2:
            kind = type_of_target(target)
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        if alone and self.classes_.size < 2:
            raise ValueError("two classes are needed; the records have 1 class")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class _Linear(_OfTwoClasses):
    @property
    def _line(self) -> LinearClassifier:
        check_is_fitted(self)
        assert isinstance(self.learned_.model, LinearClassifier)
        return self.learned_.model

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The coefficients in the order of the columns, those of categories one after the other."""
        return _flat(self._line.coefficients)[None, :]

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """The intercept."""
        return np.array([self._line.intercept])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return each record's sum; above 0 it is the second class."""
        return self._said(X, self._line.scores)


class LogisticRegression(InferredEstimator, _Linear):
    """Logistic regression in the manner of scikit-learn, unpenalised unless `ridge` is set."""

    _name = LogisticRegressionMethod.name

    def __init__(self, ridge: float = 0.0, min_records: int = 10) -> None:
        self.ridge = ridge
        self.min_records = min_records

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the chance of each class."""

        def chances(cells: Cells) -> NDArray[np.float64]:
            positive = self._line.chances(cells)
            return np.column_stack([1 - positive, positive])

        return self._said(X, chances)


class SupportVectorMachine(_Linear):
    """A linear support vector machine in the manner of scikit-learn."""

    _name = SupportVectors.name

    def __init__(self, nu: float = 1.0, min_records: int = 10) -> None:
        self.nu = nu
        self.min_records = min_records


class PpSvm(MappedEstimator, _OfTwoClasses):
    """Mangasarian and Wild's support vector machine of records that the sites map by a matrix of their own.

    Its builder sees the mapped records, and their classes. `SupportVectorMachine` shows less, and is exact.
    """

    _name = PpSvmMethod.name

    def __init__(
        self,
        nu: float = 1.0,
        dimensions: int | None = None,
        kernel: str = "linear",
        candidates: int = 1,
        weighting: str = "equal",
    ) -> None:
        self.nu = nu
        self.dimensions = dimensions
        self.kernel = kernel
        self.candidates = candidates
        self.weighting = weighting

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return each record's sum; above 0 it is the second class."""
        return self._answer(X, "score")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # the matrix is drawn by the system's randomness
        return tags


_KINDS: tuple[Any, ...] = (
    DecisionTree,
    BayesNet,
    LogisticRegression,
    SupportVectorMachine,
    PpSvm,
    CoxRegression,
    PpCox,
)


def load_model(path: str | Path, site_key: str | Path | None = None) -> Any:
    """Load a model from the file that `masquerade learn` or `save` has written; DataError if it is none.

    A model of mapped records needs what a site keeps: `site_key`, by default the file that `save` puts beside it.
    """
    learned = read_model_file(path)
    algorithm, model = learned.algorithm, learned.model
    kind = next((each for each in _KINDS if each._name == algorithm["name"]), None)
    if kind is None:
        known = ", ".join(each._name for each in _KINDS)
        text = f'there is no model of "{algorithm["name"]}" in Python; those of {known} are'
        raise DataError.about(Path(path).name, text)
    known_settings = {key: value for key, value in algorithm.items() if key in kind._get_param_names()}
    loaded = kind(**known_settings)
    loaded.learned_ = learned
    if isinstance(loaded, MappedEstimator):
        kept = Path(path).with_suffix(SITE_KEY) if site_key is None else Path(site_key)
        loaded.site_key_ = read_site_key(learned, path, kept)
        names = list(loaded.site_key_.attributes)
    elif isinstance(model, NetModel):
        if _CLASS not in learned.roles:
            text = "the net was learned without a class; masquerade.predict takes the attribute to predict"
            raise DataError.about(Path(path).name, text)
        names = [name for name in model.parents if name != learned.roles[_CLASS]]
    else:
        assert isinstance(model, Classifier | CoxSurvival)
        names = list(model.attributes)
    if _CLASS in learned.roles or isinstance(model, Classifier):
        loaded.classes_ = np.array(_classes_of(model, learned.roles.get(_CLASS, "")), object)
    loaded.feature_names_in_ = np.array(names, object)
    loaded.n_features_in_ = len(names)
    return loaded


def _classes_of(model: Model, target: str) -> tuple[str, ...]:
    """Return the classes that a model tells apart."""
    if isinstance(model, NetModel):
        return model.values(target)
    assert isinstance(model, Classifier | MappedSvm)
    return model.classes
