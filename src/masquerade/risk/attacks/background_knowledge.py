"""Background knowledge: who can rule out one sensitive value knows the only other one (Machanavajjhala et al.)."""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.sensitive_histograms import histograms, share_of


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
