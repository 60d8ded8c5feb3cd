"""Every attack, in the order in which they are reported."""

from __future__ import annotations

from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.reidentification import (
    EwensUniqueness,
    Journalist,
    Linkage,
    Marketer,
    Prosecutor,
    ZayatzUniqueness,
)
from masquerade.risk.attacks.sensitive_values import BackgroundKnowledge, Homogeneity, Skewness
from masquerade.risk.attacks.several_releases import Difference, Intersection, Subtraction

ATTACKS: tuple[Attack, ...] = (
    Prosecutor(),
    Journalist(),
    Marketer(),
    ZayatzUniqueness(),
    EwensUniqueness(),
    Linkage(),
    Homogeneity(),
    Skewness(),
    BackgroundKnowledge(),
    Subtraction(),
    Intersection(),
    Difference(),
)


def attack(scene: Scene) -> list[Finding]:
    """Play every attack for which the scene has what it needs."""
    return [finding for each in ATTACKS if each.possible(scene) for finding in each.run(scene)]
