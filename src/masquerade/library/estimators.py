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
from masquerade.library.learned_estimator import InferredEstimator, LearnedEstimator
from masquerade.library.model_file import read_model_file
from masquerade.library.survival_estimator import CoxRegression
from masquerade.methods import learning_methods, written_method
from masquerade.protocol.arrangement import PROVIDER
from masquerade.protocol.contract import EVERYBODY, Contract, Contribution
from masquerade.protocol.learn.method import LearningMethod
from masquerade.protocol.learn.methods import linear
from masquerade.protocol.learn.methods.id3 import Id3
from masquerade.protocol.learn.models.linear import LinearClassifier
from masquerade.protocol.learn.models.model import Cells, Classifier, Model
from masquerade.protocol.learn.models.survival import CoxSurvival

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
        found: NDArray[Any] = self.classes_[[place[label] for label in self._model.predict(cells)]]
        return found

    @property
    def _model(self) -> Classifier:
        check_is_fitted(self)
        assert isinstance(self.learned_.model, Classifier)
        return self.learned_.model

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
        assert isinstance(model, Classifier)
        own = {str(label): label for label in self.classes_.tolist()}
        kind = self.classes_.dtype
        other = kind.type if kind.kind in "iuf" else str  # how a label is written that only a peer has
        labels = [own[label] if label in own else other(label) for label in model.classes]
        self.classes_ = np.array(labels, kind if kind.kind in "iufb" else object)

    def _check_classes(self, target: NDArray[Any], *, alone: bool) -> None:
        """Raise ValueError where the model does not take this number of classes; peers may have further ones."""


class DecisionTree(_LearnedClassifier):
    """ID3 in the manner of scikit-learn. Every value is a category: give intervals in place of numbers."""

    _name = Id3.name

    def __init__(self, terms: int | None = None) -> None:
        self.terms = terms

    def _columns(self, checked: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return all columns as texts."""
        columns = super()._columns(checked)
        return {
            name: np.array([text_of(each) for each in column.tolist()], object)
            for name, column in columns.items()
        }

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803 # scikit-learn's name
        """Return 1 for the class that the tree says, and 0 for the others."""

        def chances(cells: Cells) -> NDArray[np.float64]:
            said: NDArray[np.bool_] = self._classes(cells)[:, None] == self.classes_[None, :]
            return said.astype(np.float64)

        return self._said(X, chances)


class _Linear(_LearnedClassifier):
    @property
    def _line(self) -> LinearClassifier:
        model = self._model
        assert isinstance(model, LinearClassifier)
        return model

    def _check_classes(self, target: NDArray[Any], *, alone: bool) -> None:
        """Insist on two classes."""
        if self.classes_.size > 2:
            kind = type_of_target(target)
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        if alone and self.classes_.size < 2:
            raise ValueError("two classes are needed; the records have 1 class")

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


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


_KINDS: tuple[Any, ...] = (DecisionTree, LogisticRegression, SupportVectorMachine, CoxRegression)


def load_model(path: str | Path) -> Any:
    """Load a model from the file that `masquerade learn` or `save` has written; DataError if it is none."""
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
    if isinstance(model, Classifier):
        loaded.classes_ = np.array(model.classes, object)
    assert isinstance(model, Classifier | CoxSurvival)
    names = list(model.attributes)
    loaded.feature_names_in_ = np.array(names, object)
    loaded.n_features_in_ = len(names)
    return loaded
