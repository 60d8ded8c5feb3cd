"""Subtraction: providers take their own records out of each group, and look at who is left (the m-adversary).

Most is learned by whoever leaves the fewest others. In a group with records of more than m providers these are the m
with most records there; in one of fewer, all but the provider with fewest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.risk.attacks.attack import Attack, Finding, Scene


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
        colluding = np.minimum(m, np.count_nonzero(counts, axis=1) - 1)  # in each group, those who matter
        most_first = np.argsort(-counts, axis=1, kind="stable")
        ranked = np.take_along_axis(counts, most_first, axis=1)
        own = np.where(np.arange(len(names)) < colluding[:, None], ranked, 0).sum(axis=1)
        exposure = 1 / (scene.sizes - own)
        highest = float(exposure.max(initial=0.0))
        worst = int(exposure.argmax()) if exposure.size else 0
        who = most_first[worst, : colluding[worst]] if exposure.size else ()
        named = " and ".join(names[each] for each in who) or "nobody"
        meaning = (
            f"{named} can leave out own records and then finds a record of others with probability {highest:.4g}; "
            f"{int(np.count_nonzero(exposure == 1)):,} groups hide one record alone from some {m}"
        )
        yield Finding(self.name, highest, meaning, scene.most_exposed(exposure))
