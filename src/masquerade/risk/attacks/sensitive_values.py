"""Skewness: a sensitive value, or a class, that is far more frequent in a group than in the release (Li et al.)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.risk.attacks.attack import Attack, Finding, Scene, histograms, share_of

# --- background knowledge -----------------------------------------------------------------------------------
# Background knowledge: who can rule out one sensitive value knows the only other one (Machanavajjhala et
# al.).


class BackgroundKnowledge(Attack):
    """Somebody who can rule out one sensitive value knows the only other one."""

    name = "background-knowledge"
    summary = "the share of records whose sensitive value is known to whoever can rule out one value"
    needs = ("sensitive",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Records in groups of at most two values."""
        for name, counts in histograms(scene, scene.sensitive):
            exposed = (counts > 0).sum(axis=1) <= 2
            share = share_of(scene, exposed)
            meaning = f"whoever can rule out one value of {name} for a person knows it for {share:.2%} of the people"
            yield Finding(self.name, share, meaning, scene.most_exposed(exposed.astype(float)), name)


# --- homogeneity --------------------------------------------------------------------------------------------
# Homogeneity: a group whose records have one sensitive value tells it of everybody in it (Machanavajjhala
# et al.).
#
# A class is learned the same way: the purer the groups are in it, the better for a classifier, and for an
# attacker.


class Homogeneity(Attack):
    """All records of a group have one sensitive value, or one class."""

    name = "homogeneity"
    summary = "the share of records whose group has a single value of a sensitive attribute, or of the class"
    needs = ("learnable",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Records in groups of one value."""
        for name, counts in histograms(scene, scene.learnable):
            exposed = (counts > 0).sum(axis=1) == 1
            share = share_of(scene, exposed)
            meaning = (
                f"{share:.2%} of the records are in groups with a single {name}: "
                "whoever knows the quasi-identifiers of one of these people learns it"
            )
            yield Finding(self.name, share, meaning, scene.most_exposed(exposed.astype(float)), name)


# --- skewness -----------------------------------------------------------------------------------------------


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
