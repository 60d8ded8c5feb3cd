"""Every attack, in the order in which they are reported."""

from __future__ import annotations

from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.background_knowledge import BackgroundKnowledge
from masquerade.risk.attacks.difference import Difference
from masquerade.risk.attacks.ewens_uniqueness import EwensUniqueness
from masquerade.risk.attacks.homogeneity import Homogeneity
from masquerade.risk.attacks.intersection import Intersection
from masquerade.risk.attacks.journalist import Journalist
from masquerade.risk.attacks.linkage import Linkage
from masquerade.risk.attacks.marketer import Marketer
from masquerade.risk.attacks.prosecutor import Prosecutor
from masquerade.risk.attacks.skewness import Skewness
from masquerade.risk.attacks.subtraction import Subtraction
from masquerade.risk.attacks.zayatz_uniqueness import ZayatzUniqueness

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
