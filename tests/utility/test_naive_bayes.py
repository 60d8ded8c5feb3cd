"""Naive Bayes against scikit-learn's, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from masquerade.utility import naive_bayes_accuracy, training_splits
from masquerade.utility.accuracy import Category, NumericFeature

RANDOM = np.random.default_rng(3)
CLASSES = (np.arange(400) % 3).astype(np.int32)
SPLITS = training_splits(400, None, 10, 7)


def test_numbers_as_in_scikit_learn() -> None:
    values = np.stack([RANDOM.normal(CLASSES, 1.0), RANDOM.normal(0, 1 + CLASSES)], axis=1)
    right = 0
    for train, test in SPLITS:
        right += int((GaussianNB().fit(values[train], CLASSES[train]).predict(values[test]) == CLASSES[test]).sum())
    ours = naive_bayes_accuracy([NumericFeature(values[:, 0]), NumericFeature(values[:, 1])], CLASSES, 3, SPLITS)
    assert ours == pytest.approx(right / 400, abs=0.006)  # priors are smoothed here


def test_categories_as_in_scikit_learn() -> None:
    codes = (CLASSES + RANDOM.integers(0, 2, 400)).astype(np.int32)
    right = 0
    for train, test in SPLITS:
        model = CategoricalNB(min_categories=4).fit(codes[train, None], CLASSES[train])
        right += int((model.predict(codes[test, None]) == CLASSES[test]).sum())
    assert naive_bayes_accuracy([Category(codes, 4)], CLASSES, 3, SPLITS) == pytest.approx(right / 400, abs=0.006)


def test_without_features_the_most_frequent_class_is_told() -> None:
    classes = np.array([0] * 30 + [1] * 10, np.int32)
    assert naive_bayes_accuracy([], classes, 2, training_splits(40, None, 4, 7)) == 0.75


def test_a_constant_tells_nothing_and_breaks_nothing() -> None:
    classes = np.array([0] * 30 + [1] * 10, np.int32)
    constant = NumericFeature(np.full(40, 5.0))
    assert naive_bayes_accuracy([constant], classes, 2, training_splits(40, None, 4, 7)) == 0.75
