"""Difference: a group of one release, without the groups of another that share people with no other, leaves few.

Releases must be of the same people; groups may share people where their cells meet. All people of a group that meets
one group alone of the other release are in that one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.engine.counts import Rows, weighted_counts
from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.boxes import Boxes


class Difference(Attack):
    """The records that a group has beyond those of another release that must all be in it."""

    name = "difference"
    summary = "the highest chance of finding a record among those that two releases group differently"
    needs = ("earlier",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """1 / the fewest records that are left of a group of either release."""
        exposure = np.zeros(scene.groups.sizes.size)
        for release in scene.earlier:
            before, _ = scene.boxes_of(release, "the earlier release").distinct()
            ours, of_group = scene.groups.over(before.names).distinct()
            exposed = np.zeros(ours.sizes.size)
            for group, left, _ in _left_over(ours, before):
                exposed[group] = max(exposed[group], 1 / left)
            for _, left, among in _left_over(before, ours):
                exposed[among] = np.maximum(exposed[among], 1 / left)
            exposure = np.maximum(exposure, exposed[of_group])
        highest = float(exposure.max(initial=0.0))
        meaning = (
            f"a group of one release without those of the other that lie in it leaves {round(1 / highest):,} records"
            if highest
            else "no group of one release lies in a group of the other and leaves some of its records"
        )
        yield Finding(self.name, highest, meaning, scene.most_exposed(exposure))


def _left_over(outer: Boxes, inner: Boxes) -> Iterator[tuple[int, int, Rows]]:
    """Yield each outer group of which inner ones leave some records, how many, and the inner groups they may be in."""
    met = list(inner.meeting(outer))
    within = np.array([each.size == 1 for each in met], bool)
    homes = np.concatenate([np.empty(0, np.intp), *(each for each in met if each.size == 1)])
    taken = weighted_counts(homes, inner.sizes[within], outer.sizes.size).astype(np.int64)
    left = outer.sizes - taken
    for group, others in enumerate(outer.meeting(inner)):
        if taken[group] and left[group] > 0:
            yield group, int(left[group]), others[~within[others]]
