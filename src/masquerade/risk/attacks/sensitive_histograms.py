"""How often each value of a column occurs in each group of a release, for the attacks on such values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from masquerade.engine.counts import Counts, Flags
from masquerade.risk.attacks.attack import Scene


def histograms(scene: Scene, columns: Sequence[str]) -> Iterator[tuple[str, Counts]]:
    """Yield each of these columns that is released, with its counts by group and value."""
    for name in columns:
        if (found := scene.values_of(name)) is not None:
            yield name, found[1]


def share_of(scene: Scene, exposed: Flags) -> float:
    """Return the share of the records that are in these groups."""
    return float(scene.sizes[exposed].sum() / max(scene.records, 1))
