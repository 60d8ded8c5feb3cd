"""Every attack, in the order in which they are told."""

from __future__ import annotations

from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.attribute_disclosure import BackgroundKnowledge, Homogeneity, Skewness
from masquerade.risk.attacks.composition import Difference, Intersection
from masquerade.risk.attacks.linkage import Linkage
from masquerade.risk.attacks.population_uniqueness import EwensUniqueness, ZayatzUniqueness
from masquerade.risk.attacks.reidentification import Journalist, Marketer, Prosecutor
from masquerade.risk.attacks.subtraction import Subtraction

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
