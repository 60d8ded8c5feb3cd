"""How many records of a release are probably unique among all people, by Zayatz (1991).

The sizes of the release's groups are taken for those of the population; Bayes' rule then says how likely a record that
is unique here is unique there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.engine.counts import Counts, value_counts
from masquerade.risk.attacks.attack import Attack, Finding, Scene


class ZayatzUniqueness(Attack):
    """Population uniqueness by Zayatz' estimator."""

    name = "population-uniqueness-zayatz"
    summary = "the share of records that are unique in the population, estimated by Zayatz (1991)"

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Sample uniques times the chance that one is unique in the population, by Bayes."""
        population, whence = scene.population_size
        records = scene.records
        chance = zayatz(scene.sizes, records / population) if records else 0.0
        unique = int(np.count_nonzero(scene.sizes == 1))
        share = unique * chance / records if records else 0.0
        meaning = (
            f"of {unique:,} records that are unique here, about {unique * chance:,.1f} are unique among "
            f"{population:,} people ({whence}), by Zayatz"
        )
        yield Finding(self.name, share, meaning, scene.most_exposed((scene.sizes == 1) * chance))


def zayatz(sizes: Counts, fraction: float) -> float:
    """Return the chance that a group of one is one of the population, too; `fraction` of it was sampled."""
    if not np.any(sizes == 1):
        return 0.0
    of_size = value_counts(sizes, int(sizes.max()) + 1)[1:]
    size = np.arange(1, of_size.size + 1)
    seen_once = of_size * size * fraction * (1 - fraction) ** (size - 1)  # one of `size` people was drawn
    return float(seen_once[0] / seen_once.sum())
