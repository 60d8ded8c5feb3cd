"""Difference: where a group of one release lies within a group of another, the rest of the larger one is small.

Releases must be of the same people; groups meet where their cells do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.risk.attacks.attack import Attack, Finding, Scene


class Difference(Attack):
    """The records that a group has beyond one within it, of another release."""

    name = "difference"
    summary = "the highest chance of finding a record among those that two releases group differently"
    needs = ("earlier",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """1 / the fewest records that are in a group of one release and in no group of the other within it."""
        exposure = np.zeros(scene.groups.sizes.size)
        for release in scene.earlier:
            before = scene.boxes_of(release, "the earlier release")
            groups = scene.groups.over(before.names)
            for group, (lo, hi) in enumerate(zip(groups.lo, groups.hi, strict=True)):
                within = before.inside(lo, hi)
                left = int(groups.sizes[group] - before.sizes[within].sum())
                if within.any() and left > 0:
                    exposure[group] = max(exposure[group], 1 / left)
            for other, met in enumerate(before.meeting(groups)):  # the earlier one may be the larger
                within = groups.inside(before.lo[other], before.hi[other])
                left = int(before.sizes[other] - groups.sizes[within].sum())
                if within.any() and left > 0:
                    across = met[~within[met]]
                    exposure[across] = np.maximum(exposure[across], 1 / left)
        highest = float(exposure.max(initial=0.0))
        meaning = (
            f"a group of one release without those of the other that lie in it leaves {round(1 / highest):,} records"
            if highest
            else "no group of one release lies in a group of the other and leaves some of its records"
        )
        yield Finding(self.name, highest, meaning, scene.most_exposed(exposure))
