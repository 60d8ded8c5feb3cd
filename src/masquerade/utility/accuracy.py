"""Accuracy of classifiers that learn from a release: of its class, or of any attribute that is to be predicted.

Two models, as users have them: naive Bayes, and the decision tree of `classification.py`. Each learns from some records
of the release and is tested on others of it; the same on the original says what is lost. An attribute on a scale is
predicted by ranges of equal width, as the paper does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data import Continuum, Generalised, Schema, Table
from masquerade.engine import Rows, distinct_values, pair_counts, value_counts, weighted_counts, which_occur
from masquerade.errors import ParameterError
from masquerade.utility.classification import Classification, among, has_sklearn, raw_features, training_splits

# --- naive bayes --------------------------------------------------------------------------------------------
# Naive Bayes, as the papers use it: normal distributions of numbers, counts of categories, cross-validated.
#
# Written here because it is a page, mixes both kinds of features, and asks for no further package.

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Category:
    """A feature that takes one of a few values."""

    codes: NDArray[np.int32]
    n_codes: int

    def take(self, rows: Rows) -> Category:
        """Return the feature of these records."""
        return Category(self.codes[rows], self.n_codes)

    def log_likelihood(self, classes: NDArray[np.int32], n_classes: int, train: Rows, test: Rows) -> Numbers:
        """Return log P(value | class), one row per test record; values are counted once more than they occur."""
        counts = pair_counts(classes[train], self.codes[train], n_classes, self.n_codes) + 1.0
        logs: Numbers = np.log(counts / counts.sum(axis=1, keepdims=True))
        return logs.T[self.codes[test]]


@dataclass(frozen=True, eq=False)
class NumericFeature:
    """A feature on a scale; a class's values are normally distributed, no closer than a sixth of the mean gap."""

    values: Numbers

    def take(self, rows: Rows) -> NumericFeature:
        """Return the feature of these records."""
        return NumericFeature(self.values[rows])

    def log_likelihood(self, classes: NDArray[np.int32], n_classes: int, train: Rows, test: Rows) -> Numbers:
        """Return the logarithm of the density, one row per test record."""
        seen, of_class = self.values[train], classes[train]
        sizes = np.maximum(value_counts(of_class, n_classes), 1)
        means = weighted_counts(of_class, seen, n_classes) / sizes
        spreads = weighted_counts(of_class, (seen - means[of_class]) ** 2, n_classes) / sizes
        distinct, _ = distinct_values(seen)
        gap = (distinct[-1] - distinct[0]) / (distinct.size - 1) if distinct.size > 1 else 1.0
        deviations = np.maximum(np.sqrt(spreads), gap / 6)
        away = (self.values[test][:, np.newaxis] - means) / deviations
        logs: Numbers = -0.5 * away**2 - np.log(deviations)
        return logs


Feature = Category | NumericFeature


def raw_feature(table: Table, name: str) -> Feature:
    """Return an attribute as it is: numbers and dates on their scale."""
    if table.schema[name].kind == "categorical":
        coded = table.coded(name)
        return Category(coded.codes, max(len(coded.labels), 1))
    return NumericFeature(raw_features(table, name)[:, 0].astype(np.float64))


def released_feature(column: Generalised, ordered: bool) -> Feature:
    """Return an attribute as released: an interval (`ordered`) is the middle of the values that it may stand for."""
    if not ordered:
        return Category(column.codes, len(column.labels))
    last = column.hi - 1
    domain = column.domain
    if not isinstance(domain, Continuum):  # fixed intervals: by their order
        return NumericFeature(((column.lo + last) / 2)[column.codes])
    values = domain.values.astype(np.float64)
    places = np.concatenate([values[:1] - 1, values]) if domain.missing else values
    return NumericFeature(((places[column.lo] + places[last]) / 2)[column.codes])


def naive_bayes_accuracy(
    features: Sequence[Feature], classes: NDArray[np.int32], n_classes: int, splits: Sequence[tuple[Rows, Rows]]
) -> float:
    """Return the share of test records whose class is found, over all splits into training and test records."""
    right = tested = 0
    for train, test in splits:
        if not train.size or not test.size:
            continue
        log_odds = np.tile(np.log(value_counts(classes[train], n_classes) + 1.0), (test.size, 1))
        for feature in features:
            log_odds += feature.log_likelihood(classes, n_classes, train, test)
        right += int(np.count_nonzero(log_odds.argmax(axis=1) == classes[test]))
        tested += test.size
    return right / tested if tested else 0.0


# --- accuracy -----------------------------------------------------------------------------------------------

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
        found["tree"] = {"original": 1 - trees.base_error, "release": 1 - trees.integration_error(released)}
    return {model: {of: round(value, _DECIMALS) for of, value in figures.items()} for model, figures in found.items()}


