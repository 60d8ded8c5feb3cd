"""How many people are unique among all of whom a release is a sample, by Ewens' sampling formula (Samuels 1998).

Its one parameter θ is fitted to the number of groups.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from masquerade.engine.counts import Counts, value_counts
from masquerade.privacy.check import reidentification_risk
from masquerade.risk.attacks.attack import MOST_RECORDS, Attack, Finding, Scene, people_of_groups

_HALVINGS = 64  # of 62 natural logarithms, to the last bit


class EwensUniqueness(Attack):
    """Population uniqueness by Ewens' sampling formula."""

    name = "population-uniqueness-ewens"
    summary = "the share of the population that is unique, estimated by Ewens' sampling formula"

    def run(self, scene: Scene) -> Iterator[Finding]:
        """θN/(θ + N − 1) unique people of N, with θ from the number of groups."""
        population, whence = scene.population_size
        share = ewens(int(scene.sizes.size), scene.records, population)
        meaning = (
            f"about {share:.2%} of {population:,} people ({whence}) are unique, by Ewens' sampling formula"
        )
        yield Finding(self.name, share, meaning)


def ewens(groups: int, records: int, population: int) -> float:
    """Return the share of the population that is unique, where a sample of it falls into `groups` groups."""
    if not groups or records < 1:
        return 0.0
    if groups >= records:
        return 1.0  # all are unique, however many there are
    position = np.arange(records, dtype=np.float64)
    terms = np.empty_like(position)  # one array for all steps: making it takes longer than filling it
    low, high = 1e-12, 1e15
    for _ in range(_HALVINGS):  # Σ θ/(θ + i) grows with θ
        middle = (low * high) ** 0.5
        np.divide(middle, np.add(middle, position, out=terms), out=terms)
        low, high = (middle, high) if terms.sum() < groups else (low, middle)
    return float(low / (low + population - 1))


# --- journalist ---------------------------------------------------------------------------------------------
# Journalist risk: how surely the record of anybody is found who might be in the release.


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


# --- linkage ------------------------------------------------------------------------------------------------
# Linkage: who of an outside table has one record in the release that fits.


class Linkage(Attack):
    """Somebody links the people of an outside table with records, by the attributes that both have."""

    name = "linkage"
    summary = "people of the outside table for whom one record alone fits; their rows are those of that table"
    needs = ("outside",)

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Count the records whose cells cover each person's."""
        assert scene.outside is not None
        people, who_fits = scene.outsiders
        fitting = np.zeros(people.sizes.size, np.int64)  # records, by person
        for size, met in zip(scene.groups.sizes, who_fits, strict=True):
            fitting[met] += size
        of_rows = fitting[people.groups]
        found = np.flatnonzero(of_rows == 1)
        linked = of_rows[of_rows > 0]
        confidence = float((1 / linked).mean()) if linked.size else 0.0
        meaning = (
            f"{found.size:,} of {of_rows.size:,} people have one record alone that fits by {', '.join(people.names)}; "
            f"a guess for each of the {linked.size:,} with any is right with probability {confidence:.4g} on average"
        )
        rows = tuple(scene.outside.source_row(int(row)) + 1 for row in found[:MOST_RECORDS])
        yield Finding(self.name, float(found.size), meaning, rows)


# --- marketer -----------------------------------------------------------------------------------------------
# Marketer risk: how many records are linked rightly when all are linked.


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


# --- prosecutor ---------------------------------------------------------------------------------------------
# Prosecutor risk: how surely the record of a person is found who is known to be in the release.


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


# --- zayatz uniqueness --------------------------------------------------------------------------------------
# How many records of a release are probably unique among all people, by Zayatz (1991).
#
# The sizes of the release's groups are taken for those of the population; Bayes' rule then says how likely
# a record that is unique here is unique there.


class ZayatzUniqueness(Attack):
    """Population uniqueness by Zayatz' estimator."""

    name = "population-uniqueness-zayatz"
    summary = "the share of records that are unique in the population, estimated by Zayatz (1991)"

    def run(self, scene: Scene) -> Iterator[Finding]:
        """Sample uniques times the chance that one is unique in the population, by Bayes."""
        population, whence = scene.population_size
        records = scene.records
        chance = zayatz(scene.sizes, records / population) if records else 0.0
        unique = int(np.count_nonzero(scene.sizes == 1))
        share = unique * chance / records if records else 0.0
        meaning = (
            f"of {unique:,} records that are unique here, about {unique * chance:,.1f} are unique among "
            f"{population:,} people ({whence}), by Zayatz"
        )
        yield Finding(self.name, share, meaning, scene.most_exposed((scene.sizes == 1) * chance))


def zayatz(sizes: Counts, fraction: float) -> float:
    """Return the chance that a group of one is one of the population, too; `fraction` of it was sampled."""
    if not np.any(sizes == 1):
        return 0.0
    of_size = value_counts(sizes, int(sizes.max()) + 1)[1:]
    size = np.arange(1, of_size.size + 1)
    seen_once = of_size * size * fraction * (1 - fraction) ** (size - 1)  # one of `size` people was drawn
    return float(seen_once[0] / seen_once.sum())
