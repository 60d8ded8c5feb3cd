"""Marketer risk: how many records are linked rightly when all are linked."""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.fitting_people import people_of_groups


class Marketer(Attack):
    """Somebody links everybody, and is content with the share that is right."""

    name = "marketer"
    summary = "the share of records that are linked rightly when everybody is linked"

    def run(self, scene: Scene) -> Iterator[Finding]:
        """The mean, over the records, of 1 / the people who fit."""
        people, whose = people_of_groups(scene)
        sizes = scene.sizes
        mean = float((sizes / people).sum() / sizes.sum()) if sizes.size else 0.0
        meaning = f"who links every record to one of the people of {whose} who fit it is right in {mean:.2%}"
        yield Finding(self.name, mean, meaning)
