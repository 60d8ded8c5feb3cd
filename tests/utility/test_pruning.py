"""Pruning a grown tree for many prices at once, against scikit-learn's pruning for one price at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.tree import DecisionTreeClassifier

from examples import examples
from masquerade.utility.classification import pruned_labels

PRICES = [0.013, 0.73, 2.17, 5.31, 17.9, 1e6]  # no tree of small counts has a subtree that costs exactly as much


@given(st.integers(0, 10_000), st.integers(20, 120), st.integers(2, 4))
@settings(deadline=None, max_examples=examples(30))
def test_as_scikit_learn_prunes(seed: int, rows: int, n_classes: int) -> None:
    random = np.random.default_rng(seed)
    features = random.integers(0, 12, (rows, 3)).astype(np.float32)
    signal = (features[:, 0] // 4).astype(np.int64) % n_classes
    classes = np.where(random.random(rows) < 0.7, signal, random.integers(0, n_classes, rows))
    grown = DecisionTreeClassifier(criterion="entropy", random_state=0).fit(features, classes)
    labels = pruned_labels(grown.tree_, PRICES)
    for column, price in enumerate(PRICES):
        pruned = DecisionTreeClassifier(criterion="entropy", random_state=0, ccp_alpha=price / rows)
        named = grown.classes_[labels[grown.apply(features), column]]
        assert named.tolist() == pruned.fit(features, classes).predict(features).tolist()


def test_free_leaves_keep_the_tree_and_dear_ones_leave_the_root() -> None:
    features = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]], np.float32)
    classes = np.array([0, 1, 0, 1, 1])
    grown = DecisionTreeClassifier(criterion="entropy", random_state=0).fit(features, classes)
    labels = pruned_labels(grown.tree_, [1e-9, 1e9])[grown.apply(features)]
    assert labels[:, 0].tolist() == classes.tolist()
    assert labels[:, 1].tolist() == [1] * 5


@pytest.mark.parametrize(("price", "splits"), [(3.9, True), (4.1, False)])
def test_a_leaf_must_save_its_price(price: float, splits: bool) -> None:
    # Four records, two of each class: naming them takes 4 bits, and none once they are split.
    features = np.array([[0.0], [0.0], [1.0], [1.0]], np.float32)
    grown = DecisionTreeClassifier(criterion="entropy", random_state=0).fit(features, [0, 0, 1, 1])
    named = pruned_labels(grown.tree_, [price])[grown.apply(features), 0]
    assert named.tolist() == ([0, 0, 1, 1] if splits else [0, 0, 0, 0])
