"""Accuracy of classifiers and clusters on a release beside the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.naive_bayes import CategoricalNB, GaussianNB

import masquerade as mq
from masquerade.anonymize import anonymised
from masquerade.jobs import evaluate
from masquerade.utility import Measurer, accuracy, naive_bayes_accuracy, prediction_task, training_splits
from masquerade.utility.accuracy import Category, NumericFeature, equal_width

N = 200
RANDOM = np.random.default_rng(5)
CLASSES = np.arange(N) % 2
FRAME = pa.table(
    {
        "age": np.round(RANDOM.normal(40 + 12 * CLASSES, 5)).astype(int),
        "height": np.round(RANDOM.normal(170, 9, N)).astype(int),
        "job": [("clerk", "miner", "nurse")[at % 3] for at in range(N)],
        "class": [("no", "yes")[each] for each in CLASSES],
    }
)
SCHEMA = mq.Schema(
    [mq.Attribute("age", "continuous"), mq.Attribute("height", "continuous"), mq.Attribute("job", taxonomy="flat")]
)
TABLE = mq.Table(FRAME, SCHEMA)
QID = SCHEMA.names


def figures(k: int, **options: Any) -> dict[str, Any]:
    release = mq.anonymize(TABLE, mq.KAnonymity(QID, k), mq.Mondrian("class", "information-gain"), order="input")
    return evaluate(TABLE, release.table, mq.KAnonymity(QID, k), "class", queries=0, folds=5, **options)


def test_what_is_not_generalised_is_as_accurate_as_the_original() -> None:
    found = evaluate(TABLE, FRAME, mq.KAnonymity(["job"], 1), "class", queries=0, folds=5)
    for model in ("naive_bayes", "tree"):
        assert found["accuracy"][model]["release"] == found["accuracy"][model]["original"] > 0.8
    assert found["accuracy"]["tree"]["original"] == pytest.approx(1 - found["classification"]["BE"], abs=1e-4)


def test_a_release_of_one_group_knows_the_most_frequent_class_alone() -> None:
    found = figures(N)["accuracy"]
    assert found["naive_bayes"]["release"] <= 0.55 < 0.8 < found["naive_bayes"]["original"]
    assert figures(5)["accuracy"]["naive_bayes"]["release"] > 0.75


def test_attributes_are_predicted_by_the_others() -> None:
    found = figures(5, predict=["age", "job"])["prediction"]
    assert set(found) == {"age", "job"}
    assert found["job"]["naive_bayes"]["original"] < 0.5  # nothing tells it
    with pytest.raises(mq.ParameterError, match="agee"):
        figures(5, predict=["agee"])


def test_ranges_of_equal_width() -> None:
    assert equal_width(np.array([0.0, 2.4, 2.6, 5.0, 10.0]), 4).tolist() == [0, 0, 1, 2, 3]
    assert equal_width(np.array([3.0, 3.0]), 4).tolist() == [0, 0]
    task = prediction_task(TABLE, "age", 3)
    assert task.coded("age").labels == ("0", "1", "2")
    assert "age" not in task.schema.names


def test_clusters_of_the_original_and_of_a_release_that_lost_everything() -> None:
    kept, lost = figures(3, clusters=3)["clustering"], figures(N, clusters=3)["clustering"]
    assert kept["original"] == lost["original"]
    assert kept["clusters"] == 3
    assert kept["release"]["intra_similarity"] > lost["release"]["intra_similarity"]
    assert lost["release"]["inter_dissimilarity"] == 0  # one cluster


def test_the_error_of_naive_bayes_counts_suppressed_rows() -> None:
    made = anonymised(TABLE, mq.KAnonymity(QID, 60), mq.TopDownSpecialization("class", suppression=0.4))
    found = Measurer(made.table, "class").figure("naive_bayes_error", made.comparison)
    assert found is not None
    assert found >= made.comparison.suppressed / N
    assert Measurer(made.table).figure("naive_bayes_error", made.comparison) is None


def test_without_the_extra_there_is_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "has_sklearn", lambda: False)
    assert set(accuracy.accuracies(TABLE, "class", (), folds=3)) == {"naive_bayes"}


# --- naive bayes ---
# Naive Bayes against scikit-learn's, and what it finds.

CHANCE = np.random.default_rng(3)
THIRDS = (np.arange(400) % 3).astype(np.int32)
SPLITS = training_splits(400, None, 10, 7)


def test_numbers_as_in_scikit_learn() -> None:
    values = np.stack([CHANCE.normal(THIRDS, 1.0), CHANCE.normal(0, 1 + THIRDS)], axis=1)
    right = 0
    for train, test in SPLITS:
        right += int((GaussianNB().fit(values[train], THIRDS[train]).predict(values[test]) == THIRDS[test]).sum())
    ours = naive_bayes_accuracy([NumericFeature(values[:, 0]), NumericFeature(values[:, 1])], THIRDS, 3, SPLITS)
    assert ours == pytest.approx(right / 400, abs=0.006)  # priors are smoothed here


def test_categories_as_in_scikit_learn() -> None:
    codes = (THIRDS + CHANCE.integers(0, 2, 400)).astype(np.int32)
    right = 0
    for train, test in SPLITS:
        model = CategoricalNB(min_categories=4).fit(codes[train, None], THIRDS[train])
        right += int((model.predict(codes[test, None]) == THIRDS[test]).sum())
    assert naive_bayes_accuracy([Category(codes, 4)], THIRDS, 3, SPLITS) == pytest.approx(right / 400, abs=0.006)


@pytest.mark.parametrize("features", [[], [NumericFeature(np.full(40, 5.0))]], ids=["none", "a constant"])
def test_without_telling_features_the_most_frequent_class_is_told(features: list[NumericFeature]) -> None:
    classes = np.array([0] * 30 + [1] * 10, np.int32)
    assert naive_bayes_accuracy(features, classes, 2, training_splits(40, None, 4, 7)) == 0.75
