"""Does every histogram between two satisfy? For entropy ℓ-diversity and t-closeness, whose worst one is a corner.

The values for which entropy (or distance) keeps to its side of the bound form a cone over a convex set, so the worst
histogram of a box is one of its corners, of which there are 2^values. They are searched by halves: a box that a bound
shows to satisfy is done, one with a corner that violates ends its coalition's search, and any other is split at
its widest value. All coalitions are searched at once, as rows of arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.errors import ParameterError
from masquerade.privacy.entropy_l_diversity import EntropyLDiversity
from masquerade.privacy.requirement import TOLERANCE, plural
from masquerade.privacy.t_closeness import TCloseness

if TYPE_CHECKING:
    from masquerade.privacy.coalitions.constraint import Constraint

_CELLS = 1 << 22  # of open boxes: what a search may hold in memory (32 MB an array)
_FEW_CELLS = 1 << 12  # of a row, in short
_SCALES = 6  # group sizes at which the bound on entropy is tried


def all_satisfy(
    constraint: Constraint, rest: Counts, total: Counts, *, in_short: bool = False
) -> NDArray[np.bool_]:
    """For each row of `rest`, whether every histogram from there up to `total` (one row) satisfies.

    `in_short`: a search that would be long is not made, and the answer is no.
    """
    good: NDArray[np.bool_] = constraint.plainly_holds(rest)
    for corner in _likely_corners(constraint, rest, total):
        still = np.flatnonzero(good)
        good[still] = constraint.plainly_holds(corner[still])
    open_ = np.flatnonzero(good)
    good[open_] = _search(constraint, rest[open_], np.repeat(total, open_.size, axis=0), in_short)
    return good


def _search(constraint: Constraint, rest: Counts, total: Counts, in_short: bool) -> NDArray[np.bool_]:
    """Whether all corners of the boxes between the rows satisfy; the first and the last of each do."""
    good = np.ones(len(rest), bool)
    owner, low, high = np.arange(len(rest)), rest, total
    while owner.size:
        open_ = ~_surely_satisfied(constraint, low, high) & (low < high).any(axis=1)
        owner, low, high = owner[open_], low[open_], high[open_]
        if in_short and low.size > min(_FEW_CELLS * len(rest), _CELLS):
            good[owner] = False
            return good
        if low.size > _CELLS:
            if len(rest) == 1:
                raise _too_many(constraint, low.shape[1])
            half = len(rest) // 2  # there is room for fewer at a time
            parts = (slice(None, half), slice(half, None))
            return np.concatenate([_search(constraint, rest[part], total[part], in_short) for part in parts])
        rows = np.arange(owner.size)
        widest = np.argmax(high - low, axis=1) if owner.size else rows
        without, with_ = high.copy(), low.copy()
        without[rows, widest] = low[rows, widest]
        with_[rows, widest] = high[rows, widest]
        # Each half has one corner that was not tried yet: its upper one, or its lower one.
        bad = ~constraint.plainly_holds(with_) | ~constraint.plainly_holds(without)
        good[owner[bad]] = False
        keep = good[owner]
        owner = np.concatenate([owner[keep], owner[keep]])
        low = np.concatenate([low[keep], with_[keep]])
        high = np.concatenate([without[keep], high[keep]])
    return good


def _too_many(constraint: Constraint, n_values: int) -> ParameterError:
    return ParameterError(
        f"m-privacy of {constraint.part.model}: the subsets of a coalition's records over "
        f"{plural(n_values, 'sensitive value')} are too many to be searched; "
        f"use alpha-k-anonymity or l-diversity instead, or generalise {constraint.part.sensitive}"
    )


def _likely_corners(constraint: Constraint, rest: Counts, total: Counts) -> Iterator[Counts]:
    """Corners that violate if any does, most of the time: some values full, the others at their least."""
    yield np.repeat(total, len(rest), axis=0)
    if isinstance(constraint.part, TCloseness) and constraint.part.distance == "ordered":
        orders = [np.broadcast_to(np.arange(total.size), rest.shape)]
    elif isinstance(constraint.part, TCloseness):
        orders = [np.argsort(-(total / np.maximum(constraint.whole, 1e-9) + 0 * rest), axis=1)]
    else:
        orders = [np.argsort(-_slopes(rest, np.broadcast_to(total, rest.shape)), axis=1)]
    for order in orders:
        corner, other = rest.copy(), np.repeat(total, len(rest), axis=0)
        rows = np.arange(len(rest))
        for column in order.T[:-1]:
            corner[rows, column] = total[0, column]
            other[rows, column] = rest[rows, column]
            yield corner
            if isinstance(constraint.part, TCloseness):
                yield other


def _surely_satisfied(constraint: Constraint, low: Counts, high: Counts) -> NDArray[np.bool_]:
    """Boxes of which a bound shows that all of their histograms satisfy."""
    part = constraint.part
    if isinstance(part, EntropyLDiversity):
        return _entropy_bound(low, high, part.l * (1 - TOLERANCE)) >= 0
    if isinstance(part, TCloseness):
        return _distance_bound(low, high, constraint.whole, part.distance == "ordered") <= part.t
    raise TypeError(part)


def _weighed(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """x · log x, and 0 at 0."""
    weighed: NDArray[np.float64] = counts * np.log(np.maximum(counts, 1))
    return weighed


def _slopes(low: Counts, high: Counts) -> NDArray[np.float64]:
    """How fast x · log x grows from one count to the other."""
    gap = np.maximum(high - low, 1)
    slopes: NDArray[np.float64] = (_weighed(high.astype(float)) - _weighed(low.astype(float))) / gap
    return slopes


def _entropy_bound(low: Counts, high: Counts, l: float) -> NDArray[np.float64]:  # noqa: E741 # the papers' name
    """A lower bound of N·(log N − log l) − Σ h·log h, which is below 0 exactly where the entropy is below log l.

    N log N lies above each of its tangents, N·(log s + 1) − s. With a tangent instead, every value of the histogram
    can be chosen by itself: its least or its most. The best of a few tangents is the bound.
    """
    least, most = low.sum(axis=1, dtype=float), high.sum(axis=1, dtype=float)
    at_low, at_high = _weighed(low.astype(float)), _weighed(high.astype(float))
    bound = np.full(len(low), -np.inf)
    for step in range(_SCALES):
        scale = np.maximum(least + (most - least) * step / (_SCALES - 1), 1.0)
        tangent = (np.log(scale) + 1 - np.log(l))[:, None]
        each = np.minimum(low * tangent - at_low, high * tangent - at_high)
        np.maximum(bound, each.sum(axis=1) - scale, out=bound)
    return bound


def _distance_bound(low: Counts, high: Counts, whole: Counts, ordered: bool) -> NDArray[np.float64]:
    """An upper bound of the distance from the whole table: every share by itself as far from its own as it can be."""
    there = whole / whole.sum()
    if ordered:
        low, high = np.cumsum(low, axis=1), np.cumsum(high, axis=1)
        least, most, there = low, high, np.cumsum(there, axis=1)
        sum_low, sum_high = low[:, -1:], high[:, -1:]
    else:
        least, most = low, high
        sum_low, sum_high = low.sum(axis=1, keepdims=True), high.sum(axis=1, keepdims=True)
    smallest = least / np.maximum(least + sum_high - high, 1)
    largest = most / np.maximum(most + sum_low - low, 1)
    if ordered:
        further: NDArray[np.float64] = np.maximum(largest - there, there - smallest).sum(axis=1)
        return further / max(int(np.count_nonzero(whole)) - 1, 1)
    above = np.maximum(largest - there, 0).sum(axis=1)
    below = np.maximum(there - smallest, 0).sum(axis=1)
    bound: NDArray[np.float64] = np.minimum(above, below)
    return bound
