"""Counting kernels on integer arrays.

All that an algorithm needs from records is counts over (group, child, class), and counts add up over chunks of
rows. So the kernels are few: count pairs, sort rows by rank, and number the groups of equal rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.signedinteger | np.unsignedinteger]  # type: ignore[type-arg] # any width of whole number
Counts = NDArray[np.int64]

# A table of this many cells per row is cheaper to fill than the rows are to sort.
_CELLS_PER_ROW = 4
_RADIX = 1 << 16


def pair_counts(labels: Ints, codes: Ints, n_labels: int, n_codes: int) -> Counts:
    """The n_labels × n_codes table of how many rows have each (label, code)."""
    if n_codes == 1:
        return np.bincount(labels, minlength=n_labels).reshape(n_labels, 1)
    keys = labels.astype(np.int64) * n_codes
    keys += codes
    return np.bincount(keys, minlength=n_labels * n_codes).reshape(n_labels, n_codes)


def rows_by_rank(ranks: Ints, n_ranks: int) -> NDArray[np.intp]:
    """Row numbers, sorted by rank and then by row: the rows of a range of ranks are one slice of it."""
    # numpy sorts 8- and 16-bit keys by radix, in linear time; wider ranks take two such passes.
    if n_ranks <= 1 << 8:
        return np.argsort(ranks.astype(np.uint8), kind="stable")
    if n_ranks <= _RADIX:
        return np.argsort(ranks.astype(np.uint16), kind="stable")
    wide = ranks.astype(np.uint32)
    order = np.argsort((wide & (_RADIX - 1)).astype(np.uint16), kind="stable")
    high = (wide >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")]


def group_rows(columns: Iterable[tuple[Ints, int]], n_rows: int) -> tuple[NDArray[np.int64], int]:
    """Number the groups of rows that agree on all columns (each given as codes and their bound).

    Returns each row's group and the number of groups. Groups are numbered in the lexicographic order of their
    codes, whatever the order of the rows.
    """
    labels = np.zeros(n_rows, dtype=np.int64)
    n_groups = 1 if n_rows else 0
    for codes, bound in columns:
        keys = labels * bound
        keys += codes
        labels, n_groups = _dense(keys, n_groups * bound)
    return labels, n_groups


def _dense(keys: NDArray[np.int64], bound: int) -> tuple[NDArray[np.int64], int]:
    """Renumber keys below `bound` as 0, 1, … in their order, without holes."""
    if bound <= max(_CELLS_PER_ROW * keys.size, _RADIX):
        present = np.zeros(bound, dtype=bool)
        present[keys] = True
        return (np.cumsum(present) - 1)[keys], int(np.count_nonzero(present))
    distinct, labels = np.unique(keys, return_inverse=True)
    return labels.astype(np.int64, copy=False), distinct.size
