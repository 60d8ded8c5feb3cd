"""Skewness: a sensitive value, or a class, that is far more frequent in a group than in the release (Li et al.)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.sensitive_histograms import histograms


class Skewness(Attack):
    """A sensitive value, or a class, is far more frequent in a group than in the release."""

    name = "skewness"
    summary = (
        "the largest rise in the frequency of a sensitive value, or of a class, from the release to a group"
    )
    needs = ("learnable",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """The largest difference of shares."""
        for name, counts in histograms(scene, scene.learnable):
            whole = counts.sum(axis=0) / max(int(counts.sum()), 1)
            within = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
            rise = (within - whole).max(axis=1, initial=0.0)
            highest = float(rise.max(initial=0.0))
            meaning = (
                f"in the worst group one {name} value is {highest * 100:.1f} points more frequent "
                "than in the whole release"
            )
            yield Finding(self.name, highest, meaning, scene.most_exposed(rise), name)
