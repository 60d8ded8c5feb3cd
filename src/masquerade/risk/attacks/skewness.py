"""Skewness: a sensitive value that is far more frequent in a group than in the release (Li et al.)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.sensitive_histograms import histograms


class Skewness(Attack):
    """A sensitive value is far more frequent in a group than in the release."""

    name = "skewness"
    summary = "the largest rise in the probability of a sensitive value, from the whole release to a group"
    needs = ("sensitive",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """The largest difference of shares."""
        for name, counts in histograms(scene):
            whole = counts.sum(axis=0) / max(int(counts.sum()), 1)
            within = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
            rise = (within - whole).max(axis=1, initial=0.0)
            highest = float(rise.max(initial=0.0))
            meaning = f"in some group a value of {name} is {highest * 100:.1f} percentage points likelier than in all"
            yield Finding(self.name, highest, meaning, scene.most_exposed(rise))
