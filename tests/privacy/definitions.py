"""The requirements as the literature defines them, on plain lists of sensitive values, in exact fractions.

Every model of the registry has one entry in `DEFINITIONS`; the suites of `tests/privacy` and `tests/contract` run over
them. A new model needs an entry, and nothing else in the tests.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Any

import pytest

from masquerade.privacy import (
    REQUIREMENTS,
    AlphaKAnonymity,
    ConfidenceBounding,
    ConstrainedKAnonymity,
    EntropyLDiversity,
    GroupRequirement,
    KAnonymity,
    LDiversity,
    MPrivacy,
    MPrivateGroups,
    PSensitiveKAnonymity,
    RecursiveLDiversity,
    TCloseness,
    can_wrap,
)

Group = Sequence[Any]  # the sensitive value of each record; for m-privacy (provider, value) of each

QID = ("age", "job")
SENSITIVE = "disease"
PROVIDER = "hospital"


@dataclass(frozen=True)
class Definition:
    """A model as its paper has it: ways to make it, when a group of a table satisfies it, and the group's figure.

    The examples have parameters that groups of a few records with the values a, b, c and d sometimes satisfy.
    """

    examples: tuple[Callable[[Sequence[str]], GroupRequirement], ...]
    satisfied: Callable[[Any, Group, Group], bool]
    figure: Callable[[Any, Group, Group], float]


def exact(number: float) -> Fraction:
    """0.29 as a person means it: 29/100."""
    return Fraction(str(number))


def mass_moved(group: Group, table: Group) -> Fraction:
    """Earth mover's distance when all values are equally far apart: the mass that must go elsewhere."""
    here, there = Counter(group), Counter(table)
    surplus = (Fraction(here[v], len(group)) - Fraction(there[v], len(table)) for v in there)
    return sum((max(s, Fraction(0)) for s in surplus), Fraction(0))


def work_along_the_line(group: Group, table: Group, order: Sequence[str]) -> Fraction:
    """Earth mover's distance on ordered values: sort both sides, and carry the n-th grain to the n-th."""
    place = {value: position for position, value in enumerate(order)}
    # Both sides as equally many grains, so that each grain has one partner.
    here = sorted(place[v] for v in group for _ in range(len(table)))
    there = sorted(place[v] for v in table for _ in range(len(group)))
    steps = sum(abs(a - b) for a, b in zip(here, there, strict=True))
    return Fraction(steps, len(here) * max(len(order) - 1, 1))


# Of the values a, b, c and d: a and b are near, c is farther away, d the farthest.
ROWS = ("a;ab;abc;any", "b;ab;abc;any", "c;abc;any", "d;any")


def work_on_the_tree(group: Group, table: Group, rows: Sequence[str]) -> Fraction:
    """Li et al., section 5.3: each node's height over the tree's, times its children's surplus or lack, if smaller."""
    children: dict[str, set[str]] = {}
    for row in rows:
        path = row.split(";")
        for child, parent in pairwise(path):
            children.setdefault(parent, set()).add(child)

    def height(name: str) -> int:
        return 1 + max(map(height, children[name])) if name in children else 0

    def extra(name: str) -> Fraction:
        if name in children:
            return sum(map(extra, children[name]), Fraction(0))
        here, there = Counter(group), Counter(table)
        return Fraction(here[name], len(group)) - Fraction(there[name], len(table))

    root = rows[0].split(";")[-1]
    work = Fraction(0)
    for name, below in children.items():
        surplus = sum((max(extra(child), Fraction(0)) for child in below), Fraction(0))
        lack = sum((max(-extra(child), Fraction(0)) for child in below), Fraction(0))
        work += Fraction(height(name), height(root)) * min(surplus, lack)
    return work


def effective_values(group: Group) -> float:
    """As many equally frequent values have the same entropy."""
    return math.prod((len(group) / count) ** (count / len(group)) for count in Counter(group).values())


def ratio_to_tail(requirement: RecursiveLDiversity, group: Group) -> float:
    """The most frequent value against all from the l-th on."""
    counts = sorted(Counter(group).values(), reverse=True)
    return counts[0] / sum(counts[requirement.l - 1 :]) if len(counts) >= requirement.l else math.inf


def recursively_diverse(requirement: RecursiveLDiversity, group: Group) -> bool:
    counts = sorted(Counter(group).values(), reverse=True)
    return len(counts) >= requirement.l and counts[0] < exact(requirement.c) * sum(counts[requirement.l - 1 :])


def distance(requirement: TCloseness, group: Group, table: Group) -> Fraction:
    if requirement.distance == "hierarchical":
        return work_on_the_tree(group, table, requirement.taxonomy or ())
    ordered = requirement.distance == "ordered"
    return work_along_the_line(group, table, sorted(set(table))) if ordered else mass_moved(group, table)


def largest_share(requirement: AlphaKAnonymity | ConfidenceBounding, group: Group) -> Fraction:
    """Of a listed value, or of any."""
    counts = Counter(group)
    return max(Fraction(counts[value], len(group)) for value in requirement.values or counts)


def leftovers(records: Group, m: int) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Each coalition of providers that counts, and what it can leave: others' records with any of its own."""
    providers = sorted({who for who, _ in records})
    for size in range(min(m, len(providers) - 1) + 1):
        for coalition in combinations(providers, size):
            others = [value for who, value in records if who not in coalition]
            own = Counter(value for who, value in records if who in coalition)
            for kept in product(*(range(times + 1) for times in own.values())):
                extra = [value for value, times in zip(own, kept, strict=True) for _ in range(times)]
                yield coalition, others + extra


