"""Scores: the benefit of specialising a value, computed from the class counts of its children.

One score also depends on how general the value and its children are; the others need only the counts.

Scores are compared as fixed point, to the nearest multiple of 2^-32, so that neither the order of
floating-point operations nor a secure comparison between parties changes the outcome.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts
from masquerade.errors import Bug, ParameterError, Problem, hint

FIXED_ONE = 1 << 32


def fixed(score: float) -> int:
    """Return a score as an integer multiple of 2^-32."""
    return round(score * FIXED_ONE)


def entropy_sum(counts: Counts) -> NDArray[np.float64]:
    """Return |T|·I(T) along the last axis, where I is the entropy in bits of the classes counted there."""
    sizes = counts.sum(axis=-1)
    parts: NDArray[np.float64] = _x_log_x(sizes) - _x_log_x(counts).sum(axis=-1)
    return parts


def info_gain(children: Counts) -> float:
    """Return InfoGain of a value whose children have these class counts (one row per child)."""
    total = int(children.sum())
    if total == 0:
        return 0.0
    return float((entropy_sum(children.sum(axis=0)) - entropy_sum(children).sum()) / total)


def split_info(children: Counts) -> float:
    """Return the entropy of the children's sizes."""
    sizes = children.sum(axis=1)
    total = int(sizes.sum())
    return float(entropy_sum(sizes) / total) if total else 0.0


def _bits(n: int) -> int:
    return max(1, n.bit_length())


def _x_log_x(counts: Counts) -> NDArray[np.float64]:
    x = counts.astype(np.float64)
    return x * np.log2(np.maximum(x, 1.0))


class Score:
    """Decides a candidate's rating, where to split an interval, and whether specialising is worthwhile."""

    name: ClassVar[str]
    needs_class: ClassVar[bool] = True
    weighs_anonymity: ClassVar[bool] = False  # whether anonymity loss lowers the rating
    recomputable: ClassVar[bool] = True  # from the children's class counts alone, without `relief`

    def base(self, children: Counts, relief: Counts | None = None) -> float | int:
        """Return the children's contribution, which is constant while the value stays in the cut.

        `relief` is the reduction of a record's certainty penalty at each child, in fixed point; scores that are
        `recomputable` ignore it.
        """
        return info_gain(children)

    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """Return the score in fixed point; most are what they are whatever the anonymity loss."""
        return fixed(base)

    def whole_bits(self, n_records: int) -> int:
        """Return how many bits the whole part of any score on `n_records` records takes.

        Gain and gain ratio are at most log2 of the classes, which are no more than the records.
        """
        return _bits(n_records).bit_length()

    def worth(self, base: float | int, left_out: int, n_attributes: int) -> bool:
        """Return whether the gain outweighs leaving out `left_out` more records of `n_attributes` cells each."""
        return True

    def split_gains(self, left: Counts, right: Counts, relief: Counts | None = None) -> NDArray[np.int64]:
        """Rate each way to split an interval in two (one row per way), as comparable integers.

        `relief`, as for `base`, has one row per way and one column per half.
        """
        totals = left[0].sum() + right[0].sum()
        before = entropy_sum(left[0] + right[0])
        gains = (before - entropy_sum(left) - entropy_sum(right)) / totals
        scaled: NDArray[np.int64] = np.rint(gains * FIXED_ONE).astype(np.int64)
        return scaled

    def beneficial(self, children: Counts) -> bool:
        """Return whether the records with this value have more than one class."""
        return int(np.count_nonzero(children.sum(axis=0))) > 1


class InfoGain(Score):
    """InfoGain(v): the reduction of class entropy."""

    name = "info-gain"


class GainRatio(Score):
    """InfoGain(v) / SplitInfo(v): does not favour values with many children."""

    name = "gain-ratio"

    def base(self, children: Counts, relief: Counts | None = None) -> float:
        """Return the ratio; InfoGain alone if all records fall into one child."""
        spread = split_info(children)
        return info_gain(children) / spread if spread > 0 else info_gain(children)


class InfoGainPerAnonymityLoss(Score):
    """InfoGain(v) / (AnonyLoss(v) + 1)."""

    name = "info-gain-per-anonymity-loss"
    weighs_anonymity = True

    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """Return the gain per unit of anonymity lost."""
        return fixed(base / (anonymity_loss + 1))


class ClassFree(Score):
    """A score that ignores the class."""

    needs_class = False

    def beneficial(self, children: Counts) -> bool:
        """Return whether at least two children have records."""
        return int(np.count_nonzero(children.sum(axis=1))) > 1


class Discernibility(ClassFree):
    """|T[v]|² − Σ_c |T[c]|²: the number of ordered pairs of records that become discernible."""

    name = "discernibility"

    def whole_bits(self, n_records: int) -> int:
        """Return those of |T|²."""
        return 2 * _bits(n_records)

    def base(self, children: Counts, relief: Counts | None = None) -> int:
        """Count the pairs that specialising makes discernible."""
        sizes = [int(size) for size in children.sum(axis=1)]
        return sum(sizes) ** 2 - sum(size * size for size in sizes)

    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """Return the number of pairs, which is exact."""
        return int(base) * FIXED_ONE

    def split_gains(self, left: Counts, right: Counts, relief: Counts | None = None) -> NDArray[np.int64]:
        """Count the pairs that each split makes discernible."""
        gains: NDArray[np.int64] = 2 * left.sum(axis=1) * right.sum(axis=1)
        return gains


class Certainty(ClassFree):
    """|T[v]|·ncp(v) − Σ_c |T[c]|·ncp(c): the normalised certainty penalty that specialising saves.

    Each value's penalty is rounded to fixed point first, so that all sums are exact.
    """

    name = "certainty"
    recomputable = False

    def whole_bits(self, n_records: int) -> int:
        """Return those of a penalty of 1 for each record."""
        return _bits(n_records)

    def base(self, children: Counts, relief: Counts | None = None) -> int:
        """Return the penalty saved, in fixed point."""
        if relief is None:
            raise Bug("the certainty score was not told what its children save")
        return int(children.sum(axis=1) @ relief)

    def rate(self, base: float | int, anonymity_loss: float) -> int:
        """Return the penalty saved, whatever the anonymity loss."""
        return int(base)

    def worth(self, base: float | int, left_out: int, n_attributes: int) -> bool:
        """Return whether it saves at least the cost of the records left out: a penalty of 1 per cell."""
        return base >= left_out * n_attributes * FIXED_ONE

    def split_gains(self, left: Counts, right: Counts, relief: Counts | None = None) -> NDArray[np.int64]:
        """Return the penalty that each split saves."""
        if relief is None:
            raise Bug("the certainty score was not told what its halves save")
        gains: NDArray[np.int64] = left.sum(axis=1) * relief[:, 0] + right.sum(axis=1) * relief[:, 1]
        return gains


SCORES: dict[str, Score] = {
    score.name: score for score in (GainRatio(), InfoGain(), InfoGainPerAnonymityLoss(), Discernibility(), Certainty())
}


def score_named(name: str | None, has_class: bool) -> Score:
    """Return the named score; without a name, gain-ratio if there is a class, else discernibility."""
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
