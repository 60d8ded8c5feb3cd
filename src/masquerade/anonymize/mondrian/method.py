"""What all forms of Mondrian have in common: their name, the parameter `strict`, and which allowed cut is made.

By information about the class alone, columns that tell nothing of it may be cut nowhere: among many cuts one always
tells a little more than the others by chance, until nothing can be cut any more. So `class-first` cuts for the class
only where that tells more than chance would, and than a fiftieth of a bit of each record, and goes on by certainty. A
small table makes too few groups for both; there it is certainty from the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log2
from typing import Any, ClassVar

import numpy as np

from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.mondrian.axes import Shares
from masquerade.anonymize.mondrian.cuts import Choice, Cuts
from masquerade.data import Schema
from masquerade.engine import Counts
from masquerade.errors import Problem
from masquerade.forms import optional, parameter, shares, switch
from masquerade.privacy import GroupRequirement
from masquerade.utility import FIXED_ONE, entropy_sum

CLASS_FIRST, INFORMATION_GAIN = BY_CLASS = ("class-first", "information-gain")  # the choices that need a class
OR_BY_CLASS = f' (with a class on one table also "{CLASS_FIRST}" or "{INFORMATION_GAIN}")'
_CLASS_BITS = 1 << 20  # how finely information about the class is told apart
_TELLING = 0.02  # bits about the class that a cut tells of each record, at least, to be made for it
_ROOM = 6  # groups of the least size for each attribute, at least, where cuts are made for the class
_ABOVE_CERTAINTY = 2.0**64  # which no score by certainty reaches

MERGE_HELP = (
    "without strict, which children of a value stay together at it where a group is cut: those that violate a "
    "requirement, or those with too few records"
)


class MondrianVariant(TableMethod):
    """Both go by one name; the requirement decides which is meant."""

    name: ClassVar[str] = "mondrian"
    summary: ClassVar[str] = (
        "cuts groups of records in parts, each where it serves that group, while every part satisfies the requirement"
    )
    answers_queries: ClassVar[bool] = True
    boundaries = "records"

    choose: str  # declared by each with its own choices

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Information about a class that there is not."""
        yield from without_class(self.choose, self.target)


def without_class(choose: str, target: str | None) -> Iterator[Problem]:
    """Say that a choice needs a class, where there is none."""
    if choose in BY_CLASS and target is None:
        yield Problem(f'"{choose}" needs a class attribute; use "certainty"', key=("choose",))


def strict() -> Any:
    """Declare the parameter `strict`."""
    text = "cut into the children of a value only as a whole, not where some have too few records"
    return parameter(switch(), False, help=text)


def by_certainty(cuts: Cuts) -> Shares:
    """Return the reduction in uncertainty per bit of information about a record's part.

    Later cuts run out of records, and a cut that splits evenly uses up more of them.
    """
    starts = cuts.parts.starts(cuts.sizes.size)
    kept = np.add.reduceat(cuts.parts.sizes * cuts.parts.widths, starts)
    gain = cuts.sizes * cuts.widths - kept
    # In fixed point, so that the order of additions does not matter.
    return np.rint(gain / _bits(cuts, starts) * FIXED_ONE)


def by_information_gain(cuts: Cuts) -> Shares:
    """Return the information about the class per bit of information about a record's part.

    Of cuts that tell as much of it, the one with the higher certainty comes first.
    """
    certainty = by_certainty(cuts) / FIXED_ONE
    bits = _bits(cuts, cuts.parts.starts(cuts.sizes.size))
    return np.rint(class_information(cuts) / bits * _CLASS_BITS) + certainty / (1 + certainty)


def by_class_first(cuts: Cuts) -> Shares:
    """Return the score by information gain of cuts that tell of the class, and that by certainty, below, of others.

    What chance tells is taken to be at most twice the penalty of Schwarz's criterion (BIC): the binary logarithm of the
    group's size for each free count, in bits over all its records.
    """
    starts = cuts.parts.starts(cuts.sizes.size)
    classes = np.add.reduceat(cuts.parts.counts[-1], starts, axis=0)
    free = (np.diff(np.append(starts, cuts.parts.group.size)) - 1) * (np.count_nonzero(classes, axis=1) - 1)
    by_chance = free * np.log2(np.maximum(cuts.sizes, 2))
    least = np.maximum(by_chance, _TELLING * cuts.sizes)
    tells = np.rint(class_information(cuts) * _CLASS_BITS) > np.rint(least * _CLASS_BITS)
    return np.where(tells, (1 + by_information_gain(cuts)) * _ABOVE_CERTAINTY, by_certainty(cuts))


def class_information(cuts: Cuts) -> Shares:
    """Return what each cut tells about the class, in bits over all records; the class is what `Judge` counts last."""
    starts = cuts.parts.starts(cuts.sizes.size)
    classes = cuts.parts.counts[-1]
    before = entropy_sum(np.add.reduceat(classes, starts, axis=0))
    told: Shares = before - np.add.reduceat(entropy_sum(classes), starts)
    return told


def _bits(cuts: Cuts, starts: Counts) -> Shares:
    """Return the information about its part, in bits over all records of the group; a single part is not allowed."""
    parts, sizes = cuts.parts, cuts.sizes
    of_group = np.repeat(sizes, np.diff(np.append(starts, parts.group.size)))
    return np.maximum(np.add.reduceat(parts.sizes * np.log2(of_group / parts.sizes), starts), 1e-9)


def by_width(cuts: Cuts) -> Shares:
    """Return the group's width along the dimension of each cut."""
    return cuts.widths


CHOICES: dict[str, Choice] = {
    "certainty": by_certainty,
    "widest": by_width,
    CLASS_FIRST: by_class_first,
    INFORMATION_GAIN: by_information_gain,
}


def choice_named(choose: str, parts: Sequence[GroupRequirement], n_rows: int) -> Choice:
    """Return which cut of n records is made, where groups must satisfy these requirements."""
    least = max(part.implied_size for part in parts)
    n_attributes = len({name for part in parts for name in part.qid})
    if choose == CLASS_FIRST and n_rows < _ROOM * least * n_attributes:
        return by_certainty
    return CHOICES[choose]


# --- priority -----------------------------------------------------------------------------------------------
# Prioritised Mondrian: the attribute to cut along is chosen for what the release is to serve.
#
# Xiong and Rangachari's overall score of a cut along attribute i (Equation 4.4) is
#
#     O_i = (w_spread · spread_i + w_weight · weight_i + w_gain · infogain_i) / (w_spread + w_weight + w_gain)
#
# All three lie between 0 and 1, so that the w_j are comparable: the spread is the group's normalised width,
# the weight is the attribute's own divided by the largest, and the information gain is the class entropy
# before the cut minus that after it (Equation 4.3 prints the latter alone, of which less is better),
# divided by the logarithm of the classes. Scores are fixed point, so a tie is a tie, and goes to the
# earlier attribute of the schema.

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
