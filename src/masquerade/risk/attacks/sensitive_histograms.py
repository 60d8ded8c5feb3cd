"""How often each sensitive value occurs in each group of a release, for the attacks on sensitive attributes."""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.engine.counts import Counts, Flags
from masquerade.risk.attacks.attack import Scene


def histograms(scene: Scene) -> Iterator[tuple[str, Counts]]:
    """Yield each sensitive attribute that is released, with its counts by group and value."""
    for name in scene.sensitive:
        if name in scene.release.arrow.column_names:
            coded = scene.release.coded(name)
            yield name, coded.histograms(scene.groups.groups, scene.groups.sizes.size)


def share_of(scene: Scene, exposed: Flags) -> float:
    """Return the share of the records that are in these groups."""
    return float(scene.groups.sizes[exposed].sum() / max(len(scene.release), 1))
