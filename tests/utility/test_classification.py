"""Classification errors: on tables whose answer is known, and on Adult against known figures."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from adult import NAMES, TOP5, TOP7, TOP9, TRAINING_ROWS, adult
from examples import examples
from masquerade.anonymize import TopDownSpecialization
from masquerade.data import Attribute, Generalised, Schema, Table, Taxonomy
from masquerade.errors import ParameterError
from masquerade.privacy import KAnonymity
from masquerade.utility import (
    Comparison,
    classification as release_error_module,
    classification_errors,
    compare,
    release_error,
)
from masquerade.utility.classification import SPLITS, Classification, pruned_labels, raw_features, released_features

ROWS = 600
TRAIN = np.arange(ROWS) % 3 != 0


@pytest.fixture(scope="module")
def table() -> Table:
    """The class is "y" for red and blue, a fifth of the rows, and for them alone; `noise` says nothing."""
    random = np.random.default_rng(1)
    colour = random.choice(["red", "green", "blue", "grey", "pink"], ROWS, p=[0.1, 0.3, 0.1, 0.25, 0.25])
    noise = random.integers(0, 1000, ROWS)
    label = np.where(np.isin(colour, ["red", "blue"]), "y", "n")
    schema = Schema([Attribute("colour", taxonomy="flat"), Attribute("noise", "continuous")])
    return Table(pa.table({"colour": colour, "noise": noise, "label": label}), schema)


def release(table: Table, colours: list[str] | None = None) -> Comparison:
    """The table beside itself, with the colours released as given."""
    cells = table.arrow if colours is None else table.arrow.set_column(0, "colour", pa.array(colours))
    return compare(table, cells, ["colour"], "label")


def rare(table: Table, rows: NDArray[np.intp] | NDArray[np.bool_]) -> float:
    """The error of who always names the frequent class."""
    return float((np.array(table.cells("label").to_pylist())[rows] == "y").mean())


def test_the_class_follows_from_the_raw_attributes_and_not_from_what_is_left(table: Table) -> None:
    errors = classification_errors(
        table, release(table, ["*"] * ROWS), train=TRAIN, sources={"painter": ["colour"], "nobody": ["noise"]}
    )
    frequent_class = rare(table, ~TRAIN)
    assert errors["BE"] == 0
    assert errors["UE"] == errors["SE"]["nobody"] == frequent_class
    assert errors["IE"] == errors["UE"]  # a colour of "*" is a colour left out
    assert errors["SE"]["painter"] == 0


def test_a_release_that_generalises_nothing_classifies_like_the_original(table: Table) -> None:
    errors = classification_errors(table, release(table), train=TRAIN)
    assert errors["IE"] == errors["BE"] == 0
    assert "SE" not in errors


def test_cross_validation_tests_every_row_once(table: Table) -> None:
    errors = classification_errors(table, release(table, ["*"] * ROWS), folds=4)
    assert errors["BE"] == 0
    assert errors["IE"] == pytest.approx(rare(table, np.arange(ROWS)), abs=0.01)
    task = Classification(table, "label", folds=7)
    assert sorted(row for _, test in task.splits for row in test) == list(range(ROWS))
    assert all(not set(train) & set(test) and len(train) + len(test) == ROWS for train, test in task.splits)


def test_without_any_attribute_the_most_frequent_class_is_named(table: Table) -> None:
    task = Classification(table, "label", train=TRAIN)
    assert task.upper_bound_error(["colour", "noise"]) == rare(table, ~TRAIN)


def test_suppressed_rows_neither_train_nor_test(table: Table) -> None:
    whole = release(table)
    # The colours are told apart only in the rows that stay; those left out would be misjudged.
    wrong = np.arange(ROWS) % 5 == 0
    codes = np.where(wrong, 0, whole.released[0].codes).astype(np.int32)
    kept = np.flatnonzero(~wrong)
    column = whole.released[0]
    task = Classification(table, "label", train=TRAIN)

    def with_codes(codes: NDArray[np.int32]) -> Generalised:
        return Generalised(column.name, codes, column.labels, column.lo, column.hi, column.domain)

    assert task.integration_error([with_codes(codes)]) > 0.01
    assert task.integration_error([with_codes(codes[kept])], kept) == 0


def test_pruning_leaves_no_leaf_for_noise(table: Table) -> None:
    unpruned = Classification(table, "label", train=TRAIN, bits_per_leaf=1e-9)
    chosen = Classification(table, "label", train=TRAIN)
    assert unpruned.source_error(["noise"]) > chosen.source_error(["noise"]) + 0.03


def test_the_same_seed_gives_the_same_errors(table: Table) -> None:
    grey = ["*" if colour in ("red", "grey") else colour for colour in table.cells("colour").to_pylist()]
    first, second = (classification_errors(table, release(table, grey), folds=3, seed=5) for _ in range(2))
    assert first == second
    assert 0 < first["IE"] < first["UE"]


def test_bad_parameters(table: Table) -> None:
    with pytest.raises(ParameterError, match="need a class attribute"):
        classification_errors(table, compare(table, table, ["colour"]))
    with pytest.raises(ParameterError, match=r"train parameter must mark some but not all of the 600 rows.*Got 600"):
        Classification(table, "label", train=np.ones(ROWS, bool))
    with pytest.raises(ParameterError, match=r"folds parameter must be a whole number from 2 to the 600 rows\. Got 1"):
        Classification(table, "label", folds=1)
    with pytest.raises(ParameterError, match="10 rows, but the comparison was made from 600"):
        classification_errors(Table(table.arrow.slice(0, 10), table.schema), release(table))
    task = Classification(table, "label", train=TRAIN)
    kept = np.flatnonzero(~TRAIN)
    with pytest.raises(ParameterError, match="no training row is left"):
        task.integration_error([], kept)


def test_without_scikit_learn_the_extra_is_named(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ParameterError, match=r'pip install "masquerade\[mining\]"'):
        Classification(table, "label")


def test_features_of_raw_columns() -> None:
    schema = Schema(
        [
            Attribute("colour"),  # in no QID: it has no taxonomy
            Attribute("age", "continuous", taxonomy=Taxonomy.flat(["20", "30", "40"])),
            Attribute("number", "continuous"),
        ]
    )
    big = 2**40
    cells = {"colour": ["b", "a", "c"], "age": [40, 20, 30], "number": [big + 2, big, big + 1]}
    table = Table(pa.table(cells), schema)
    assert raw_features(table, "colour").tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert raw_features(table, "age").tolist() == [[40], [20], [30]]  # numbers, whatever the taxonomy
    assert raw_features(table, "number").tolist() == [[2], [0], [1]]  # 32 bits would not tell them apart


def test_features_of_released_columns() -> None:
    table = Table(pa.table({"age": [10, 20, 30, 40]}))

    def features(*cells: str) -> list[list[float]]:
        column = compare(table, pa.table({"age": cells}), ["age"]).released[0]
        rows: list[list[float]] = released_features(column, ordered=True).tolist()
        return rows

    low_high = features("[-inf, 30)", "[-inf, 30)", "[30, inf)", "[30, inf)")
    assert low_high[0] == low_high[1] < low_high[2] == low_high[3]
    assert len(low_high[0]) == 1
    # 20 is inside [10, 30): one number could not hold the order.
    nested = features("[10, 30)", "20", "[30, 40)", "40")
    assert nested == [[0, 2], [1, 2], [2, 3], [3, 4]]


POINT = 0.01


def adult_split() -> tuple[Table, NDArray[np.bool_]]:
    """The records without missing values, and which of them train."""
    table = complete_adult()
    return table, np.arange(len(table)) < TRAINING_ROWS


@cache
def complete_adult() -> Table:
    return adult().complete(NAMES)


def integration_error(task: Classification, qid: tuple[str, ...], k: int) -> float:
    outcome = TopDownSpecialization("income").run_on_table(task.table, KAnonymity(qid, k))
    return task.integration_error(outcome.columns)


def test_adult_gives_the_figures_of_the_notes() -> None:
    table, train = adult_split()
    # 4.5 bits a leaf is scikit-learn's ccp_alpha = 1.5e-4 on 30,162 records.
    task = Classification(table, "income", train=train, bits_per_leaf=4.5, min_leaf=5)
    assert task.base_error == pytest.approx(0.148, abs=0.3 * POINT)
    assert integration_error(task, TOP5, 180) == pytest.approx(0.153, abs=0.3 * POINT)
    assert integration_error(task, TOP7, 100) == pytest.approx(0.156, abs=0.3 * POINT)
    assert integration_error(task, TOP9, 20) == pytest.approx(0.156, abs=0.3 * POINT)


def test_adult_is_classified_better_by_the_pruning_that_cross_validation_chooses() -> None:
    table, train = adult_split()
    task = Classification(table, "income", train=train)
    assert 0.140 < task.base_error < 0.148
    assert task.base_error < integration_error(task, TOP5, 180) < 0.153
    assert integration_error(task, TOP9, 80) > 0.176  # as in the paper, from k = 80 on
    # The paper's upper bounds and source errors, with C4.5.
    assert task.upper_bound_error(TOP5) == pytest.approx(0.204, abs=0.3 * POINT)
    assert task.upper_bound_error(TOP9) == pytest.approx(0.224, abs=0.3 * POINT)
    taxation = ("hours-per-week", "capital-gain", "capital-loss", "workclass", "occupation")
    assert task.source_error(taxation) == pytest.approx(0.179, abs=0.5 * POINT)


# --- pruning ---
# Pruning a grown tree for many prices at once, against scikit-learn's pruning for one price at a time.

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


# --- release error ---
# A release's classification error: on rows that were held out.


def people(rows: int, noise: float) -> pa.Table:
    rng = np.random.default_rng(3)
    age = rng.integers(0, 4, rows)
    labels = np.array(["[-inf, 20)", "[20, 40)", "[40, 60)", "[60, inf)"])
    rich = (age >= 2) != (rng.random(rows) < noise)
    return pa.table({"age": labels[age], "job": rng.choice(["a", "b"], rows), "income": np.where(rich, "high", "low")})


@pytest.mark.parametrize("coded", [False, True])
def test_a_release_has_one_figure_however_it_is_shuffled(coded: bool) -> None:
    table = people(3000, 0.2)

    def shuffled(seed: int) -> pa.Table:
        mixed = table.take(np.random.default_rng(seed).permutation(len(table)))
        columns = {name: mixed.column(name).dictionary_encode() for name in mixed.column_names}
        return pa.table(columns) if coded else mixed

    errors = {release_error(shuffled(seed), "income") for seed in range(3)}
    assert errors == {release_error(table.select(["income", "job", "age"]), "income")}


def test_few_trees_are_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each split, and some on fewer records to choose the price of a leaf once."""
    grown: list[int] = []
    wrong = Classification._wrong

    def counting(self: Classification, features: Any, classes: Any, train: Any, *more: Any) -> Any:
        grown.append(train.size)
        return wrong(self, features, classes, train, *more)

    monkeypatch.setattr(Classification, "_wrong", counting)
    monkeypatch.setattr(release_error_module, "_TUNED_ON", 600)
    release_error(people(3000, 0.2), "income")
    assert len(grown) == 2 * SPLITS
    assert sum(size <= 600 for size in grown) == SPLITS


def test_the_error_on_held_out_rows_is_what_was_put_in() -> None:
    assert release_error(people(2000, 0.0), "income") == 0
    error = release_error(people(3000, 0.2), "income")
    assert error is not None
    assert abs(error - 0.2) < 0.05
    assert release_error(people(3000, 0.2), "income") == error
    guess = release_error(people(3000, 0.0).select(["job", "income"]), "income")
    assert guess is not None
    assert guess > 0.4
    assert release_error(people(3, 0.0), "income") is None
    assert release_error(people(50, 0.0).select(["income"]), "income") is not None
