"""Additive counting kernels: what they say of a table is the sum of what they say of its chunks of rows.

All that an algorithm needs from records is counts over (group, child, class). Whoever has the rows in chunks, in
several threads or on several machines runs these kernels on each chunk and adds the results up (of `which_occur`: takes
their union). Codes and labels are whole numbers from 0 up to a bound that is known before any row is looked at, so the
results of all chunks have one shape.

No other room counts rows by numpy: it calls these kernels, and those of `numbering.py` to give rows numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.signedinteger | np.unsignedinteger]  # any width of whole number
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]  # numbers of rows


def value_counts(codes: Ints, n_codes: int) -> Counts:
    """How many rows have each code."""
    return np.bincount(codes, minlength=n_codes)


def which_occur(codes: Ints, n_codes: int) -> Flags:
    """Whether any row has each code."""
    return np.bincount(codes, minlength=n_codes) > 0


def pair_counts(labels: Ints, codes: Ints, n_labels: int, n_codes: int) -> Counts:
    """The n_labels × n_codes table of how many rows have each (label, code)."""
    if n_codes == 1:
        return np.bincount(labels, minlength=n_labels).reshape(n_labels, 1)
    keys = labels.astype(np.int64) * n_codes
    keys += codes
    return np.bincount(keys, minlength=n_labels * n_codes).reshape(n_labels, n_codes)


def weighted_counts(codes: Ints, weights: NDArray[Any], n_codes: int) -> NDArray[np.float64]:
    """The sum of the weights of the rows with each code; exact for whole numbers up to 2^53."""
    return np.bincount(codes, weights, n_codes).astype(np.float64, copy=False)
