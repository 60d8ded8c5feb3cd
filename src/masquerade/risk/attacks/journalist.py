"""Journalist risk: how surely the record of anybody is found who might be in the release."""

from __future__ import annotations

from collections.abc import Iterator

from masquerade.risk.attacks.attack import Attack, Finding, Scene
from masquerade.risk.attacks.fitting_people import people_of_groups


class Journalist(Attack):
    """Somebody looks for any person, among all people who might be in the release."""

    name = "journalist"
    summary = (
        "the highest chance of finding the record of somebody of the outside table, or else as prosecutor"
    )

    def run(self, scene: Scene) -> Iterator[Finding]:
        """1 / the fewest people of the population who fit a group."""
        people, whose = people_of_groups(scene)
        highest = float((1 / people).max()) if people.size else 0.0
        fewest = int(people.min()) if people.size else 0
        meaning = f"in the least protected group {fewest:,} people of {whose} fit a record, so a guess is right with "
        yield Finding(
            self.name, highest, meaning + f"probability {highest:.4g}", scene.most_exposed(1 / people)
        )
