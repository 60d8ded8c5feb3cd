"""Intersection: a person is in one group of each release, and where these share one sensitive value, it is theirs.

Releases must be of the same people; groups meet where their cells do. Somebody who fits no group of a release is not in
it, and it tells nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from masquerade.data.table import Table
from masquerade.engine.counts import Rows, weighted_counts
from masquerade.risk.attacks.attack import MOST_RECORDS, Attack, Boxes, Finding, Scene

# --- difference ---------------------------------------------------------------------------------------------
# Difference: a group of one release, without the groups of another that share people with no other, leaves
# few.
#
# Releases must be of the same people; groups may share people where their cells meet. All people of a group
# that meets one group alone of the other release are in that one.


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


# --- intersection -------------------------------------------------------------------------------------------


class Intersection(Attack):
    """The sensitive values that a person may have, by each of several releases."""

    name = "intersection"
    summary = "the share of records whose sensitive value only this and earlier releases together tell"
    needs = ("earlier", "sensitive")

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Look at every person of the original; without it, wherever groups of all releases meet."""
        for name in scene.sensitive:
            with_it = [each for each in scene.earlier if name in each.arrow.column_names]
            if name not in scene.release.arrow.column_names or not with_it:
                continue
            share, rows = _told(scene, name, with_it)
            who = "people" if scene.original is not None else "records, at most,"
            meaning = (
                f"for {share:.2%} of the {who} all releases together leave one value of {name}, each several"
            )
            yield Finding(self.name, share, meaning, rows)


def _told(scene: Scene, name: str, earlier: list[Table]) -> tuple[float, tuple[int, ...]]:
    """Return the share that is told apart, and with the original its first rows."""
    groups, original = scene.groups, scene.original
    releases = [(groups, _values(scene.release, name, groups))]
    for release in earlier:
        boxes = scene.boxes_of(release, "the earlier release")
        releases.append((boxes, _values(release, name, boxes)))
    if original is None:
        spots, owners = _meets([boxes for boxes, _ in releases])
    else:
        spots = scene.boxes_of(original, "the original")
        owners = np.arange(spots.sizes.size)
    left: list[set[str] | None] = [None] * owners.size  # the values that are possible so far
    several = np.ones(owners.size, bool)
    for boxes, values in releases:
        known = [each for each in boxes.names if each in spots.names]
        for spot, met in enumerate(spots.over(known).meeting(boxes.over(known)) if known else ()):
            possible = set[str]().union(*(values[at] for at in met))
            if not possible:
                continue
            several[spot] &= len(possible) > 1
            so_far = left[spot]
            left[spot] = possible if so_far is None else so_far & possible
    told = several & np.array([each is not None and len(each) == 1 for each in left], bool)
    exposed = np.zeros((groups if original is None else spots).sizes.size, bool)
    exposed[owners[told]] = True
    if original is None:
        return float(groups.sizes[exposed].sum() / max(len(scene.release), 1)), ()
    rows = np.flatnonzero(exposed[spots.groups])
    first = tuple(original.source_row(int(row)) + 1 for row in rows[:MOST_RECORDS])
    return rows.size / max(len(original), 1), first


def _meets(releases: list[Boxes]) -> tuple[Boxes, Rows]:
    """Return the boxes in which a group of each release meet, and the group of the first for each."""
    spots, owners = releases[0], np.arange(releases[0].sizes.size)
    for other in releases[1:]:
        shared = [spots.names.index(each) for each in other.names]
        met = list(spots.over(other.names).meeting(other))
        own = np.repeat(np.arange(len(met)), [each.size for each in met])
        theirs = np.concatenate([np.empty(0, np.intp), *met])
        lo, hi = spots.lo[own], spots.hi[own]
        lo[:, shared] = np.maximum(lo[:, shared], other.lo[theirs])
        hi[:, shared] = np.minimum(hi[:, shared], other.hi[theirs])
        spots, owners = replace(spots, lo=lo, hi=hi), owners[own]
    return spots, owners


def _values(release: Table, name: str, boxes: Boxes) -> list[set[str]]:
    """The sensitive values of each group."""
    coded = release.coded(name)
    counts = coded.histograms(boxes.groups, boxes.sizes.size)
    return [{coded.labels[at] for at in np.flatnonzero(row)} for row in counts]


# --- subtraction --------------------------------------------------------------------------------------------
# Subtraction: providers take their own records out of each group, and look at who is left (the
# m-adversary).
#
# Most is learned by whoever leaves the fewest others. In a group with records of more than m providers
# these are the m with most records there; in one of fewer, all but the provider with fewest.


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
