"""Subtraction: providers take their own records out of each group, and look at who is left (the m-adversary)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np

from masquerade.risk.attacks.attack import Attack, Finding, Scene

_MOST_COALITIONS = 20_000


class Subtraction(Attack):
    """Colluding providers of a joint release know their own records."""

    name = "subtraction"
    summary = (
        "the highest chance of finding another provider's record, for providers that leave out their own"
    )
    needs = ("provider",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """1 / the fewest records that any coalition leaves of a group."""
        assert scene.provider is not None
        if (found := scene.values_of(scene.provider)) is None:
            return
        names, counts = found
        m = min(scene.colluding, max(len(names) - 1, 0))
        exposure = np.zeros(scene.sizes.size)
        who: tuple[int, ...] = ()
        for coalition in islice(combinations(range(len(names)), m), _MOST_COALITIONS):
            left = scene.sizes - counts[:, coalition].sum(axis=1)
            chance = np.where(left > 0, 1 / np.maximum(left, 1), 0.0)
            if chance.max(initial=0.0) > exposure.max(initial=0.0):
                who = coalition
            exposure = np.maximum(exposure, chance)
        highest = float(exposure.max(initial=0.0))
        named = " and ".join(names[each] for each in who) or "nobody"
        meaning = (
            f"{named} can leave out own records and then finds a record of others with probability {highest:.4g}; "
            f"{int(np.count_nonzero(exposure == 1)):,} groups hide one record alone from some {m}"
        )
        yield Finding(self.name, highest, meaning, scene.most_exposed(exposure))
