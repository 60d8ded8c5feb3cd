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

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data import Attribute, Continuum, Generalised, Origin, Schema, Table, distinct, encode, texts
from masquerade.engine import Counts, Rows
from masquerade.errors import ParameterError
from masquerade.utility.comparison import Comparison

# --- features -----------------------------------------------------------------------------------------------
# Encode columns as numeric features for a decision tree.
#
# Order matters to a tree: numbers and intervals keep theirs, categories are one-hot encoded.

Features = NDArray[np.float32]  # one row per record

# With more categories, one-hot columns would cost more memory than they are worth to a tree.
_MOST_CATEGORIES = 256


def raw_features(table: Table, name: str) -> Features:
    """Encode a raw attribute: numbers as numbers, categories one-hot."""
    kind = table.schema[name].kind
    if kind == "categorical":
        coded = table.coded(name)
        return _one_column_each(coded.codes, len(coded.labels))
    # A taxonomy of fixed intervals would hide the numbers: encode without it.
    column = encode(Attribute(name, kind), table.cells(name), table.problem, keep_missing=table.keeps_missing)
    assert isinstance(column.domain, Continuum)
    numbers = column.domain.values.astype(np.float32)
    if (np.diff(numbers) <= 0).any():  # trees hold 32-bit numbers; where those coincide, the ranks still differ
        numbers = np.arange(numbers.size, dtype=np.float32)
    if column.domain.missing:  # below all numbers, where one more split finds it
        numbers = np.concatenate([numbers[:1] - 1, numbers]) if numbers.size else np.zeros(1, np.float32)
    return numbers[column.ranks][:, np.newaxis]


def released_features(column: Generalised, ordered: bool) -> Features:
    """Encode a released attribute: intervals (`ordered`) by their order, categories one-hot."""
    if not ordered:
        return _one_column_each(column.codes, len(column.labels))
    lo, hi = column.lo.astype(np.float32), column.hi.astype(np.float32)
    order = np.lexsort((hi, lo))
    if (lo[order][1:] >= hi[order][:-1]).all():
        return lo[column.codes][:, np.newaxis]
    return np.column_stack([lo, hi])[column.codes]  # overlapping intervals have no single order


def _one_column_each(codes: NDArray[np.int32], n_codes: int) -> Features:
    if n_codes <= 2 or n_codes > _MOST_CATEGORIES:  # of two columns, the second would only repeat the first
        return codes.astype(np.float32)[:, np.newaxis]
    columns: Features = (codes[:, np.newaxis] == np.arange(n_codes)).astype(np.float32)
    return columns


# --- pruning ------------------------------------------------------------------------------------------------
# One grown decision tree, pruned to many sizes at once.
#
# Cost and complexity (Breiman et al.): a tree costs the bits that it takes to name the classes of its
# training records, given the leaf that each falls into, and a price for each leaf. The cheapest subtree is
# found from the bottom up: a node becomes a leaf when its children cost no less. Pruning a grown tree for
# many prices takes far less time than growing it again, so the price can be chosen by cross-validation for
# every tree.

Labels = NDArray[np.intp]


def pruned_labels(tree: Any, bits_per_leaf: Sequence[float]) -> Labels:
    """Return the class predicted at each node of the grown tree (row) after pruning at each price (column).

    `tree` is the `tree_` of a scikit-learn classifier with entropy as criterion.
    """
    left, right = tree.children_left, tree.children_right
    levels = _levels(left, right)
    price = np.asarray(bits_per_leaf, np.float64)
    as_leaf = (tree.impurity * tree.n_node_samples)[:, np.newaxis] + price
    cost = as_leaf.copy()
    is_leaf = np.ones(cost.shape, bool)
    for nodes in reversed(levels):
        inner = nodes[left[nodes] >= 0]
        below = cost[left[inner]] + cost[right[inner]]
        is_leaf[inner] = as_leaf[inner] <= below
        cost[inner] = np.minimum(as_leaf[inner], below)
    labels: Labels = np.repeat(tree.value[:, 0, :].argmax(axis=1)[:, np.newaxis], price.size, axis=1)
    for nodes in levels:
        inner = nodes[left[nodes] >= 0]
        for children in (left[inner], right[inner]):  # nodes below a leaf take its class
            labels[children] = np.where(is_leaf[inner], labels[inner], labels[children])
            is_leaf[children] |= is_leaf[inner]
    return labels


def _levels(left: Labels, right: Labels) -> list[Labels]:
    """Return the nodes by depth, the root first."""
    levels = [np.zeros(1, np.intp)]
    while levels[-1].size:
        inner = levels[-1][left[levels[-1]] >= 0]
        levels.append(np.concatenate([left[inner], right[inner]]))
    return levels[:-1]


