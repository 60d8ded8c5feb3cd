"""What a group tells about a sensitive attribute without telling which record is whose."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.engine.counts import Counts
from masquerade.risk.attacks.attack import Attack, Finding, Scene


class Homogeneity(Attack):
    """All records of a group have one sensitive value."""

    name = "homogeneity"
    summary = "the share of records whose group has a single sensitive value"
    needs = ("sensitive",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Records in groups of one value."""
        for name, counts in _histograms(scene):
            exposed = (counts > 0).sum(axis=1) == 1
            share = _share(scene, exposed)
            meaning = (
                f"whoever knows the quasi-identifiers of a person knows {name} for {share:.2%} of the people"
            )
            yield Finding(self.name, share, meaning, scene.most_exposed(exposed.astype(float)))


class Skewness(Attack):
    """A sensitive value is far more frequent in a group than in the release."""

    name = "skewness"
    summary = "the largest rise in the probability of a sensitive value, from the whole release to a group"
    needs = ("sensitive",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """The largest difference of shares."""
        for name, counts in _histograms(scene):
            whole = counts.sum(axis=0) / max(int(counts.sum()), 1)
            within = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
            rise = (within - whole).max(axis=1, initial=0.0)
            highest = float(rise.max(initial=0.0))
            meaning = f"in some group a value of {name} is {highest * 100:.1f} percentage points likelier than in all"
            yield Finding(self.name, highest, meaning, scene.most_exposed(rise))


class BackgroundKnowledge(Attack):
    """Somebody who can rule out one sensitive value knows the only other one."""

    name = "background-knowledge"
    summary = "the share of records whose sensitive value is known to whoever can rule out one value"
    needs = ("sensitive",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Records in groups of at most two values."""
        for name, counts in _histograms(scene):
            exposed = (counts > 0).sum(axis=1) <= 2
            share = _share(scene, exposed)
            meaning = f"whoever can rule out one value of {name} for a person knows it for {share:.2%} of the people"
            yield Finding(self.name, share, meaning, scene.most_exposed(exposed.astype(float)))


def _histograms(scene: Scene) -> Iterator[tuple[str, Counts]]:
    """Yield each sensitive attribute that is released, with its counts by group and value."""
    for name in scene.sensitive:
        if name in scene.release.arrow.column_names:
            coded = scene.release.coded(name)
            yield name, coded.histograms(scene.groups.groups, scene.groups.sizes.size)


def _share(scene: Scene, exposed: np.ndarray) -> float:
    return float(scene.groups.sizes[exposed].sum() / max(len(scene.release), 1))
