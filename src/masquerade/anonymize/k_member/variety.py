"""Which sensitive values a growing cluster may take in next, so that it satisfies more than a size.

Where some value makes the cluster varied enough, or leaves it so, only such values may join. Otherwise it takes values
that it does not have yet, or else those that it has less of than the whole table: so it has p values, or enough of
each, before it is filled up with whatever loses least (as EnhancedPKClustering does for p-sensitive k-anonymity).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.anonymize.mondrian.qids import judge_of
from masquerade.data.column import Coded
from masquerade.engine.counts import Counts, Flags
from masquerade.privacy.requirement import GroupRequirement

_MOST_TRIED = 64  # values that are tried one by one


class Variety:
    """The sensitive values of one growing cluster."""

    def __init__(
        self, parts: Sequence[GroupRequirement], sensitive: Mapping[str, Coded], n_rows: int, judge: Judge
    ) -> None:
        varied = [each for part in parts for each in part.conjuncts if each.sensitive is not None]
        self._judge, self._whole_judge = judge_of(varied, sensitive, n_rows), judge
        self.coded = self._judge.counted
        self._whole = [coded.histogram() for coded in self.coded]
        self.counts: list[Counts] = []
        self.clear()

    @property
    def matters(self) -> bool:
        """Whether a size is not enough."""
        return bool(self.coded)

    def clear(self) -> None:
        """Start with an empty cluster."""
        self.size = 0
        self.counts = [np.zeros_like(whole) for whole in self._whole]

    def add(self, row: int) -> None:
        """Take in a record."""
        self.size += 1
        for coded, counts in zip(self.coded, self.counts, strict=True):
            counts[0, coded.codes[row]] += 1

    def holds(self) -> bool:
        """Return whether the cluster satisfies all requirements."""
        return bool(self._whole_judge.holds((np.array([[self.size]]), *self.counts))[0])

    def wanted(self, at: int, left: Flags) -> Flags | None:
        """Return which values of one sensitive attribute, of those that are left, may join next; None: all."""
        counts, whole = self.counts[at][0], self._whole[at][0]
        if counts.size <= _MOST_TRIED:
            n = counts.size
            tried: list[Counts] = [np.repeat(each, n, axis=0) for each in self.counts]
            tried[at] = tried[at] + np.eye(n, dtype=np.int64)
            histograms: Histograms = (np.full((n, 1), self.size + 1), *tried)
            good = self._judge.holds(histograms) & left
            if good.any():
                return None if good[left].all() else good
        new: Flags = (counts == 0) & left
        few: Flags = (counts * int(whole.sum()) < whole * self.size) & left
        return new if new.any() else few if few.any() else None
