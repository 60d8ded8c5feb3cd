"""Groups of distinct records: the ranks they span, their rows and counts, and what their boxes lose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.anonymize.cheapest_box.levels import Levels
from masquerade.anonymize.cheapest_box.space import Records
from masquerade.anonymize.mondrian.judge import Histograms
from masquerade.engine.counts import Counts
from masquerade.engine.numbering import group_rows

NONE = -1  # the group of records that no box took


class Groups:
    """Groups that may still grow: the ranks they span, their rows and their counts."""

    def __init__(self, levels: Sequence[Levels], records: Records, groups: Counts, n_groups: int) -> None:
        self._levels = levels
        taken = np.flatnonzero(groups != NONE)
        order = taken[np.argsort(groups[taken], kind="stable")]
        starts = np.searchsorted(groups[order], np.arange(n_groups))
        self.first: Counts = np.minimum.reduceat(records.ranks[:, order], starts, axis=1)
        self.last: Counts = np.maximum.reduceat(records.ranks[:, order], starts, axis=1)
        self.sizes: Counts = np.add.reduceat(records.sizes[order], starts)
        self.counts: Histograms = tuple(
            np.add.reduceat(each[order], starts, axis=0) for each in records.counts
        )
        self.costs: Counts = self.penalty(self.first, self.last)

    def penalty(self, first: Counts, last: Counts) -> Counts:
        """Return what boxes over these ranks lose, added up over the attributes."""
        total: Counts = sum(
            (each.penalty(lo, hi) for each, lo, hi in zip(self._levels, first, last, strict=True)),
            np.zeros(first.shape[1], np.int64),
        )
        return total

    def increase(self, first: Counts, last: Counts, sizes: Counts, groups: Counts) -> Counts:
        """Return how much dearer groups get by records that span these ranks; all are aligned."""
        lo, hi = np.minimum(self.first[:, groups], first), np.maximum(self.last[:, groups], last)
        own = self.sizes[groups]
        dearer: Counts = self.penalty(lo, hi) * (own + sizes) - self.costs[groups] * own
        return dearer

    def with_more(self, groups: Counts, more: Histograms) -> Histograms:
        """Return the counts of groups with these added."""
        return tuple(mine[groups] + each for mine, each in zip(self.counts, more, strict=True))

    def add(self, groups: Counts, first: Counts, last: Counts, more: Histograms) -> None:
        """Let different groups take in records that span these ranks."""
        self.first[:, groups] = np.minimum(self.first[:, groups], first)
        self.last[:, groups] = np.maximum(self.last[:, groups], last)
        for mine, each in zip(self.counts, more, strict=True):
            mine[groups] += each
        self.sizes[groups] = self.counts[0][groups, 0]
        self.costs[groups] = self.penalty(self.first[:, groups], self.last[:, groups])

    def cells(self) -> tuple[Counts, Counts]:
        """Return the ranks `[lo, hi)` of each group's cells, attribute × group."""
        covers = [
            each.cover(lo, hi) for each, lo, hi in zip(self._levels, self.first, self.last, strict=True)
        ]
        return np.stack([lo for lo, _ in covers]), np.stack([hi for _, hi in covers])


def merged_by_cells(levels: Sequence[Levels], records: Records, groups: Counts) -> tuple[Counts, Groups]:
    """Make one group of those that a reader of the release cannot tell apart, because their cells are equal."""
    lo, hi = Groups(levels, records, groups, int(groups.max()) + 1).cells()
    ends = [
        (end, each.column.domain.size + 1) for each, *both in zip(levels, lo, hi, strict=True) for end in both
    ]
    number, n_groups = group_rows(ends, lo.shape[1])
    groups = number[groups]
    return groups, Groups(levels, records, groups, n_groups)
