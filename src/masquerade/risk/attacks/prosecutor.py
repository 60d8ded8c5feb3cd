"""Prosecutor risk: how surely the record of a person is found who is known to be in the release."""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.privacy.reidentification import reidentification_risk
from masquerade.risk.attacks.attack import Attack, Finding, Scene


class Prosecutor(Attack):
    """Somebody who knows that a person is in the release looks for that person's record."""

    name = "prosecutor"
    summary = "the highest chance of finding the record of a person who is known to be in the release"

    def run(self, scene: Scene) -> Iterator[Finding]:
        """1 / the smallest group."""
        sizes = scene.sizes
        risk = reidentification_risk(sizes)
        alone = f"{risk.unique:,} of {scene.records:,} records are unique"
        meaning = f"the least protected record is found with probability {risk.highest:.4g}; {alone}"
        yield Finding(self.name, risk.highest, meaning, scene.most_exposed(1 / sizes))
