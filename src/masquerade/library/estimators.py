"""The models of `learn` in the manner of scikit-learn: `fit`, `predict`, `predict_proba`, and files to load them from.

    model = mq.LogisticRegression().fit(patients[["age", "dose"]], patients["outcome"])
    model.predict(others); model.save("model.json"); mq.load_model("model.json")

`fit` learns from the records at hand. Several sites learn together by `fit_together`, each with its own records and its
channels to the others, or by `masquerade learn`. Needs the extra `learn`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.engine.numbering import distinct_values
from masquerade.errors import DataError
from masquerade.library.estimator_columns import attribute_of, text_of
from masquerade.library.learned_estimator import InferredEstimator, LearnedEstimator, MappedEstimator
from masquerade.library.model_file import SITE_KEY, read_model_file, read_site_key
from masquerade.library.survival_estimator import CoxRegression, PpCox
from masquerade.methods import learning_methods, written_method
from masquerade.protocol.arrangement import PROVIDER
from masquerade.protocol.contract import EVERYBODY, Contract, Contribution
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.methods import linear
from masquerade.protocol.learn.methods.bayes_net import BayesNet as NetMethod
from masquerade.protocol.learn.methods.id3 import Id3
from masquerade.protocol.learn.methods.projected import PpSvm as PpSvmMethod
from masquerade.protocol.learn.models.linear import LinearClassifier
from masquerade.protocol.learn.models.model import Cells, Classifier, Model
from masquerade.protocol.learn.models.net import NetModel
from masquerade.protocol.learn.models.projected import MappedSvm
from masquerade.protocol.learn.models.survival import CoxSurvival
from masquerade.protocol.learn.predicting import Asked, predictions

try:
    from sklearn.base import ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:  # pragma: no cover # the extra is installed wherever tests run
    raise ImportError("models in Python need scikit-learn: pip install 'masquerade[learn]'") from error

_CLASS = "class"


class _LearnedClassifier(ClassifierMixin, LearnedEstimator):  # type: ignore[misc] # scikit-learn has no types
    """What the classifiers have in common."""

    classes_: NDArray[Any]

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803 # scikit-learn's name
        """Return each record's class; None, or NaN of numbers, where the model has never seen one of its values."""
        return self._said(X, self._classes)

    def _classes(self, cells: Cells) -> NDArray[Any]:
        place = {str(label): at for at, label in enumerate(self.classes_)}
        said = predictions(self.learned_.model, cells, self._asked)["prediction"]
        found: NDArray[Any] = self.classes_[[place[label] for label in said]]
        return found

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
        checked, target = validate_data(self, X, y, dtype=None)
        check_classification_targets(target)
        self.classes_, _ = distinct_values(target)
        self._check_classes(target, alone=len(parties) == 1)
        cells = self._columns(checked)
        method = self._method()
        schema = Schema([attribute_of(name, column) for name, column in cells.items()])
        columns = {name: pa.array(column.tolist()) for name, column in cells.items()}
        columns[_CLASS] = pa.array([str(label) for label in target.tolist()])
        contributions = tuple(Contribution(name, EVERYBODY, "attribute") for name in cells)
        contract = Contract(
            parties,
            contributions,
            (),
            written_method(method),
            class_name=_CLASS,
            provider=PROVIDER,
            nonce=session,
        )
        return Table(pa.table(columns), schema), contract

    def _roles(self) -> dict[str, str]:
        return {_CLASS: _CLASS}

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
        return {
            name: np.array([text_of(each) for each in column.tolist()], object)
            for name, column in columns.items()
        }


class DecisionTree(_OfCategories):
    """ID3 in the manner of scikit-learn. Every value is a category: give intervals in place of numbers."""

    _name = Id3.name

    def __init__(self, terms: int | None = None) -> None:
        self.terms = terms

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 # scikit-learn's name
        """Return 1 for the class that the tree says, and 0 for the others."""

        def chances(cells: Cells) -> NDArray[np.float64]:
            said: NDArray[np.bool_] = self._classes(cells)[:, None] == self.classes_[None, :]
            return said.astype(np.float64)

        return self._said(X, chances)


class BayesNet(_OfCategories):
    """A Bayes net in the manner of scikit-learn, whose class is `y`. Every value is a category, as of a tree."""

    _name = NetMethod.name

    def __init__(self, parents: int = 2, terms: int | None = None) -> None:
        self.parents = parents
        self.terms = terms

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 # scikit-learn's name
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
        flat: list[float] = []
        for each in self._line.coefficients.values():
            flat += list(each.values())[1:] if isinstance(each, dict) else [each]
        return np.array([flat])

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """The intercept."""
        return np.array([self._line.intercept])

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 # scikit-learn's name
        """Return each record's sum; above 0 it is the second class."""
        return self._said(X, self._line.scores)


class LogisticRegression(InferredEstimator, _Linear):
    """Logistic regression in the manner of scikit-learn, unpenalised unless `ridge` is set."""

    _name = linear.LogisticRegression.name

    def __init__(self, ridge: float = 0.0) -> None:
        self.ridge = ridge

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 # scikit-learn's name
        """Return the chance of each class."""

        def chances(cells: Cells) -> NDArray[np.float64]:
            positive = self._line.chances(cells)
            return np.column_stack([1 - positive, positive])

        return self._said(X, chances)


class SupportVectorMachine(_Linear):
    """A linear support vector machine in the manner of scikit-learn."""

    _name = linear.SupportVectors.name

    def __init__(self, nu: float = 1.0) -> None:
        self.nu = nu


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

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 # scikit-learn's name
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
