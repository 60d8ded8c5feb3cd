"""Homogeneity: a group whose records have one sensitive value tells it of everybody in it (Machanavajjhala et al.)."""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.sensitive_histograms import histograms, share_of


class Homogeneity(Attack):
    """All records of a group have one sensitive value."""

    name = "homogeneity"
    summary = "the share of records whose group has a single sensitive value"
    needs = ("sensitive",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Records in groups of one value."""
        for name, counts in histograms(scene):
            exposed = (counts > 0).sum(axis=1) == 1
            share = share_of(scene, exposed)
            meaning = (
                f"whoever knows the quasi-identifiers of a person knows {name} for {share:.2%} of the people"
            )
            yield Finding(self.name, share, meaning, scene.most_exposed(exposed.astype(float)))
