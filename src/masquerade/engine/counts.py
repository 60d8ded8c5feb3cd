"""Additive counting kernels: the result for a table is the sum of the results for its chunks of rows.

All that an algorithm needs from records is counts over (group, child, class). When rows come in chunks, from several
threads or machines, run these kernels on each chunk and add up the results (for `which_occur`, take their union).
Codes and labels are integers from 0 up to a bound that is known before any row is read, so the results of all chunks
have the same shape.

Other packages do not count rows with numpy: they call these kernels, and those of `counts.py` to number rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.signedinteger | np.unsignedinteger]  # integers of any width
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]  # row numbers


def value_counts(codes: Ints, n_codes: int) -> Counts:
    """Count the rows with each code."""
    return np.bincount(codes, minlength=n_codes)


def which_occur(codes: Ints, n_codes: int) -> Flags:
    """Return for each code whether any row has it."""
    return np.bincount(codes, minlength=n_codes) > 0


def pair_counts(labels: Ints, codes: Ints, n_labels: int, n_codes: int) -> Counts:
    """Count the rows with each (label, code), as an n_labels × n_codes table."""
    if n_codes == 1:
        return np.bincount(labels, minlength=n_labels).reshape(n_labels, 1)
    keys = labels.astype(np.int64) * n_codes
    keys += codes
    return np.bincount(keys, minlength=n_labels * n_codes).reshape(n_labels, n_codes)


def weighted_counts(codes: Ints, weights: NDArray[Any], n_codes: int) -> NDArray[np.float64]:
    """Sum the weights of the rows with each code; exact for integers up to 2^53."""
    return np.bincount(codes, weights, n_codes).astype(np.float64, copy=False)


# --- numbering ----------------------------------------------------------------------------------------------
# Kernels that number rows and keys: which keys occur, which rows are equal, which come first.
#
# Unlike counts (`counts.py`), numbers do not add up over chunks of rows: the chunks' keys must be merged
# first. All results depend on the keys alone, never on the order of the rows, except for ties where a
# docstring says so.

Scalar = TypeVar("Scalar", bound=np.generic)

# Filling a table of this many cells per row is cheaper than sorting the rows.
_CELLS_PER_ROW = 4
_RADIX = 1 << 16
_WHOLE = np.iinfo(np.int64).max


def occurring(keys: Ints, bound: int) -> tuple[Counts, Counts]:
    """Return the keys below `bound` that occur, in ascending order, and the number of rows with each."""
    if bound > _table_cells(keys.size):
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys, minlength=bound)
    found = np.flatnonzero(counts)
    return found, counts[found]


def renumber(keys: Ints, bound: int) -> tuple[Ints, Counts]:
    """Number the keys below `bound` that occur as 0, 1, … in ascending order.

    Return each row's number (the keys themselves if all occur) and the key of each number.
    """
    width: type[np.int32 | np.int64] = np.int32 if keys.size <= np.iinfo(np.int32).max else np.int64
    if bound > _table_cells(keys.size):
        found, numbers = np.unique(keys, return_inverse=True)
        return numbers.astype(width, copy=False), found.astype(np.int64, copy=False)
    present = np.zeros(bound, dtype=bool)
    present[keys] = True
    if present.all():
        return keys, np.arange(bound)
    number_of_key: Ints = np.cumsum(present, dtype=width)
    number_of_key -= 1
    return number_of_key.take(keys), np.flatnonzero(present)


def look_up(keys: Counts, found: Counts, numbers: Counts, bound: int) -> Counts:
    """Return the number of each row's key, where `found` are the keys that occur, in ascending order."""
    if bound > _table_cells(keys.size):
        return numbers.take(np.searchsorted(found, keys))
    table = np.zeros(bound, np.int64)
    table[found] = numbers
    return table.take(keys)


def group_rows(columns: Iterable[tuple[Ints, int]], n_rows: int) -> tuple[Counts, int]:
    """Number the groups of rows that agree on all columns (each given as codes and their bound).

    Return each row's group and the number of groups. Groups are numbered in the lexicographic order of their codes.
    """
    keys: Ints = np.zeros(n_rows, dtype=np.int32)
    n_keys, dense = 1 if n_rows else 0, True
    for codes, bound in columns:
        # Renumbering dominates the cost: postpone it while the keys of one more column still fit a table or, where
        # no table is large enough, while they fit 64-bit integers, so that rows are sorted at most once.
        fits = n_keys * bound <= _table_cells(n_rows)
        if not dense and not fits and (n_keys <= _table_cells(n_rows) or n_keys * bound > _WHOLE):
            keys, found = renumber(keys, n_keys)
            n_keys = found.size
        n_keys *= bound
        if n_keys > np.iinfo(keys.dtype).max:
            keys = keys.astype(np.int64)
        keys *= bound
        keys += codes.astype(keys.dtype, copy=False)
        dense = False
    if not dense:
        keys, found = renumber(keys, n_keys)
        n_keys = found.size
    return keys.astype(np.int64, copy=False), n_keys


def first_rows(labels: Ints, n_labels: int) -> Rows:
    """Return the first row with each label; every label must occur."""
    first = np.empty(n_labels, np.intp)
    first[labels[::-1]] = np.arange(labels.size - 1, -1, -1)
    return first


def rows_by_rank(ranks: Ints, n_ranks: int) -> Rows:
    """Return the row numbers sorted by rank, then by row, so that a range of ranks is one slice."""
    # numpy sorts 8- and 16-bit keys by radix, in linear time; wider ranks take two such passes.
    if n_ranks <= 1 << 8:
        return np.argsort(ranks.astype(np.uint8), kind="stable")
    if n_ranks <= _RADIX:
        return np.argsort(ranks.astype(np.uint16), kind="stable")
    wide = ranks.astype(np.uint32)
    order = np.argsort((wide & (_RADIX - 1)).astype(np.uint16), kind="stable")
    high = (wide >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")]


def distinct_values(values: NDArray[Scalar]) -> tuple[NDArray[Scalar], Rows]:
    """Return the different values (numbers or texts) in ascending order, and each row's index into them."""
    return np.unique(values, return_inverse=True)


def distinct_rows(rows: NDArray[Any]) -> tuple[NDArray[Any], Counts]:
    """Return the different rows of a matrix, in lexicographic order, and how often each occurs."""
    if rows.shape[1] == 1:  # sorting numbers is much faster than sorting rows
        found, times = np.unique(rows[:, 0], return_counts=True)
        return found[:, None], times
    return np.unique(rows, axis=0, return_counts=True)


def _table_cells(n_rows: int) -> int:
    return max(_CELLS_PER_ROW * n_rows, _RADIX)
