"""Accuracy of classifiers that learn from a release: of its class, or of any attribute that is to be predicted.

Two models, as users have them: naive Bayes, and the decision tree of `classification.py`. Each learns from some records
of the release and is tested on others of it; the same on the original says what is lost. An attribute on a scale is
predicted by ranges of equal width, as the paper does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.column import Generalised
from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.engine.counts import Rows
from masquerade.errors import ParameterError
from masquerade.utility.classification import Classification, among, has_sklearn, training_splits
from masquerade.utility.features import raw_features
from masquerade.utility.naive_bayes import Feature, naive_bayes_accuracy, raw_feature, released_feature

RANGES = 10  # of an attribute on a scale that is predicted
_DECIMALS = 4


def accuracies(
    table: Table,
    target: str,
    released: Sequence[Generalised],
    *,
    train: NDArray[np.bool_] | None = None,
    folds: int = 10,
    seed: int = 7,
) -> dict[str, dict[str, float]]:
    """Return by model the accuracy on the `original` and on the `release`, which has all rows of the table.

    Without the extra `mining` there is no tree.
    """
    splits = training_splits(len(table), train, folds, seed)
    found = {
        "naive_bayes": {
            "original": bayes_accuracy(table, target, (), None, splits),
            "release": bayes_accuracy(table, target, released, None, splits),
        }
    }
    if has_sklearn():
        trees = Classification(table, target, train=train, folds=folds, seed=seed)
        found["tree"] = {
            "original": 1 - trees.base_error,
            "release": 1 - trees.integration_error(released),
        }
    return {
        model: {of: round(value, _DECIMALS) for of, value in figures.items()}
        for model, figures in found.items()
    }


def bayes_accuracy(
    table: Table,
    target: str,
    released: Iterable[Generalised],
    kept: Rows | None,
    splits: Sequence[tuple[Rows, Rows]],
) -> float:
    """Return the accuracy of naive Bayes: some attributes as released, the others raw, suppressed rows left out."""
    classes = table.coded(target)
    generalised = {column.name: column for column in released}
    features: list[Feature] = []
    for name in table.schema.names:
        if name in generalised:
            ordered = table.schema[name].kind != "categorical"
            features.append(released_feature(generalised[name], ordered))
        elif name != target:
            raw = raw_feature(table, name)
            features.append(raw if kept is None else raw.take(kept))
    codes = classes.codes
    if kept is not None:
        codes = codes[kept]
        splits = [(among(kept, train), among(kept, test)) for train, test in splits]
    return naive_bayes_accuracy(features, codes, max(len(classes.labels), 1), splits)


def prediction_task(table: Table, name: str, ranges: int = RANGES) -> Table:
    """Return the table with an attribute as its class: its values, or ranges of equal width of its numbers."""
    attribute = table.schema[name]
    others = Schema([each for each in table.schema if each.name != name], table.schema.identifiers)
    cells = table.cells(name)
    if attribute.kind != "categorical":
        numbers = raw_features(table, name)[:, 0].astype(np.float64)
        if not numbers.size:
            raise ParameterError(f"{table.origin.name}: no record to predict {name} of")
        cells = pa.chunked_array([pa.array([str(part) for part in equal_width(numbers, ranges)])])
    place = table.arrow.column_names.index(name)
    return Table(table.arrow.set_column(place, name, cells), others, origin=table.origin)


def equal_width(numbers: NDArray[np.float64], ranges: int) -> NDArray[np.int64]:
    """Return the range of each number, where `ranges` of equal width cover all of them."""
    low, high = float(numbers.min()), float(numbers.max())
    width = (high - low) / ranges or 1.0
    return np.minimum(((numbers - low) / width).astype(np.int64), ranges - 1)