# --- classification -----------------------------------------------------------------------------------------

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
        if not has_sklearn():
            raise ParameterError(
                'classification errors need scikit-learn; install it with pip install "masquerade[mining]", '
                "or leave them out (--folds 0)"
            )
        self.table = table
        self.classes = table.coded(target).codes
        self.attributes = tuple(name for name in table.schema.names if name != target)
        self.seed = seed
        self.min_leaf = min_leaf
        self.splits = training_splits(len(table), train, folds, seed)
        self.bits_per_leaf = bits_per_leaf
        self._raw: dict[str, Features] = {}

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
        return self._error(self.together(self.raw(name) for name in attributes), None)

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
        return self._error(self.together(blocks), kept)

    def raw(self, name: str) -> Features:
        """Return an attribute's raw features."""
        if name not in self._raw:
            self._raw[name] = raw_features(self.table, name)
        return self._raw[name]

    def together(self, blocks: Iterable[Features]) -> Features:
        """Put columns of features beside each other."""
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
                bits = self.price(features[train], classes[train])
                wrong += int(self._wrong(features, classes, train, test, [bits])[0])
                tested += test.size
        if not tested:
            raise ParameterError("classification errors: no test row is left in the release")
        return wrong / tested

    def price(self, features: Features, classes: NDArray[np.int32]) -> float:
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

        grown = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=self.min_leaf, random_state=self.seed).fit(
            features[train], classes[train]
        )
        named = grown.classes_[pruned_labels(grown.tree_, prices)][grown.apply(features[test])]
        wrong: Counts = np.sum(named != classes[test, np.newaxis], axis=0)
        return wrong


def training_splits(n_rows: int, train: NDArray[np.bool_] | None, folds: int, seed: int) -> list[tuple[Rows, Rows]]:
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
    return [(np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)) for fold in range(folds)]


def among(kept: Rows, rows: Rows) -> Rows:
    """Return the positions of the given input rows among the released ones, skipping suppressed rows."""
    return np.flatnonzero(np.isin(kept, rows))


def has_sklearn() -> bool:
    """Return whether decision trees can be grown: the extra `mining` is installed."""
    return find_spec("sklearn") is not None


# --- release error ------------------------------------------------------------------------------------------
# What a release is worth to somebody who classifies: a decision tree learns from a part of its rows and is
# judged on the others, several times. Only the release is looked at: whoever assembles it has nothing else.

SPLITS = 3  # seeded, and of rows in one order: the same release is judged the same, however it was shuffled
HELD_OUT = 1 / 3
MOST_ROWS = 50_000  # as many tell enough
_TUNED_ON = 12_000  # records by which the price of a leaf is chosen, which takes as many trees as all splits together
_FEWEST_ROWS = 6
_INTERVAL = re.compile(r"\[(-inf|[^\s,]+), ([^\s,]+)\)")


def release_error(release: pa.Table, class_name: str) -> float | None:
    """The share of held-out rows whose class is misjudged; None when there are too few rows to tell."""
    if release.num_rows < _FEWEST_ROWS:
        return None
    return error_of(_prepared(_in_one_order(release), class_name), class_name)


def error_of(table: Table, class_name: str) -> float | None:
    """The same of any table, by the kinds of its attributes."""
    if len(table) < _FEWEST_ROWS:
        return None
    if len(table) > MOST_ROWS:
        table = table.take(np.arange(MOST_ROWS))
    marked = [np.random.default_rng(seed).random(len(table)) >= HELD_OUT for seed in range(SPLITS)]
    marked = [train for train in marked if train.any() and not train.all()]
    if not marked:
        return None
    task = Classification(table, class_name, train=marked[0])
    # The bits per leaf are chosen once for all splits.
    rows = np.flatnonzero(marked[0])[:_TUNED_ON]
    raw = task.together(task.raw(name) for name in task.attributes)
    task.bits_per_leaf = task.price(raw[rows], task.classes[rows])
    task.splits = [(np.flatnonzero(train), np.flatnonzero(~train)) for train in marked]
    return task.base_error


def _in_one_order(release: pa.Table) -> pa.Table:
    """At most MOST_ROWS rows, in an order that depends on nothing but the release's content."""
    names = sorted(release.column_names)
    order = np.lexsort([_by_text(release.column(name)) for name in names])
    mixed = order[np.random.default_rng(SPLITS).permutation(len(order))[:MOST_ROWS]]
    return release.select(names).take(mixed)


def _by_text(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Each row's place among the distinct values, ordered by their texts."""
    codes, values = distinct(column)
    labels = [(label is None, label or "") for label in texts(values).to_pylist()]
    places = np.empty(len(labels), np.int64)
    places[sorted(range(len(labels)), key=labels.__getitem__)] = np.arange(len(labels))
    return places[codes]


def _prepared(release: pa.Table, class_name: str) -> Table:
    """Intervals as numbers in their order, numbers as numbers, all else as categories."""
    cells = {name: _ordered(release.column(name)) for name in release.column_names if name != class_name}
    kinds = [Attribute(name, "continuous" if _numbers(cell) else "categorical") for name, cell in cells.items()]
    whole = pa.table({**cells, class_name: release.column(class_name)})
    return Table(whole, Schema(kinds), origin=Origin("the release"))


def _numbers(column: pa.ChunkedArray) -> bool:
    kind = column.type
    return not column.null_count and bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _ordered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    codes, values = distinct(column)
    labels = texts(values).to_pylist()
    matches = [_INTERVAL.fullmatch(label) if label is not None else None for label in labels]
    if not labels or not all(matches):
        return column
    rank = {each: number for number, each in enumerate(sorted({_key(m[1]) for m in matches if m is not None}))}
    places = np.array([rank[_key(m[1])] for m in matches if m is not None], np.int64)
    return pa.chunked_array([pa.array(places[codes])])


def _key(start: str) -> tuple[float, str]:
    """Numbers by their value, dates by their text; minus infinity before all."""
    try:
        return float(start), ""
    except ValueError:
        return 0.0, start
