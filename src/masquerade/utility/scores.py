"""Scores: how good it would be to specialise a value, from the class counts of its children.

One score also looks at how general the value and its children are; all others need the counts alone.

Scores are compared as fixed point, to the nearest multiple of 2^-32, so that no order of floating-point
operations, and no secure comparison of parties, decides differently.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.errors import Bug, ParameterError, Problem, hint

FIXED_ONE = 1 << 32


def fixed(score: float) -> int:
    """A score as a whole number of 2^-32."""
    return round(score * FIXED_ONE)


def entropy_sum(counts: Counts) -> NDArray[np.float64]:
    """|T|·I(T) along the last axis, where I is the entropy in bits of the classes counted there."""
    sizes = counts.sum(axis=-1)
    parts: NDArray[np.float64] = _x_log_x(sizes) - _x_log_x(counts).sum(axis=-1)
    return parts


def info_gain(children: Counts) -> float:
    """InfoGain of a value whose children have these class counts (one row a child)."""
    total = int(children.sum())
    if total == 0:
        return 0.0
    return float((entropy_sum(children.sum(axis=0)) - entropy_sum(children).sum()) / total)


def split_info(children: Counts) -> float:
    """The entropy of the children's sizes."""
    sizes = children.sum(axis=1)
    total = int(sizes.sum())
    return float(entropy_sum(sizes) / total) if total else 0.0


def _x_log_x(counts: Counts) -> NDArray[np.float64]:
    x = counts.astype(np.float64)
    return x * np.log2(np.maximum(x, 1.0))


class Score(ABC):
    """How a candidate is rated, where an interval is split, and whether specialising is of any use."""

    name: ClassVar[str]
    needs_class: ClassVar[bool] = True
    weighs_anonymity: ClassVar[bool] = False  # whether the rating falls with the anonymity that is lost
    recomputable: ClassVar[bool] = True  # from the children's class counts alone, without `relief`

    def base(self, children: Counts, relief: Counts | None = None) -> float | int:
        """What the children contribute; it never changes while the value stays in the cut.

        `relief` is what a record's certainty penalty falls by at each child, in fixed point; scores that are
        `recomputable` ignore it.
        """
        return info_gain(children)

    @abstractmethod
    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """The score in fixed point."""

    def worth(self, base: float | int, left_out: int, n_attributes: int) -> bool:
        """Whether it outweighs that so many more records of so many cells are left out of the release."""
        return True

    def split_gains(self, left: Counts, right: Counts, relief: Counts | None = None) -> NDArray[np.int64]:
        """How good each way to split an interval in two is (one row a way), comparable as whole numbers.

        `relief`, as for `base`, has a row a way and a column a half.
        """
        totals = left[0].sum() + right[0].sum()
        before = entropy_sum(left[0] + right[0])
        gains = (before - entropy_sum(left) - entropy_sum(right)) / totals
        scaled: NDArray[np.int64] = np.rint(gains * FIXED_ONE).astype(np.int64)
        return scaled

    def beneficial(self, children: Counts) -> bool:
        """Whether the records that carry the value have more than one class."""
        return int(np.count_nonzero(children.sum(axis=0))) > 1


class InfoGain(Score):
    """InfoGain(v): by how much the mix of classes falls."""

    name = "info-gain"

    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """InfoGain itself."""
        return fixed(base)


class GainRatio(Score):
    """InfoGain(v) / SplitInfo(v): no favour to values with many children."""

    name = "gain-ratio"

    def base(self, children: Counts, relief: Counts | None = None) -> float:
        """The ratio; InfoGain alone when all records have the same child."""
        spread = split_info(children)
        return info_gain(children) / spread if spread > 0 else info_gain(children)

    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """The ratio itself."""
        return fixed(base)


class InfoGainPerAnonymityLoss(Score):
    """InfoGain(v) / (AnonyLoss(v) + 1)."""

    name = "info-gain-per-anonymity-loss"
    weighs_anonymity = True

    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """Gain for each unit of anonymity lost."""
        return fixed(base / (anonymity_loss + 1))


class ClassFree(Score):
    """A score that looks at no class."""

    needs_class = False

    def beneficial(self, children: Counts) -> bool:
        """Whether at least two children have records."""
        return int(np.count_nonzero(children.sum(axis=1))) > 1


class Discernibility(ClassFree):
    """|T[v]|² − Σ_c |T[c]|²: how many ordered pairs of records become discernible."""

    name = "discernibility"

    def base(self, children: Counts, relief: Counts | None = None) -> int:
        """The pairs that specialising tells apart."""
        sizes = [int(size) for size in children.sum(axis=1)]
        return sum(sizes) ** 2 - sum(size * size for size in sizes)

    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """Exact: the count of pairs is whole."""
        return int(base) * FIXED_ONE

    def split_gains(self, left: Counts, right: Counts, relief: Counts | None = None) -> NDArray[np.int64]:
        """The pairs that each split tells apart."""
        gains: NDArray[np.int64] = 2 * left.sum(axis=1) * right.sum(axis=1)
        return gains


class Certainty(ClassFree):
    """|T[v]|·ncp(v) − Σ_c |T[c]|·ncp(c): the normalised certainty penalty that specialising saves.

    Each value's penalty is rounded to fixed point first, so that all sums are exact.
    """

    name = "certainty"
    recomputable = False

    def base(self, children: Counts, relief: Counts | None = None) -> int:
        """The penalty saved, in fixed point."""
        if relief is None:
            raise Bug("the certainty score was not told what its children save")
        return int(children.sum(axis=1) @ relief)

    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """The penalty saved itself."""
        return int(base)

    def worth(self, base: float | int, left_out: int, n_attributes: int) -> bool:
        """Whether it saves at least what they cost: a penalty of 1 a cell."""
        return base >= left_out * n_attributes * FIXED_ONE

    def split_gains(self, left: Counts, right: Counts, relief: Counts | None = None) -> NDArray[np.int64]:
        """The penalty that each split saves."""
        if relief is None:
            raise Bug("the certainty score was not told what its halves save")
        gains: NDArray[np.int64] = left.sum(axis=1) * relief[:, 0] + right.sum(axis=1) * relief[:, 1]
        return gains


SCORES: dict[str, Score] = {
    score.name: score
    for score in (GainRatio(), InfoGain(), InfoGainPerAnonymityLoss(), Discernibility(), Certainty())
}


def score_named(name: str | None, has_class: bool) -> Score:
    """The score of that name; without a name, gain-ratio where there is a class, else discernibility."""
    if name is None:
        return SCORES["gain-ratio" if has_class else "discernibility"]
    if name not in SCORES:
        text = f'no score "{name}"{hint(name, SCORES)}; allowed are {", ".join(SCORES)}'
        raise ParameterError(Problem(text, key=("score",)))
    if SCORES[name].needs_class and not has_class:
        class_free = " or ".join(f'"{each.name}"' for each in SCORES.values() if not each.needs_class)
        text = f'"{name}" needs a class attribute; without one, use {class_free}'
        raise ParameterError(Problem(text, key=("score",)))
    return SCORES[name]
