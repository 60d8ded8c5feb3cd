"""Prosecutor, journalist and marketer risk: how surely a person's record is found by its quasi-identifiers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from masquerade.privacy.reidentification import reidentification_risk
from masquerade.risk.attacks.attack import Attack, Finding, Scene


class Prosecutor(Attack):
    """Somebody who knows that a person is in the release looks for that person's record."""

    name = "prosecutor"
    summary = "the highest chance of finding the record of a person who is known to be in the release"

    def run(self, scene: Scene) -> Iterator[Finding]:
        """1 / the smallest group."""
        sizes = scene.groups.sizes
        risk = reidentification_risk(sizes)
        alone = f"{risk.unique:,} of {len(scene.release):,} records are unique"
        meaning = f"the least protected record is found with probability {risk.highest:.4g}; {alone}"
        yield Finding(self.name, risk.highest, meaning, scene.most_exposed(1 / sizes))


class Journalist(Attack):
    """Somebody looks for any person, among all people who might be in the release."""

    name = "journalist"
    summary = (
        "the highest chance of finding the record of somebody of the outside table, or else as prosecutor"
    )

    def run(self, scene: Scene) -> Iterator[Finding]:
        """1 / the fewest people of the population who fit a group."""
        people, whose = _people_of_groups(scene)
        highest = float((1 / people).max()) if people.size else 0.0
        fewest = int(people.min()) if people.size else 0
        meaning = f"in the least protected group {fewest:,} people of {whose} fit a record, so a guess is right with "
        yield Finding(
            self.name, highest, meaning + f"probability {highest:.4g}", scene.most_exposed(1 / people)
        )


class Marketer(Attack):
    """Somebody links everybody, and is content with the share that is right."""

    name = "marketer"
    summary = "the share of records that are linked rightly when everybody is linked"

    def run(self, scene: Scene) -> Iterator[Finding]:
        """The mean, over the records, of 1 / the people who fit."""
        people, whose = _people_of_groups(scene)
        sizes = scene.groups.sizes
        mean = float((sizes / people).sum() / sizes.sum()) if sizes.size else 0.0
        meaning = f"who links every record to one of the people of {whose} who fit it is right in {mean:.2%}"
        yield Finding(self.name, mean, meaning)


def _people_of_groups(scene: Scene) -> tuple[NDArray[np.float64], str]:
    """Count the people who fit each group: of the outside table, but no fewer than are in the release."""
    sizes = scene.groups.sizes.astype(float)
    if scene.outside is None:
        return sizes, "the release"
    people = scene.boxes_of(scene.outside, "the outside table")
    fit = np.array(
        [people.sizes[met].sum() for met in scene.groups.over(people.names).meeting(people)], float
    )
    return np.maximum(fit, sizes), "the outside table"
