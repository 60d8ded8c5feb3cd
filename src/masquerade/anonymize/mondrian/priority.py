"""Prioritised Mondrian: the attribute to cut along is chosen for what the release is to serve.

Xiong and Rangachari's overall score of a cut along attribute i (Equation 4.4) is

    O_i = (w_spread · spread_i + w_weight · weight_i + w_gain · infogain_i) / (w_spread + w_weight + w_gain)

All three lie between 0 and 1, so that the w_j are comparable: the spread is the group's normalised width, the weight is
the attribute's own divided by the largest, and the information gain is the class entropy before the cut minus that
after it (Equation 4.3 prints the latter alone, of which less is better), divided by the logarithm of the classes.
Scores are fixed point, so a tie is a tie, and goes to the earlier attribute of the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log2
from typing import Any

import numpy as np

from masquerade.anonymize.mondrian.axes import Shares
from masquerade.anonymize.mondrian.candidates import Choice, Cuts
from masquerade.anonymize.mondrian.choices import class_information
from masquerade.data.schema import Schema
from masquerade.errors import Problem
from masquerade.forms.declared import parameter
from masquerade.forms.rules import optional, shares
from masquerade.utility.scores import FIXED_ONE

SPREAD, WEIGHT, GAIN = "spread", "weight", "gain"
USUAL_PRIORITY = {SPREAD: 1, WEIGHT: 1}  # the heuristic of the paper's experiments
_KEY = ("priority",)


def priority() -> Any:
    """Declare the parameter `priority`."""
    return parameter(
        optional(shares(SPREAD, WEIGHT, GAIN)),
        None,
        help="instead of choose, the cut with the highest sum of the group's spread, the attribute's weight and the "
        "information gained about the class, each counted so much",
    )


def priority_problems(
    wanted: Mapping[str, float], choose: str, target: str | None, qid: Sequence[str], schema: Schema | None
) -> Iterator[Problem]:
    """Say what a priority needs and does not have, or what contradicts it; without a schema, but for the weights."""
    if choose != "certainty":
        yield Problem(f'priority says which cut is made; leave choose = "{choose}" out', key=_KEY)
    if wanted.get(GAIN) and target is None:
        yield Problem("gain needs a class attribute; leave it out, or name one", key=_KEY)
    if schema is not None:
        yield from weight_problems(wanted, qid, schema)


def weight_problems(wanted: Mapping[str, float], qid: Sequence[str], schema: Schema) -> Iterator[Problem]:
    """Say that a priority counts weights, where there are none above 0."""
    if wanted.get(WEIGHT) and not any(each.weight for each in schema if each.name in qid):
        yield Problem("weight needs an attribute of the QID whose weight is above 0", key=_KEY)


def by_priority(
    wanted: Mapping[str, float], weights: Sequence[float], n_classes: int, largest: float | None = None
) -> Choice:
    """Return the overall score O_i, given the weight of each dimension and the number of classes.

    `largest` is the largest weight of all dimensions, where others have some of them.
    """
    total = sum(wanted.values())
    largest = (max(weights, default=0.0) if largest is None else largest) or 1.0
    relative = np.array([weight / largest for weight in weights])
    most_bits = log2(n_classes) if n_classes > 1 else 1.0

    def score(cuts: Cuts) -> Shares:
        metrics = {SPREAD: cuts.widths, WEIGHT: relative[cuts.axes]}
        if wanted.get(GAIN):
            metrics[GAIN] = class_information(cuts) / (cuts.sizes * most_bits)
        overall = np.zeros(cuts.sizes.size)
        for name, share in wanted.items():
            overall += share / total * metrics[name]
        return np.rint(overall * FIXED_ONE)

    return score
