"""Intersection: a person is in one group of each release, and where these share one sensitive value, it is theirs.

Releases must be of the same people; groups meet where their cells do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from masquerade.data.table import Table
from masquerade.risk.attacks.attack import MOST_RECORDS, Attack, Finding, Scene
from masquerade.risk.attacks.boxes import Boxes


class Intersection(Attack):
    """The sensitive values that a person may have, by each of two releases."""

    name = "intersection"
    summary = "the share of records whose sensitive value only this and an earlier release together tell"
    needs = ("earlier", "sensitive")

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Look at every person of the original; without it, wherever groups of two releases meet."""
        for name in scene.sensitive:
            with_it = [each for each in scene.earlier if name in each.arrow.column_names]
            if name not in scene.release.arrow.column_names or not with_it:
                continue
            share, rows = _told(scene, name, with_it)
            who = "people" if scene.original is not None else "records, at most,"
            meaning = (
                f"for {share:.2%} of the {who} both releases together leave one value of {name}, each several"
            )
            yield Finding(self.name, share, meaning, rows)


def _told(scene: Scene, name: str, earlier: list[Table]) -> tuple[float, tuple[int, ...]]:
    """Return the share that is told apart, and with the original its first rows."""
    groups, original = scene.groups, scene.original
    people = None if original is None else scene.boxes_of(original, "the original")
    exposed = np.zeros((groups if people is None else people).sizes.size, bool)
    for release in earlier:
        before = scene.boxes_of(release, "the earlier release")
        shared = [each for each in before.names if people is None or each in people.names]
        if not shared:
            continue
        ours, theirs = groups.over(shared), before.over(shared)
        values, known = _values(scene.release, name, groups), _values(release, name, before)
        if people is not None:
            spots, owners = people.over(shared), np.arange(people.sizes.size)
        else:
            spots, owners = _meets(ours, theirs)
        for owner, mine, other in zip(owners, spots.meeting(ours), spots.meeting(theirs), strict=True):
            one, two = (
                set[str]().union(*(of[at] for at in met)) for of, met in ((values, mine), (known, other))
            )
            exposed[owner] |= len(one & two) == 1 and len(one) > 1 and len(two) > 1
    if people is None or original is None:
        return float(groups.sizes[exposed].sum() / max(len(scene.release), 1)), ()
    rows = np.flatnonzero(exposed[people.groups])
    first = tuple(original.source_row(int(row)) + 1 for row in rows[:MOST_RECORDS])
    return rows.size / max(len(original), 1), first


def _meets(ours: Boxes, theirs: Boxes) -> tuple[Boxes, NDArray[np.intp]]:
    """Return the boxes in which a group of each release meet, and the group of ours for each."""
    met = list(ours.meeting(theirs))
    owners = np.repeat(np.arange(len(met)), [each.size for each in met])
    others = np.concatenate([*met, np.empty(0, np.intp)]).astype(np.intp)
    lo = np.maximum(ours.lo[owners], theirs.lo[others])
    hi = np.minimum(ours.hi[owners], theirs.hi[others])
    return replace(ours, lo=lo, hi=hi), owners


def _values(release: Table, name: str, boxes: Boxes) -> list[set[str]]:
    """The sensitive values of each group."""
    coded = release.coded(name)
    counts = coded.histograms(boxes.groups, boxes.sizes.size)
    return [{coded.labels[at] for at in np.flatnonzero(row)} for row in counts]
