"""Does every histogram between two satisfy? For models whose worst one is a corner: entropy ℓ-diversity, t-closeness.

The values for which entropy (or distance) keeps to its side of the bound form a cone over a convex set, so the worst
histogram of a box is one of its corners, of which there are 2^values. They are searched by halves: a box that a bound
shows to satisfy is done, one with a corner that violates ends its coalition's search, and any other is split at
its widest value. All coalitions are searched at once, as rows of arrays.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.errors import ParameterError
from masquerade.privacy.m_privacy.constraint import Constraint
from masquerade.privacy.requirement import plural

_CELLS = 1 << 22  # of open boxes: what a search may hold in memory (32 MB an array)
_FEW_CELLS = 1 << 12  # of a row, in short


class CornerConstraint(Constraint):
    """A constraint whose worst histogram is some corner of the box; each model says where to look for it first."""

    both_ends: ClassVar[bool] = (
        False  # a corner may violate for its rare values, and not just for its frequent ones
    )

    @property
    def nanoseconds(self) -> int:
        """A search for each coalition."""
        return 600 * len(self.labels)

    @abstractmethod
    def corner_order(self, rest: Counts, total: Counts) -> NDArray[np.intp]:
        """For each row of `rest`, the values in the order in which they fill up in a violating corner."""

    @abstractmethod
    def bound_holds(self, low: Counts, high: Counts) -> NDArray[np.bool_]:
        """For which boxes a bound, quickly computed, shows that all of their histograms satisfy."""

    def holds_between(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """For each row of `rest`, whether every histogram from there up to `total` (one row) satisfies."""
        return self._all_satisfy(rest, total, in_short=False)

    def surely_holds_between(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """The same, but False also where the search would be long."""
        return self._all_satisfy(rest, total, in_short=True)

    def _all_satisfy(self, rest: Counts, total: Counts, in_short: bool) -> NDArray[np.bool_]:
        good: NDArray[np.bool_] = self.holds_as_is(rest)
        for corner in self._likely_corners(rest, total):
            still = np.flatnonzero(good)
            good[still] = self.holds_as_is(corner[still])
        open_ = np.flatnonzero(good)
        good[open_] = self._search(rest[open_], np.repeat(total, open_.size, axis=0), in_short)
        return good

    def _likely_corners(self, rest: Counts, total: Counts) -> Iterator[Counts]:
        """Corners that violate if any does, most of the time: some values full, the others at their least."""
        yield np.repeat(total, len(rest), axis=0)
        corner, other = rest.copy(), np.repeat(total, len(rest), axis=0)
        rows = np.arange(len(rest))
        for column in self.corner_order(rest, total).T[:-1]:
            corner[rows, column] = total[0, column]
            other[rows, column] = rest[rows, column]
            yield corner
            if self.both_ends:
                yield other

    def _search(self, rest: Counts, total: Counts, in_short: bool) -> NDArray[np.bool_]:
        """Whether all corners of the boxes between the rows satisfy; the first and the last of each do."""
        good = np.ones(len(rest), bool)
        owner, low, high = np.arange(len(rest)), rest, total
        while owner.size:
            open_ = ~self.bound_holds(low, high) & (low < high).any(axis=1)
            owner, low, high = owner[open_], low[open_], high[open_]
            if in_short and low.size > min(_FEW_CELLS * len(rest), _CELLS):
                good[owner] = False
                return good
            if low.size > _CELLS:
                if len(rest) == 1:
                    raise self._too_many(low.shape[1])
                half = len(rest) // 2  # there is room for fewer at a time
                parts = (slice(None, half), slice(half, None))
                return np.concatenate([self._search(rest[part], total[part], in_short) for part in parts])
            rows = np.arange(owner.size)
            widest = np.argmax(high - low, axis=1) if owner.size else rows
            without, with_ = high.copy(), low.copy()
            without[rows, widest] = low[rows, widest]
            with_[rows, widest] = high[rows, widest]
            # Each half has one corner that was not tried yet: its upper one, or its lower one.
            bad = ~self.holds_as_is(with_) | ~self.holds_as_is(without)
            good[owner[bad]] = False
            keep = good[owner]
            owner = np.concatenate([owner[keep], owner[keep]])
            low = np.concatenate([low[keep], with_[keep]])
            high = np.concatenate([without[keep], high[keep]])
        return good

    def _too_many(self, n_values: int) -> ParameterError:
        return ParameterError(
            f"m-privacy of {self.part.model}: the subsets of a coalition's records over "
            f"{plural(n_values, 'sensitive value')} are too many to be searched; "
            f"use alpha-k-anonymity or l-diversity instead, or generalise {self.part.sensitive}"
        )
