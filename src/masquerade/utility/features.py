"""Encode columns as numeric features for a decision tree.

Order matters to a tree: numbers and intervals keep theirs, categories are one-hot encoded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Generalised
from masquerade.data.continuum import Continuum
from masquerade.data.encode import encode
from masquerade.data.schema import Attribute
from masquerade.data.table import Table

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
    if (
        np.diff(numbers) <= 0
    ).any():  # trees hold 32-bit numbers; where those coincide, the ranks still differ
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
