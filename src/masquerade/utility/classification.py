"""A release's utility for classification: the errors of a decision tree on unseen records.

The errors are those of secure data integration, §7:

    BE  base error          the raw table
    IE  integration error   the release: QID attributes generalised, the others raw
    UE  upper bound error   the raw table without the QID attributes
    SE  source error        the raw columns of one party alone

IE − BE is the cost of anonymity, UE − IE the gain of generalising over leaving the attributes out, and SE − IE
a party's gain from the others' data.

The tree splits by entropy and is pruned by cost and complexity: each leaf must save a number of bits in naming
the classes of the training records. That number is chosen for each error, by cross-validation on its training
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Generalised
from masquerade.data.table import Table
from masquerade.engine.counts import Counts, Rows
from masquerade.errors import ParameterError
from masquerade.utility.comparison import Comparison
from masquerade.utility.features import Features, raw_features, released_features
from masquerade.utility.pruning import pruned_labels

BITS_PER_LEAF = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 16.0, 24.0, 48.0)
_TUNING_FOLDS = 3
NEEDS_EXTRA = (
    "the errors of decision trees are left out: they need scikit-learn; "
    'install it with pip install "masquerade[mining]"'
)


def classification_errors(
    table: Table,
    comparison: Comparison,
    *,
    train: NDArray[np.bool_] | None = None,
    folds: int = 10,
    seed: int = 7,
    sources: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return `BE`, `UE`, `IE` and, per source (a party's name and its attributes), `SE`, as fractions of 1.

    `table` holds the kept input rows of the comparison; all its attributes are used, in a QID or not. `train`
    marks the training rows; without it, errors are cross-validated. To judge many releases of one table, reuse
    one `Classification`.
    """
    if comparison.classes is None:
        raise ParameterError("classification errors need a class attribute; the comparison has none")
    if len(table) != comparison.rows:
        raise ParameterError.about(
            table.origin.name, f"{len(table)} rows, but the comparison was made from {comparison.rows}"
        )
    task = Classification(table, comparison.classes.name, train=train, folds=folds, seed=seed)
    errors: dict[str, Any] = {
        "BE": task.base_error,
        "UE": task.upper_bound_error(column.name for column in comparison.released),
        "IE": task.integration_error(comparison.released, comparison.kept),
    }
    if sources is not None:
        errors["SE"] = {party: task.source_error(names) for party, names in sources.items()}
    return errors


