"""The requirements as the literature defines them, on plain lists of sensitive values, in exact fractions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from masquerade.privacy.alpha_k_anonymity import AlphaKAnonymity
from masquerade.privacy.confidence_bounding import ConfidenceBounding
from masquerade.privacy.entropy_l_diversity import EntropyLDiversity
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.p_sensitive_k_anonymity import PSensitiveKAnonymity
from masquerade.privacy.recursive_l_diversity import RecursiveLDiversity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.privacy.t_closeness import TCloseness

Group = Sequence[str]


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


def satisfied(requirement: GroupRequirement, group: Group, table: Group) -> bool:
    """Whether a group of a table satisfies the requirement."""
    counts = Counter(group)
    n = len(group)
    match requirement:
        case KAnonymity(k=k):
            return n >= k
        case LDiversity(l=l):
            return len(counts) >= l
        case EntropyLDiversity(l=l):
            entropy = -sum(c / n * math.log(c / n) for c in counts.values())
            return entropy >= math.log(l) - 1e-10
        case RecursiveLDiversity(c=c, l=l):
            r = sorted(counts.values(), reverse=True)
            return len(r) >= l and r[0] < exact(c) * sum(r[l - 1 :])
        case TCloseness(t=t, distance="equal"):
            return mass_moved(group, table) <= exact(t)
        case TCloseness(t=t, distance="ordered"):
            return work_along_the_line(group, table, sorted(set(table))) <= exact(t)
        case AlphaKAnonymity(alpha=alpha, k=k, values=values):
            return n >= k and all(Fraction(counts[v], n) <= exact(alpha) for v in values or counts)
        case ConfidenceBounding(confidence=confidence, values=values):
            return all(Fraction(counts[v], n) <= exact(confidence) for v in values or counts)
        case PSensitiveKAnonymity(p=p, k=k):
            return n >= k and len(counts) >= p
    raise AssertionError(requirement)


def figure(requirement: GroupRequirement, group: Group, table: Group) -> float:
    """A group's figure."""
    counts = Counter(group)
    n = len(group)
    match requirement:
        case KAnonymity():
            return n
        case LDiversity() | PSensitiveKAnonymity():
            return len(counts)
        case EntropyLDiversity():
            return math.prod((n / c) ** (c / n) for c in counts.values())
        case RecursiveLDiversity(l=l):
            r = sorted(counts.values(), reverse=True)
            return r[0] / sum(r[l - 1 :]) if len(r) >= l else math.inf
        case TCloseness(distance="equal"):
            return float(mass_moved(group, table))
        case TCloseness(distance="ordered"):
            return float(work_along_the_line(group, table, sorted(set(table))))
        case AlphaKAnonymity(values=values) | ConfidenceBounding(values=values):
            return max(counts[v] / n for v in values or counts)
    raise AssertionError(requirement)


QID = ("age", "job")
SENSITIVE = "disease"

# One way to make each model, with parameters that groups of a few records sometimes satisfy.
EXAMPLES: list[Callable[[Sequence[str]], GroupRequirement]] = [
    lambda qid: KAnonymity(qid, 2),
    lambda qid: LDiversity(qid, 2, SENSITIVE),
    lambda qid: EntropyLDiversity(qid, 2, SENSITIVE),
    lambda qid: EntropyLDiversity(qid, 1.7, SENSITIVE),
    lambda qid: RecursiveLDiversity(qid, 2, 2, SENSITIVE),
    lambda qid: RecursiveLDiversity(qid, 3, 3, SENSITIVE),
    lambda qid: RecursiveLDiversity(qid, 0.6, 1, SENSITIVE),
    lambda qid: TCloseness(qid, 0.3, SENSITIVE),
    lambda qid: TCloseness(qid, 0.2, SENSITIVE, "ordered"),
    lambda qid: AlphaKAnonymity(qid, 0.6, 2, SENSITIVE),
    lambda qid: AlphaKAnonymity(qid, 0.3, 2, SENSITIVE, ["a", "c"]),
    lambda qid: ConfidenceBounding(qid, 0.5, SENSITIVE),
    lambda qid: ConfidenceBounding(qid, 0.3, SENSITIVE, ["b"]),
    lambda qid: PSensitiveKAnonymity(qid, 2, 3, SENSITIVE),
]
