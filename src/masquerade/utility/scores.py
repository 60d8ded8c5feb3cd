"""Scores: how good it would be to specialise a value, from the class counts of its children alone.

Scores are compared as fixed point, to the nearest multiple of 2^-32, so that no order of floating-point
operations, and no secure comparison of parties, decides differently.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.errors import ParameterError, hint

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

    def base(self, children: Counts) -> float | int:
        """What the children's class counts contribute; it never changes while the value stays in the cut."""
        return info_gain(children)

    @abstractmethod
    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """The score in fixed point."""

    def split_gains(self, left: Counts, right: Counts) -> NDArray[np.int64]:
        """How good each way to split an interval in two is (one row a way), comparable as whole numbers."""
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

    def base(self, children: Counts) -> float:
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


class Discernibility(Score):
    """|T[v]|² − Σ_c |T[c]|²: how many ordered pairs of records become discernible. Looks at no class."""

    name = "discernibility"
    needs_class = False

    def base(self, children: Counts) -> int:
        """The pairs that specialising tells apart."""
        sizes = [int(size) for size in children.sum(axis=1)]
        return sum(sizes) ** 2 - sum(size * size for size in sizes)

    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """Exact: the count of pairs is whole."""
        return int(base) * FIXED_ONE

    def split_gains(self, left: Counts, right: Counts) -> NDArray[np.int64]:
        """The pairs that each split tells apart."""
        gains: NDArray[np.int64] = 2 * left.sum(axis=1) * right.sum(axis=1)
        return gains

    def beneficial(self, children: Counts) -> bool:
        """Whether at least two children have records."""
        return int(np.count_nonzero(children.sum(axis=1))) > 1


SCORES: dict[str, Score] = {
    score.name: score for score in (GainRatio(), InfoGain(), InfoGainPerAnonymityLoss(), Discernibility())
}


def score_named(name: str | None, has_class: bool) -> Score:
    """The score of that name; without a name, gain-ratio where there is a class, else discernibility."""
    if name is None:
        return SCORES["gain-ratio" if has_class else "discernibility"]
    if name not in SCORES:
        raise ParameterError(f'score: no score "{name}"{hint(name, SCORES)}; allowed are {", ".join(SCORES)}')
    if SCORES[name].needs_class and not has_class:
        raise ParameterError(f'score: "{name}" needs a class attribute; without one, use "discernibility"')
    return SCORES[name]
