"""Decides for the parts of many groups at once whether each satisfies every requirement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from masquerade.data import Coded
from masquerade.engine import Counts, Ints, Rows
from masquerade.privacy import GroupCheck, GroupRequirement, MPrivateGroups, ProviderCounts

Merge = Literal["violating", "small"]
Histograms = tuple[Counts, ...]  # of one set of parts: their sizes, one for each sensitive attribute, the class


class Judge:
    """The requirements, and the counts they need; where cuts are chosen by a class, its counts come last.

    Counts of parts add up to those of their union, so a union is judged without reading the records again. `merge` says
    which parts cannot be cut off alone: those that violate a requirement, or those with too few records.
    """

    def __init__(
        self,
        parts: Sequence[GroupRequirement],
        sensitive: Mapping[str, Coded],
        n_rows: int,
        classes: Coded | None = None,
        merge: Merge = "violating",
        whole: Mapping[str, Counts] | None = None,
    ) -> None:
        """`whole` has the histograms of all records, where those at hand are not all."""
        self.by_size = merge == "small"
        # The sensitive attributes that are counted, and the class if it is, in the order of the histograms.
        self.counted: tuple[Coded, ...] = (*sensitive.values(), *([classes] if classes is not None else []))
        self._place: dict[str | None, int] = {name: at for at, name in enumerate(sensitive, start=1)}
        self._place[None] = 0
        self._whole: Histograms = (
            np.array([[n_rows]]),
            *(each.histogram() if whole is None else whole[each.name] for each in self.counted),
        )
        self._labels = ((), *(each.labels for each in self.counted))
        # Made once: a requirement against colluding providers prepares its counts first.
        self._m_private: dict[GroupRequirement, tuple[ProviderCounts, GroupCheck]] = {
            part: part.check(self._whole[at], self._labels[at])
            for part, at in ((part, self._place[part.sensitive]) for part in parts)
            if isinstance(part, MPrivateGroups)
        }
        plain = [each for part in parts for each in part.wrapped or (part,)]
        self.least = max((each.implied_size for each in plain), default=1)  # fewer never satisfy
        self._parts = tuple(part for part in parts if not part.only_sizes)  # that is `least`
        self.only_sizes = not self._parts and not self.counted

    @property
    def columns(self) -> int:
        """Number of counts kept per part."""
        return sum(whole.size for whole in self._whole)

    def count(self, label: Callable[[], Ints], rows: Rows, sizes: Counts) -> Histograms:
        """Return the histograms of parts of these sizes; `label`, called only if needed, gives each row's part."""
        if not self.counted:
            return (sizes.reshape(-1, 1),)
        labels = label()
        return (sizes.reshape(-1, 1), *(each.histograms(labels, sizes.size, rows) for each in self.counted))

    def large(self, histograms: Histograms) -> NDArray[np.bool_]:
        """Return which parts have as many records as every requirement implies."""
        large: NDArray[np.bool_] = histograms[0][:, 0] >= self.least
        return large

    def can_be_cut_off(self, histograms: Histograms) -> NDArray[np.bool_]:
        """Return which parts need not stay with others."""
        return self.large(histograms) if self.by_size else self.holds(histograms)

    def holds(self, histograms: Histograms) -> NDArray[np.bool_]:
        """Return which parts satisfy every requirement."""
        good = self.large(histograms)
        if good.any():
            for part in self._parts:
                still = np.flatnonzero(good)
                if not still.size:
                    break
                at = self._place[part.sensitive]
                if part in self._m_private:
                    layout, check = self._m_private[part]
                    good[still] = check.holds(layout.counts(histograms[at][still]))
                else:
                    good[still] = part.holds(histograms[at][still], self._whole[at], self._labels[at])
        return good

    def fitness(self, histograms: Histograms, alpha: float) -> NDArray[np.float64]:
        """Return the privacy fitness score of each part, the lowest over all requirements."""
        scores = [
            check.scores(layout.counts(histograms[self._place[part.sensitive]]), alpha)
            for part, (layout, check) in self._m_private.items()
        ]
        lowest: NDArray[np.float64] = np.minimum.reduce(scores)
        return lowest

    def left(self, histograms: Histograms) -> Counts:
        """Return how many records of each part the largest coalition leaves, the fewest over all requirements."""
        fewest = histograms[0][:, 0]
        for part, (layout, check) in self._m_private.items():
            left = check.records_left(layout.counts(histograms[self._place[part.sensitive]]))
            fewest = np.minimum(fewest, left)
        return fewest


def judge_of(
    parts: Sequence[GroupRequirement],
    sensitive: Mapping[str, Coded],
    n_rows: int,
    classes: Coded | None = None,
    merge: Merge = "violating",
) -> Judge:
    """Return the judge of requirements on one QID, which counts just the sensitive attributes that they name."""
    named = {part.sensitive for part in parts}
    counted = {name: coded for name, coded in sensitive.items() if name in named}
    return Judge(parts, counted, n_rows, classes, merge)
