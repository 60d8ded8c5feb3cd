"""How many people are unique among all of whom a release is a sample, by Ewens' sampling formula (Samuels 1998).

Its one parameter θ is fitted to the number of groups.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.risk.attacks.attack import Attack, Finding, Scene

_HALVINGS = 64  # of 62 natural logarithms, to the last bit


class EwensUniqueness(Attack):
    """Population uniqueness by Ewens' sampling formula."""

    name = "population-uniqueness-ewens"
    summary = "the share of the population that is unique, estimated by Ewens' sampling formula"

    def run(self, scene: Scene) -> Iterator[Finding]:
        """θN/(θ + N − 1) unique people of N, with θ from the number of groups."""
        population, whence = scene.population_size
        share = ewens(int(scene.sizes.size), scene.records, population)
        meaning = (
            f"about {share:.2%} of {population:,} people ({whence}) are unique, by Ewens' sampling formula"
        )
        yield Finding(self.name, share, meaning)


def ewens(groups: int, records: int, population: int) -> float:
    """Return the share of the population that is unique, where a sample of it falls into `groups` groups."""
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
