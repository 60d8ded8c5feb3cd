"""Naive Bayes, as the papers use it: normal distributions of numbers, counts of categories, cross-validated.

Written here because it is a page, mixes both kinds of features, and asks for no further package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Coded, Generalised
from masquerade.data.continuum import Continuum
from masquerade.data.table import Table
from masquerade.engine.counts import Rows, pair_counts, value_counts, weighted_counts
from masquerade.engine.numbering import distinct_values
from masquerade.utility.features import raw_features

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
class Number:
    """A feature on a scale; a class's values are normally distributed, no closer than a sixth of the mean gap."""

    values: Numbers

    def take(self, rows: Rows) -> Number:
        """Return the feature of these records."""
        return Number(self.values[rows])

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


Feature = Category | Number


def raw_feature(table: Table, name: str) -> Feature:
    """Return an attribute as it is: numbers and dates on their scale."""
    if table.schema[name].kind == "categorical":
        return _category(table.coded(name))
    return Number(raw_features(table, name)[:, 0].astype(np.float64))


def released_feature(column: Generalised, ordered: bool) -> Feature:
    """Return an attribute as released: an interval (`ordered`) is the middle of the values that it may stand for."""
    if not ordered:
        return Category(column.codes, len(column.labels))
    last = column.hi - 1
    domain = column.domain
    if not isinstance(domain, Continuum):  # fixed intervals: by their order
        return Number(((column.lo + last) / 2)[column.codes])
    values = domain.values.astype(np.float64)
    places = np.concatenate([values[:1] - 1, values]) if domain.missing else values
    return Number(((places[column.lo] + places[last]) / 2)[column.codes])


def _category(coded: Coded) -> Category:
    return Category(coded.codes, max(len(coded.labels), 1))


def naive_bayes_accuracy(
    features: Sequence[Feature],
    classes: NDArray[np.int32],
    n_classes: int,
    splits: Sequence[tuple[Rows, Rows]],
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
