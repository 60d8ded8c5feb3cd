"""Intersection: a person is in one group of each release, and where these share one sensitive value, it is theirs.

Releases must be of the same people; groups meet where their cells do. Somebody who fits no group of a release is not in
it, and it tells nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from masquerade.data.table import Table
from masquerade.engine.counts import Rows
from masquerade.risk.attacks.attack import MOST_RECORDS, Attack, Finding, Scene
from masquerade.risk.attacks.boxes import Boxes


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
