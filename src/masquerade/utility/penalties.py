"""The loss of each released value: an array per column, with one penalty between 0 and 1 per code.

A metric is then a sum over codes of penalty times rows with the code, without visiting records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Domain, Generalised
from masquerade.data.continuum import Continuum, read_interval
from masquerade.data.taxonomy import Node, Taxonomy

Penalties = NDArray[np.float64]


def leaf_losses(column: Generalised) -> Penalties:
    """Iyengar's loss: (leaves under the value − 1) / (leaves − 1); without a taxonomy, width / range."""
    if isinstance(column.domain, Continuum):
        return relative_widths(column, column.domain)
    covered = (column.hi - column.lo).astype(np.float64)
    return (covered - 1) / max(column.domain.size - 1, 1)


def certainty_penalties(column: Generalised) -> Penalties:
    """Normalised certainty penalty: 0 for a leaf, else leaves under the value / leaves; or width / range."""
    if isinstance(column.domain, Continuum):
        return relative_widths(column, column.domain)
    return certainty_of_ranges(column.domain, column.lo, column.hi)


def certainty_of_ranges(domain: Domain, lo: NDArray[np.int64], hi: NDArray[np.int64]) -> Penalties:
    """The normalised certainty penalty of the values that cover the ranks `[lo, hi)`, before they are labelled."""
    if isinstance(domain, Continuum):
        if domain.size < 2:
            return np.zeros(len(lo))
        # An interval extends to the value after its last; the part outside the data does not count.
        ends = domain.values.astype(np.float64)
        upper = ends[np.minimum(hi, domain.size - 1)]
        widths: Penalties = (upper - ends[lo]) / (ends[-1] - ends[0])
        return widths
    covered = (hi - lo).astype(np.float64)
    return np.where(covered == 1, 0.0, covered / domain.size)


def relative_heights(column: Generalised) -> Penalties:
    """The value's height in its taxonomy / the taxonomy's height; without a taxonomy, width / range."""
    if isinstance(column.domain, Continuum):
        return relative_widths(column, column.domain)
    heights = [node.height for node in nodes(column, column.domain)]
    return np.array(heights, np.float64) / max(column.domain.height, 1)


def relative_widths(column: Generalised, domain: Continuum) -> Penalties:
    """Each interval's width / the range of the data; the part of an interval outside the data does not count.

    So the widest costs 1. A raw value has no width, and a column with a single value loses nothing.
    """
    if domain.size < 2:
        return np.zeros(len(column.labels))
    smallest, largest = float(domain.values[0]), float(domain.values[-1])
    ends = [read_interval(label, domain.kind) or (smallest, smallest) for label in column.labels]
    clipped = np.clip(np.array(ends, np.float64).reshape(-1, 2), smallest, largest)
    widths: Penalties = (clipped[:, 1] - clipped[:, 0]) / (largest - smallest)
    return widths


def nodes(column: Generalised, taxonomy: Taxonomy) -> list[Node]:
    """Return the taxonomy node of each code."""
    return [taxonomy.node(int(lo), int(hi)) for lo, hi in zip(column.lo, column.hi, strict=True)]
