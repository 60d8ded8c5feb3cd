"""What a release is worth to somebody who classifies: a decision tree learns from a part of its rows and is judged on
the others, several times. Only the release is looked at: whoever assembles it has nothing else."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.encode import distinct, texts
from masquerade.data.schema import Attribute, Schema
from masquerade.data.table import Origin, Table
from masquerade.utility.classification import Classification

SPLITS = 3  # seeded, and of rows in one order: the same release is judged the same, however it was shuffled
HELD_OUT = 1 / 3
MOST_ROWS = 50_000  # as many tell enough
_TUNED_ON = (
    12_000  # records by which the price of a leaf is chosen, which takes as many trees as all splits together
)
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
    task.tune(np.flatnonzero(marked[0])[:_TUNED_ON])
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
    kinds = [
        Attribute(name, "continuous" if _numbers(cell) else "categorical") for name, cell in cells.items()
    ]
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
    rank = {
        each: number for number, each in enumerate(sorted({_key(m[1]) for m in matches if m is not None}))
    }
    places = np.array([rank[_key(m[1])] for m in matches if m is not None], np.int64)
    return pa.chunked_array([pa.array(places[codes])])


def _key(start: str) -> tuple[float, str]:
    """Numbers by their value, dates by their text; minus infinity before all."""
    try:
        return float(start), ""
    except ValueError:
        return 0.0, start