def bayes_accuracy(
    table: Table, target: str, released: Iterable[Generalised], kept: Rows | None, splits: Sequence[tuple[Rows, Rows]]
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


# --- clustering ---------------------------------------------------------------------------------------------
# A release's utility for clustering: clusters found in it, judged by the original records that are in
# them.
#
# Clusters are found by k-means, once on the raw attributes and once on the released ones. Both are judged
# on the raw attributes, each scaled to lie between 0 and 1: **intra-cluster similarity** is 1 − the mean
# distance of a record from its cluster's centre, **inter-cluster dissimilarity** the mean distance of two
# centres; distances are divided by the largest that is possible. A release that keeps the structure has
# figures close to the original's.


_MOST_ROWS = 5_000  # as many show the structure
_MOST_CATEGORIES = 64
_STARTS, _MOST_ROUNDS = 5, 100
Points = NDArray[np.float64]


def clustering(table: Table, released: Sequence[Generalised], clusters: int, seed: int = 7) -> dict[str, object]:
    """Return both figures of this many clusters, of the `original` and of the `release`, which has all rows."""
    chosen = np.sort(np.random.default_rng(seed).permutation(len(table))[:_MOST_ROWS])
    few = min(clusters, chosen.size)
    raw = _points([raw_feature(table, column.name) for column in released])[chosen]
    kinds = [table.schema[column.name].kind for column in released]
    seen = _points(
        [released_feature(column, kind != "categorical") for column, kind in zip(released, kinds, strict=True)]
    )[chosen]
    return {
        "clusters": few,
        "original": _judged(raw, _clusters(raw, few, seed), few, len(released)),
        "release": _judged(raw, _clusters(seen, few, seed), few, len(released)),
    }


def _points(features: Sequence[Feature]) -> Points:
    """Return the records as points: numbers from 0 to 1, categories as corners at distance 1 from each other."""
    blocks = []
    for feature in features:
        if isinstance(feature, Category):
            codes = np.minimum(feature.codes, _MOST_CATEGORIES)
            corners = np.eye(min(feature.n_codes, _MOST_CATEGORIES + 1)) / np.sqrt(2)
            blocks.append(corners[codes])
        else:
            low, high = feature.values.min(), feature.values.max()
            blocks.append(((feature.values - low) / ((high - low) or 1.0))[:, np.newaxis])
    return np.hstack(blocks)


def _clusters(points: Points, clusters: int, seed: int) -> NDArray[np.int64]:
    """Return the cluster of each point: Lloyd's algorithm from seeded, far starts, the closest fit of a few."""
    fits = [_fit(points, clusters, np.random.default_rng([seed, start])) for start in range(_STARTS)]
    return min(fits, key=lambda fit: fit[0])[1]


def _fit(points: Points, clusters: int, random: np.random.Generator) -> tuple[float, NDArray[np.int64]]:
    """Return the sum of squared distances, rounded, and the labels; empty clusters stay empty."""
    centres = points[[random.integers(len(points))]]
    while len(centres) < clusters:  # k-means++: the next far from those there are
        nearest = _squares(points, centres).min(axis=1)
        if not nearest.any():
            break
        centres = np.vstack([centres, points[random.choice(len(points), p=nearest / nearest.sum())]])
    labels = np.zeros(len(points), np.int64)
    for _ in range(_MOST_ROUNDS):
        squares = _squares(points, centres)
        before, labels = labels, squares.argmin(axis=1)
        for at in np.flatnonzero(which_occur(labels, len(centres))):
            centres[at] = points[labels == at].mean(axis=0)
        if np.array_equal(before, labels):
            break
    return round(float(_squares(points, centres).min(axis=1).sum()), 9), labels


def _squares(points: Points, centres: Points) -> Points:
    """Return the squared distance of each point from each centre."""
    squares = (points**2).sum(axis=1)[:, np.newaxis] - 2 * points @ centres.T + (centres**2).sum(axis=1)
    far: Points = np.maximum(squares, 0.0)
    return far


def _judged(points: Points, labels: NDArray[np.int64], clusters: int, dimensions: int) -> dict[str, float]:
    sizes = value_counts(labels, clusters)
    sums = np.stack([weighted_counts(labels, column, clusters) for column in points.T], axis=1)
    centres = sums / np.maximum(sizes, 1)[:, np.newaxis]
    farthest = np.sqrt(dimensions)
    within = np.linalg.norm(points - centres[labels], axis=1).mean() / farthest
    there = centres[sizes > 0]
    apart = np.linalg.norm(there[:, np.newaxis] - there, axis=2)[np.triu_indices(len(there), 1)]
    between = float(apart.mean()) / farthest if apart.size else 0.0
    return {"intra_similarity": round(1 - float(within), _DECIMALS), "inter_dissimilarity": round(between, _DECIMALS)}