def private(parts: Sequence[GroupRequirement], records: Group, table: Group, m: int) -> bool:
    """Definition 2.1 of m-privacy; `table` has sensitive values alone."""
    return all(satisfied(part, left, table) for _, left in leftovers(records, m) for part in parts)


def withstood(requirement: MPrivateGroups, records: Group, table: Group) -> int:
    """How many colluding providers, up to m; -1 where not even outsiders."""
    values = [value for _, value in table]
    powers = range(requirement.m + 1)
    return sum(private(requirement.members, records, values, power) for power in powers) - 1


DEFINITIONS = {
    "k-anonymity": Definition(
        (lambda qid: KAnonymity(qid, 2),),
        satisfied=lambda want, group, table: len(group) >= want.k,
        figure=lambda want, group, table: len(group),
    ),
    "constrained-k-anonymity": Definition(  # the boundaries are those of the attributes, which groups do not tell
        (lambda qid: ConstrainedKAnonymity(qid, 2),),
        satisfied=lambda want, group, table: len(group) >= want.k,
        figure=lambda want, group, table: len(group),
    ),
    "l-diversity": Definition(
        (lambda qid: LDiversity(qid, 2, SENSITIVE),),
        satisfied=lambda want, group, table: len(set(group)) >= want.l,
        figure=lambda want, group, table: len(set(group)),
    ),
    "entropy-l-diversity": Definition(
        (lambda qid: EntropyLDiversity(qid, 2, SENSITIVE), lambda qid: EntropyLDiversity(qid, 1.7, SENSITIVE)),
        satisfied=lambda want, group, table: math.log(effective_values(group)) >= math.log(want.l) - 1e-10,
        figure=lambda want, group, table: effective_values(group),
    ),
    "recursive-l-diversity": Definition(
        (
            lambda qid: RecursiveLDiversity(qid, 2, 2, SENSITIVE),
            lambda qid: RecursiveLDiversity(qid, 3, 3, SENSITIVE),
            lambda qid: RecursiveLDiversity(qid, 0.6, 1, SENSITIVE),
        ),
        satisfied=lambda want, group, table: recursively_diverse(want, group),
        figure=lambda want, group, table: ratio_to_tail(want, group),
    ),
    "t-closeness": Definition(
        (
            lambda qid: TCloseness(qid, 0.3, SENSITIVE),
            lambda qid: TCloseness(qid, 0.2, SENSITIVE, "ordered"),
            lambda qid: TCloseness(qid, 0.2, SENSITIVE, "hierarchical", ROWS),
        ),
        satisfied=lambda want, group, table: distance(want, group, table) <= exact(want.t),
        figure=lambda want, group, table: float(distance(want, group, table)),
    ),
    "alpha-k-anonymity": Definition(
        (
            lambda qid: AlphaKAnonymity(qid, 0.6, 2, SENSITIVE),
            lambda qid: AlphaKAnonymity(qid, 0.3, 2, SENSITIVE, ["a", "c"]),
        ),
        satisfied=lambda want, group, table: len(group) >= want.k and largest_share(want, group) <= exact(want.alpha),
        figure=lambda want, group, table: float(largest_share(want, group)),
    ),
    "confidence-bounding": Definition(
        (
            lambda qid: ConfidenceBounding(qid, 0.5, SENSITIVE),
            lambda qid: ConfidenceBounding(qid, 0.3, SENSITIVE, ["b"]),
        ),
        satisfied=lambda want, group, table: largest_share(want, group) <= exact(want.confidence),
        figure=lambda want, group, table: float(largest_share(want, group)),
    ),
    "p-sensitive-k-anonymity": Definition(
        (lambda qid: PSensitiveKAnonymity(qid, 2, 3, SENSITIVE),),
        satisfied=lambda want, group, table: len(group) >= want.k and len(set(group)) >= want.p,
        figure=lambda want, group, table: len(set(group)),
    ),
    "m-privacy": Definition(
        (
            lambda qid: MPrivacy(1, KAnonymity(qid, 2) & LDiversity(qid, 2, SENSITIVE), PROVIDER).parts[0],
            lambda qid: MPrivacy(1, ConfidenceBounding(qid, 0.8, SENSITIVE), PROVIDER).parts[0],
        ),
        satisfied=lambda want, group, table: withstood(want, group, table) == want.m,
        figure=withstood,
    ),
}


def definition_of(model: str) -> Definition:
    if model not in DEFINITIONS:
        pytest.fail(f"{model} has no definition to be tested by; add an entry to tests/privacy/definitions.py")
    return DEFINITIONS[model]


def satisfied(requirement: GroupRequirement, group: Group, table: Group) -> bool:
    """Whether a group of a table satisfies the requirement."""
    return definition_of(requirement.model).satisfied(requirement, group, table)


def figure(requirement: GroupRequirement, group: Group, table: Group) -> float:
    """A group's figure."""
    return definition_of(requirement.model).figure(requirement, group, table)


# Ways to make the models that look at groups as they are.
EXAMPLES = [make for model in REQUIREMENTS.plain for make in definition_of(model).examples]
# Of those, the ones that m-privacy can wrap.
WRAPPED = [make for make in EXAMPLES if can_wrap(make(QID))]
