"""The judge of a trusted third party: it has all records and counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts, Rows, pair_counts, value_counts
from masquerade.net import Script
from masquerade.protocol.providers.criterion import Criterion, WholeCounts
from masquerade.protocol.providers.tree import Answers

Codes = NDArray[np.int64]

_NOBODY = np.iinfo(np.int64).max  # the fitness of no part at all


@dataclass(frozen=True, eq=False)
class SensitiveCodes:
    """A sensitive attribute: each row's value as a number among the values of all providers."""

    codes: Codes
    labels: tuple[str, ...]

    def of_rows(self, rows: Rows) -> SensitiveCodes:
        """Return the same for these rows alone; the values stay those of all."""
        return SensitiveCodes(self.codes[rows], self.labels)

    @property
    def n_values(self) -> int:
        """How many values all providers have."""
        return len(self.labels)

    def tally(self, rows: Rows) -> Counts:
        """Return how many of these rows have each value."""
        return value_counts(self.codes[rows], self.n_values)

    @property
    def whole(self) -> WholeCounts:
        """All rows' counts."""
        return WholeCounts(value_counts(self.codes, self.n_values).reshape(1, -1), self.labels)


class CountingJudge:
    """Answers from the records themselves; `providers` has each row's provider by number."""

    def __init__(self, criterion: Criterion, providers: Codes, sensitive: Sequence[SensitiveCodes]) -> None:
        self._criterion, self._providers, self._sensitive = criterion, providers, tuple(sensitive)
        self._wholes = [each.whole for each in sensitive]

    def of_rows(self, rows: Rows) -> CountingJudge:
        """Return the judge of these rows alone."""
        return CountingJudge(self._criterion, self._providers[rows], [each.of_rows(rows) for each in self._sensitive])

    def whole(self, rows: Rows) -> Script[Answers]:
        """Judge the group of all records; raise with the reason if it is refused."""
        criterion = self._criterion.of_whole
        counts, tallies = self._counted([rows])
        yield from ()
        if not criterion.good(counts, tallies, self._wholes)[0]:
            n_values = [each.n_values for each in self._sensitive]
            raise criterion.unreachable(n_values, bool(criterion.enough(counts)[0]))
        return Answers(np.zeros(1, bool), np.ones(1, bool), criterion.divisible(counts))

    def verdicts(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part."""
        counts, tallies = self._counted(parts)
        yield from ()  # makes it a script, though there is no peer to ask
        private = self._criterion.good(counts, tallies, self._wholes)
        return Answers(counts.sum(axis=1) == 0, private, private & self._criterion.divisible(counts))

    def acceptable(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part; what is empty and what is refused is the same."""
        told = yield from self.verdicts(parts)
        return replace(told, empty=~told.private)

    def _counted(self, parts: Sequence[Rows]) -> tuple[Counts, list[Counts]]:
        """Count the records of each part by provider, and by provider and value."""
        sizes = np.array([part.size for part in parts], np.int64)
        label = np.repeat(np.arange(len(parts)), sizes)
        rows = np.concatenate(parts) if parts else np.zeros(0, np.intp)
        n_providers = self._criterion.n_providers
        feeding = label * n_providers + self._providers[rows]
        counts = value_counts(feeding, len(parts) * n_providers).reshape(-1, n_providers)
        tallies = [
            pair_counts(feeding, each.codes[rows], counts.size, each.n_values).reshape(
                len(parts), n_providers, each.n_values
            )
            for each in self._sensitive
        ]
        return counts, tallies

    def lone_verdicts(self, parts: Sequence[tuple[int, Rows]]) -> Script[Answers]:
        """Judge parts of one provider each, without saying whether they are divisible."""
        told = yield from self.verdicts([rows for _, rows in parts])
        return replace(told, divisible=np.zeros(len(parts), bool))

    def sole(self, families: Sequence[Sequence[Rows]]) -> Script[list[int]]:
        """Return, for each family of parts, the index of the only non-empty one; −1 when there are several."""
        found = []
        for parts in families:
            filled = [number for number, part in enumerate(parts) if part.size]
            found.append(filled[0] if len(filled) == 1 else -1)
        yield from ()
        return found

    def fittest(self, choices: Sequence[Sequence[Sequence[Rows]]]) -> Script[list[int]]:
        """Return, for each choice between cuts, the index of the one whose least fit part is fittest."""
        found = []
        for cuts in choices:
            scores = []
            for parts in cuts:
                counts, tallies = self._counted([part for part in parts if part.size])
                private = self._criterion.good(counts, tallies, self._wholes).all()
                least = int(self._criterion.fitness(counts, tallies).min(initial=_NOBODY))
                scores.append(least if private else -1)
            best = int(np.argmax(scores))  # the first on a tie
            found.append(best if scores[best] >= 0 else -1)
        yield from ()
        return found
