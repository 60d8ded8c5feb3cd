"""A site's own sums over those at risk, at each death of all sites, as Efron counts tied ones.

At a time with d deaths, the i-th of them counts the dead as at risk by 1 − (i − 1)/d. Every death is a row here: the
sums of weights, of weights times attributes, and of weights times products of two attributes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import value_counts, weighted_counts
from masquerade.protocol.learn.identified import Determined, Moments

Numbers = NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True)
class Deaths:
    """How many deaths all sites have at which time; `times` increase, and no count is 0."""

    times: Steps
    counts: Steps

    @property
    def total(self) -> int:
        """The number of all deaths."""
        return int(self.counts.sum())

    @property
    def at(self) -> NDArray[np.intp]:
        """The time of each death, as an index."""
        return np.repeat(np.arange(self.times.size), self.counts)

    @property
    def firsts(self) -> NDArray[np.intp]:
        """The first death of each time."""
        return np.cumsum(self.counts) - self.counts

    @property
    def less(self) -> Numbers:
        """By how much the dead count less at each death: (i − 1)/d."""
        order = np.arange(self.total) - self.firsts[self.at]
        return np.asarray(order / self.counts[self.at])


@dataclass(frozen=True)
class Survival:
    """Records that are followed up: attributes, the step of time at which each leaves, and whether by death."""

    x: Numbers
    steps: Steps
    died: NDArray[np.bool_]

    def standardised(self, known: Determined, every: Moments) -> Survival:
        """Return the same patients with the columns to fit, each of mean 0 and deviation 1 over all sites."""
        x = (self.x[:, known.kept] - every.mean[known.kept]) / every.deviation[known.kept]
        return Survival(x, self.steps, self.died)

    def death_counts(self, last: int) -> Numbers:
        """Return how many died at each step from 0 to the last."""
        return value_counts(self.steps[self.died], last + 1).astype(np.float64)

    def sums(self, weights: Numbers, deaths: Deaths) -> tuple[Numbers, Numbers, Numbers]:
        """Return at each death of all sites the sums of weights, with attributes, and with products of two."""
        p = self.x.shape[1]
        first, second = np.triu_indices(p)
        terms = np.column_stack([np.ones(len(self.x)), self.x, self.x[:, first] * self.x[:, second]])
        terms *= weights[:, None]
        order = np.argsort(self.steps, kind="stable")
        left = np.concatenate([np.cumsum(terms[order][::-1], axis=0)[::-1], np.zeros((1, terms.shape[1]))])
        at_risk = left[np.searchsorted(self.steps[order], deaths.times)]
        place = np.searchsorted(deaths.times, self.steps[self.died])
        dead = np.column_stack(
            [weighted_counts(place, term, deaths.times.size) for term in terms[self.died].T]
        )
        rows = at_risk[deaths.at] - deaths.less[:, None] * dead[deaths.at]
        return np.maximum(rows[:, 0], 0.0), rows[:, 1 : p + 1], rows[:, p + 1 :]
