"""The structure of a Bayes net between parties, who learn the net alone.

K2's search (Cooper and Herskovits 1992): the attributes have an order, and each takes its parents among the earlier
ones, greedily the one that helps most, until none helps or it has enough. The score is the description length, which
K2's approaches for many records: what the parents leave uncertain of the attribute, and for each free parameter half a
logarithm of the number of records,

    Σ_p N(p) · ln N(p)  −  Σ_p Σ_x N(x, p) · ln N(x, p)  +  ½ · ln n · (|X| − 1) · Π |parents|

in whole numbers, from shares of the counts. All attributes are searched at once: a round of the search takes one batch
of logarithms, and opens for each attribute which parent comes, or that none does. Ties go to fewer parents, then to the
earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from masquerade.crypto.logarithm import Precision, scaled_logarithms
from masquerade.crypto.rings import Elements
from masquerade.net.script import Script
from masquerade.protocol.learn.calculators import Calculator
from masquerade.protocol.learn.counting import Question, SharedCounts
from masquerade.protocol.learn.logarithm import dropped_digits


@dataclass
class _Family:
    """An attribute, the parents it has so far, and who may still come; `score` is shared."""

    attribute: str
    candidates: list[str]
    parents: list[str] = field(default_factory=list)
    score: Elements | None = None


def net_structure(
    calculator: Calculator,
    counts: SharedCounts,
    attributes: Sequence[str],
    n_records: int,
    most_parents: int,
    precision: Precision,
) -> Script[dict[str, tuple[str, ...]]]:
    """Return each attribute's parents, in the order in which they came."""
    families = [_Family(name, list(attributes[:at])) for at, name in enumerate(attributes)]
    searched = families
    for _ in range(most_parents):
        searched = [each for each in searched if each.candidates]
        if not searched:
            break
        yield from _add_parents(calculator, searched, counts, n_records, precision)
    return {each.attribute: tuple(each.parents) for each in families}


def penalty(
    sizes: Mapping[str, int], attribute: str, parents: Sequence[str], n: int, precision: Precision
) -> int:
    """Return what the free parameters cost, scaled as weighted logarithms are."""
    log = int(scaled_logarithms([n], precision)[0]) >> dropped_digits(precision)
    return log * (sizes[attribute] - 1) * prod(sizes[name] for name in parents) // 2


def _add_parents(
    calculator: Calculator,
    families: Sequence[_Family],
    counts: SharedCounts,
    n_records: int,
    precision: Precision,
) -> Script[None]:
    """Let each family take the parent that helps most; one that none helps has no candidates any more."""
    asked: list[tuple[_Family, list[str]]] = []
    for family in families:
        if family.score is None:
            asked.append((family, []))
        asked += [(family, [*family.parents, name]) for name in family.candidates]
    scores = yield from _scores(calculator, asked, counts, n_records, precision)
    width = 1 + max(len(family.candidates) for family in families)
    columns = []
    for family in families:
        if family.score is None:
            family.score = scores.pop(0)
        own = [family.score, *(scores.pop(0) for _ in family.candidates)]
        own += [own[0]] * (width - len(own))  # never before the first of equal ones
        columns.append(own)
    best = yield from calculator.lowest(np.array(columns, np.uint64).T)
    for family, own, index in zip(families, columns, best, strict=True):
        if index == 0:
            family.candidates = []
            continue
        family.parents.append(family.candidates.pop(index - 1))
        family.score = own[index]


def _scores(
    calculator: Calculator,
    asked: Sequence[tuple[_Family, list[str]]],
    counts: SharedCounts,
    n_records: int,
    precision: Precision,
) -> Script[list[Elements]]:
    questions = [Question((*parents, family.attribute)) for family, parents in asked]
    tables = [
        table.reshape(-1, counts.sizes[family.attribute])
        for table, (family, _) in zip(
            (yield from calculator.answers(counts, questions, precision)), asked, strict=True
        )
    ]
    left = yield from calculator.uncertainties(tables, precision)
    return [
        calculator.plus(each, penalty(counts.sizes, family.attribute, parents, n_records, precision))
        for each, (family, parents) in zip(left, asked, strict=True)
    ]
