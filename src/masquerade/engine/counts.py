"""Counting kernels on integer arrays.

All that an algorithm needs from records is counts over (group, child, class), and counts add up over chunks
of rows. So the kernels are few: count pairs, size groups, sort rows by rank, and number the groups of equal
rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.signedinteger | np.unsignedinteger]  # any width of whole number
Counts = NDArray[np.int64]

# A table of this many cells per row is cheaper to fill than the rows are to sort.
_CELLS_PER_ROW = 4
_RADIX = 1 << 16
_WHOLE = np.iinfo(np.int64).max


def pair_counts(labels: Ints, codes: Ints, n_labels: int, n_codes: int) -> Counts:
    """The n_labels × n_codes table of how many rows have each (label, code)."""
    if n_codes == 1:
        return np.bincount(labels, minlength=n_labels).reshape(n_labels, 1)
    keys = labels.astype(np.int64) * n_codes
    keys += codes
    return np.bincount(keys, minlength=n_labels * n_codes).reshape(n_labels, n_codes)


def sizes_of(keys: Counts, bound: int) -> Counts:
    """How many rows each key below `bound` has, for the keys that occur, in their order."""
    if bound > _table_cells(keys.size):
        return np.unique(keys, return_counts=True)[1]
    counts = np.bincount(keys, minlength=bound)
    return counts[counts > 0]


def occurring(keys: Counts, bound: int) -> tuple[Counts, Counts]:
    """The keys below `bound` that occur, in their order, and how many rows each has."""
    if bound > _table_cells(keys.size):
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys, minlength=bound)
    found = np.flatnonzero(counts)
    return found, counts[found]


def look_up(keys: Counts, found: Counts, numbers: Counts, bound: int) -> Counts:
    """The number of each row's key, where `found` are the keys that occur, in their order."""
    if bound > _table_cells(keys.size):
        return numbers.take(np.searchsorted(found, keys))
    table = np.zeros(bound, np.int64)
    table[found] = numbers
    return table.take(keys)


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
    keys: Ints = np.zeros(n_rows, dtype=np.int32)
    n_keys, dense = 1 if n_rows else 0, True
    for codes, bound in columns:
        # Renumbering is what costs: put it off while the keys of one more column still fit a table, and where
        # no table is large enough, while they fit the machine's whole numbers, so that rows are sorted once
        # at most.
        fits = n_keys * bound <= _table_cells(n_rows)
        if not dense and not fits and (n_keys <= _table_cells(n_rows) or n_keys * bound > _WHOLE):
            keys, n_keys = renumber(keys, n_keys)
        n_keys *= bound
        if n_keys > np.iinfo(keys.dtype).max:
            keys = keys.astype(np.int64)
        keys *= bound
        keys += codes.astype(keys.dtype, copy=False)
        dense = False
    if not dense:
        keys, n_keys = renumber(keys, n_keys)
    return keys.astype(np.int64, copy=False), n_keys


def _table_cells(n_rows: int) -> int:
    return max(_CELLS_PER_ROW * n_rows, _RADIX)


def renumber(keys: Ints, bound: int) -> tuple[Ints, int]:
    """Renumber keys below `bound` as 0, 1, … in their order, without holes."""
    width: type[np.int32 | np.int64] = np.int32 if keys.size <= np.iinfo(np.int32).max else np.int64
    if bound > _table_cells(keys.size):
        distinct, labels = np.unique(keys, return_inverse=True)
        return labels.astype(width, copy=False), distinct.size
    present = np.zeros(bound, dtype=bool)
    present[keys] = True
    numbers: Ints = np.cumsum(present, dtype=width)
    numbers -= 1
    return numbers.take(keys), int(np.count_nonzero(present))
