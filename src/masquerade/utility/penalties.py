"""The loss of each released value: an array per column, with one penalty between 0 and 1 per code.

A metric is then a sum over codes of penalty times rows with the code, without visiting records.

Penalties are published, so they are made of what may be known: the leaves of a taxonomy, the bounds that a job gives,
and without bounds **how many** of the data's distinct values an interval covers. Divided by the range of the raw
values, the figures and the cells together would be equations for the smallest and the largest of them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Domain, Generalised
from masquerade.data.continuum import ANYTHING, Continuum, read_interval
from masquerade.data.taxonomy import Node, Taxonomy

Penalties = NDArray[np.float64]


def leaf_losses(column: Generalised) -> Penalties:
    """Iyengar's loss: (leaves under the value − 1) / (leaves − 1); with bounds, width / their distance."""
    if _is_bounded(column.domain):
        return _widths_in_bounds(column)
    covered = (column.hi - column.lo).astype(np.float64)
    return (covered - 1) / max(column.domain.size - 1, 1)


def certainty_penalties(column: Generalised) -> Penalties:
    """Normalised certainty penalty: 0 for a leaf, else leaves under the value / leaves; or width in the bounds."""
    return _widths_in_bounds(column) if _is_bounded(column.domain) else _shares(column)


def relative_heights(column: Generalised) -> Penalties:
    """The value's height in its taxonomy / the taxonomy's height; without one, the certainty penalty."""
    if isinstance(column.domain, Continuum):
        return certainty_penalties(column)
    heights = [node.height for node in nodes(column, column.domain)]
    return np.array(heights, np.float64) / max(column.domain.height, 1)


def guiding_penalties(domain: Domain, lo: NDArray[np.int64], hi: NDArray[np.int64]) -> Penalties:
    """The certainty penalty of the values that cover the ranks `[lo, hi)`, numbers by their width in the data's range.

    It guides a choice between cuts and is no figure to publish: it would tell the smallest and the largest number.
    """
    if isinstance(domain, Continuum):
        apart = lo < domain.first  # a missing cell, alone or with all numbers
        widths: Penalties = np.where(apart & (hi > domain.first), 1.0, 0.0)
        if domain.values.size < 2:
            return widths
        # An interval extends to the value after its last; the part outside the data does not count.
        ends = domain.values.astype(np.float64)
        upper = ends[np.clip(hi - domain.first, 0, ends.size - 1)]
        lower = ends[np.maximum(lo - domain.first, 0)]
        return np.where(apart, widths, (upper - lower) / (ends[-1] - ends[0]))
    return _shares_of_ranks(domain, lo, hi)


def nodes(column: Generalised, taxonomy: Taxonomy) -> list[Node]:
    """Return the taxonomy node of each code."""
    return [taxonomy.node(int(lo), int(hi)) for lo, hi in zip(column.lo, column.hi, strict=True)]


def _shares(column: Generalised) -> Penalties:
    return _shares_of_ranks(column.domain, column.lo, column.hi)


def _shares_of_ranks(domain: Domain, lo: NDArray[np.int64], hi: NDArray[np.int64]) -> Penalties:
    covered = (hi - lo).astype(np.float64)
    return np.where(covered == 1, 0.0, covered / max(domain.size, 1))


def _is_bounded(domain: Domain) -> bool:
    return isinstance(domain, Continuum) and math.isfinite(domain.lower) and math.isfinite(domain.upper)


def _widths_in_bounds(column: Generalised) -> Penalties:
    """Each interval's width / the distance of the bounds, which follows from the released cells; 0 for a raw value."""
    domain = column.domain
    assert isinstance(domain, Continuum)
    raw, anything = (domain.lower, domain.lower), (domain.lower, domain.upper)
    ends = [
        read_interval(label, domain.kind) or (anything if domain.missing and label == ANYTHING else raw)
        for label in column.labels
    ]
    clipped = np.clip(np.array(ends, np.float64).reshape(-1, 2), domain.lower, domain.upper)
    widths: Penalties = (clipped[:, 1] - clipped[:, 0]) / (domain.upper - domain.lower)
    return widths
