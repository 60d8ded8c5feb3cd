"""How many records of a release are probably unique among all people, of whom the release is a sample.

Two estimators, which make different assumptions and may differ much: Zayatz (1991) takes the sizes of the release's
groups for those of the population; Ewens' sampling formula (Ewens 1972; for disclosure risk Samuels 1998) fits one
parameter to the number of groups.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.engine.counts import Counts, value_counts
from masquerade.risk.attacks.attack import Attack, Finding, Scene

_HALVINGS = 200


class ZayatzUniqueness(Attack):
    """Population uniqueness by Zayatz' estimator."""

    name = "population-uniqueness-zayatz"
    summary = "the share of records that are unique in the population, estimated by Zayatz (1991)"

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Sample uniques times the chance that one is unique in the population, by Bayes."""
        population, whence = scene.population_size
        records = len(scene.release)
        chance = zayatz(scene.groups.sizes, records / population) if records else 0.0
        unique = int(np.count_nonzero(scene.groups.sizes == 1))
        share = unique * chance / records if records else 0.0
        meaning = (
            f"of {unique:,} records that are unique here, about {unique * chance:,.1f} are unique among "
            f"{population:,} people ({whence}), by Zayatz"
        )
        yield Finding(self.name, share, meaning, scene.most_exposed((scene.groups.sizes == 1) * chance))


class EwensUniqueness(Attack):
    """Population uniqueness by Ewens' sampling formula."""

    name = "population-uniqueness-ewens"
    summary = "the share of the population that is unique, estimated by Ewens' sampling formula"

    def run(self, scene: Scene) -> Iterator[Finding]:
        """θN/(θ + N − 1) unique people of N, with θ from the number of groups."""
        population, whence = scene.population_size
        share = ewens(int(scene.groups.sizes.size), len(scene.release), population)
        meaning = (
            f"about {share:.2%} of {population:,} people ({whence}) are unique, by Ewens' sampling formula"
        )
        yield Finding(self.name, share, meaning)


def zayatz(sizes: Counts, fraction: float) -> float:
    """Return the chance that a group of one is one of the population, too; `fraction` of it was sampled."""
    if not np.any(sizes == 1):
        return 0.0
    of_size = value_counts(sizes, int(sizes.max()) + 1)[1:]
    size = np.arange(1, of_size.size + 1)
    seen_once = of_size * size * fraction * (1 - fraction) ** (size - 1)  # one of `size` people was drawn
    return float(seen_once[0] / seen_once.sum())


def ewens(groups: int, records: int, population: int) -> float:
    """Return the share of the population that is unique, where a sample of it falls into so many groups."""
    if not groups or records < 1:
        return 0.0
    if groups >= records:
        return 1.0  # all are unique, however many there are
    position = np.arange(records)
    low, high = 1e-12, 1e15
    for _ in range(_HALVINGS):  # Σ θ/(θ + i) grows with θ
        middle = (low * high) ** 0.5
        low, high = (middle, high) if (middle / (middle + position)).sum() < groups else (low, middle)
    return float(low / (low + population - 1))
