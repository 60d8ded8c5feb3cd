"""Additive counting kernels: the result for a table is the sum of the results for its chunks of rows.

All that an algorithm needs from records is counts over (group, child, class). When rows come in chunks, from several
threads or machines, run these kernels on each chunk and add up the results (for `which_occur`, take their union).
Codes and labels are integers from 0 up to a bound that is known before any row is read, so the results of all chunks
have the same shape.

Other packages do not count rows with numpy: they call these kernels, and those of `numbering.py` to number rows.
"""

from __future__ import annotations

from typing import Any

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