class Classification:
    """A table, its class, and the records that train and test a tree; raw columns are prepared once."""

    def __init__(
        self,
        table: Table,
        target: str,
        *,
        train: NDArray[np.bool_] | None = None,
        folds: int = 10,
        seed: int = 7,
        bits_per_leaf: float | None = None,
        min_leaf: int = 5,
    ) -> None:
        """Prune by `bits_per_leaf`, or choose it if None; a leaf needs `min_leaf` training records."""
        _require_sklearn()
        self.table = table
        self.classes = table.coded(target).codes
        self.attributes = tuple(name for name in table.schema.names if name != target)
        self.seed = seed
        self.min_leaf = min_leaf
        self.splits = training_splits(len(table), train, folds, seed)
        self.bits_per_leaf = bits_per_leaf
        self._raw: dict[str, Features] = {}

    def tune(self, rows: Rows) -> None:
        """Choose the bits per leaf by these records, once for all errors and splits."""
        raw = self._together(self.raw(name) for name in self.attributes)
        self.bits_per_leaf = self._price(raw[rows], self.classes[rows])

    @cached_property
    def base_error(self) -> float:
        """Return BE: all attributes, raw."""
        return self.source_error(self.attributes)

    def upper_bound_error(self, qid: Iterable[str]) -> float:
        """Return UE: the QID attributes are left out."""
        hidden = set(qid)
        return self.source_error(name for name in self.attributes if name not in hidden)

    def source_error(self, attributes: Iterable[str]) -> float:
        """Return SE: only these attributes, raw."""
        return self._error(self._together(self.raw(name) for name in attributes), None)

    def integration_error(self, released: Iterable[Generalised], kept: Rows | None = None) -> float:
        """Return IE: generalised attributes as released, the others raw; suppressed rows are not used."""
        generalised = {column.name: column for column in released}
        blocks = []
        for name in self.attributes:
            if name in generalised:
                ordered = self.table.schema[name].kind != "categorical"
                blocks.append(released_features(generalised[name], ordered))
            else:
                blocks.append(self.raw(name) if kept is None else self.raw(name)[kept])
        return self._error(self._together(blocks), kept)

    def raw(self, name: str) -> Features:
        """Return an attribute's raw features."""
        if name not in self._raw:
            self._raw[name] = raw_features(self.table, name)
        return self._raw[name]

    def _together(self, blocks: Iterable[Features]) -> Features:
        columns = list(blocks)
        # Without attributes a tree can only predict the most frequent class.
        return np.hstack(columns) if columns else np.zeros((len(self.table), 1), np.float32)

    def _error(self, features: Features, kept: Rows | None) -> float:
        classes = self.classes if kept is None else self.classes[kept]
        wrong = tested = 0
        for train, test in self.splits:
            if kept is not None:
                train, test = among(kept, train), among(kept, test)
            if not train.size:
                raise ParameterError("classification errors: no training row is left in the release")
            if test.size:
                bits = self._price(features[train], classes[train])
                wrong += int(self._wrong(features, classes, train, test, [bits])[0])
                tested += test.size
        if not tested:
            raise ParameterError("classification errors: no test row is left in the release")
        return wrong / tested

    def _price(self, features: Features, classes: NDArray[np.int32]) -> float:
        """Choose the bits per leaf with the fewest cross-validated errors; the most bits on a tie."""
        if self.bits_per_leaf is not None:
            return self.bits_per_leaf
        most_first = BITS_PER_LEAF[::-1]
        if classes.size < _TUNING_FOLDS:
            return most_first[0]
        wrong = np.zeros(len(most_first), np.int64)
        for train, test in training_splits(classes.size, None, _TUNING_FOLDS, self.seed):
            wrong += self._wrong(features, classes, train, test, most_first)
        return most_first[int(np.argmin(wrong))]

    def _wrong(
        self, features: Features, classes: NDArray[np.int32], train: Rows, test: Rows, prices: Sequence[float]
    ) -> Counts:
        """Count the misclassified test records for each price of a leaf."""
        from sklearn.tree import DecisionTreeClassifier

        grown = DecisionTreeClassifier(
            criterion="entropy", min_samples_leaf=self.min_leaf, random_state=self.seed
        ).fit(features[train], classes[train])
        named = grown.classes_[pruned_labels(grown.tree_, prices)][grown.apply(features[test])]
        wrong: Counts = np.sum(named != classes[test, np.newaxis], axis=0)
        return wrong


def training_splits(
    n_rows: int, train: NDArray[np.bool_] | None, folds: int, seed: int
) -> list[tuple[Rows, Rows]]:
    """Return the training and test rows: as marked, or for each fold."""
    if train is not None:
        marked = np.asarray(train, bool)
        if marked.shape != (n_rows,) or marked.all() or not marked.any():
            raise ParameterError(
                f"The train parameter must mark some but not all of the {n_rows} rows as training rows. "
                f"Got {np.count_nonzero(marked)} of {marked.size} instead."
            )
        return [(np.flatnonzero(marked), np.flatnonzero(~marked))]
    if not 2 <= folds <= n_rows:
        raise ParameterError(
            f"The folds parameter must be a whole number from 2 to the {n_rows} rows. Got {folds} instead."
        )
    fold_of_row = np.random.default_rng(seed).permutation(n_rows) % folds
    return [
        (np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)) for fold in range(folds)
    ]


def among(kept: Rows, rows: Rows) -> Rows:
    """Return the positions of the given input rows among the released ones, skipping suppressed rows."""
    return np.flatnonzero(np.isin(kept, rows))


def has_sklearn() -> bool:
    """Return whether decision trees can be grown: the extra `mining` is installed."""
    return find_spec("sklearn") is not None


def _require_sklearn() -> None:
    if not has_sklearn():
        raise ParameterError(
            'classification errors need scikit-learn; install it with pip install "masquerade[mining]", '
            "or leave them out (--folds 0)"
        )
