"""Homogeneity: a group whose records have one sensitive value tells it of everybody in it (Machanavajjhala et al.).

A class is learned the same way: the purer the groups are in it, the better for a classifier, and for an attacker.
"""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.sensitive_histograms import histograms, share_of


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
