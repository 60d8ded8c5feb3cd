"""Entropy ℓ-diversity: the entropy of each group's sensitive values is at least log ℓ.

Monotone under specialization: entropy is concave, so a union's is at least the smaller one of its parts'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts
from masquerade.forms import number
from masquerade.privacy.m_privacy.constraint import CornerConstraint
from masquerade.privacy.requirement import (
    GIVEN_ONCE,
    TOLERANCE,
    CircuitCounts,
    GroupRequirement,
    SharedRow,
    beside,
    limit,
    qid,
    requirement,
    sensitive,
)

if TYPE_CHECKING:
    from masquerade.crypto import Builder, Circuit, Literal
    from masquerade.privacy.sql import GroupTest, SqlWords

_SCALES = 6  # group sizes at which the bound on entropy is tried
_CLOSE = 1e-8  # more than fixed point can change an effective number of values by


class LeastEntropy(CornerConstraint):
    """An entropy of at least log ℓ, against coalitions: no form for the worst one, so providers are searched."""

    part: EntropyLDiversity

    def corner_order(self, rest: Counts, total: Counts) -> NDArray[np.intp]:
        """The values first that gain the most from all of their records."""
        return np.argsort(-_slopes(rest, np.broadcast_to(total, rest.shape)), axis=1)

    def bound_holds(self, low: Counts, high: Counts) -> NDArray[np.bool_]:
        """Where a lower bound of the entropy is large enough."""
        return _entropy_bound(low, high, self.part.l * (1 - TOLERANCE)) >= 0


@requirement
class EntropyLDiversity(GroupRequirement):
    """Groups whose sensitive values are as mixed as l equally frequent ones; l need not be whole."""

    model: ClassVar[str] = "entropy-l-diversity"
    promise = "sensitive values as mixed as ℓ equally frequent ones"
    figure_meaning = "effective sensitive values in the least diverse group"
    constraint = LeastEntropy

    qid: Sequence[str] = qid()
    l: float = limit(  # noqa: E741 # the papers' name
        number(1), stricter="larger", symbol="ℓ", example=2, help="a group is as mixed as ℓ equally frequent values"
    )
    sensitive: str = sensitive(default=GIVEN_ONCE)

    @property
    def limit(self) -> float:
        """ℓ."""
        return self.l

    @property
    def implied_size(self) -> int:
        """As many values as ℓ, rounded up, and as many records."""
        return math.ceil(self.l * (1 - 2 * TOLERANCE))

    def circuit(self, row: SharedRow) -> Circuit:
        """The fixed point of `holds`, in gates."""
        from masquerade.crypto import row_mixed

        return row_mixed(row.n_values, row.width, self._fixed_bound)

    def shared_test(self, build: Builder, counts: CircuitCounts) -> Literal:
        """The same, in a shallow circuit."""
        from masquerade.crypto import mixed

        return mixed(build, counts.cells, self._fixed_bound, shallow=True)

    @property
    def _fixed_bound(self) -> int:
        from masquerade.crypto import public_log2

        return public_log2(Fraction(self.l) * (1 - Fraction(TOLERANCE)))

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.float64]:
        """Each group's effective number of values, 2^H: that many equally frequent ones have its entropy."""
        sizes = histogram.sum(axis=1)
        logs = np.log2(np.maximum(histogram, 1))
        logs *= histogram
        # Rounding must not let a group with one value have an entropy below 0.
        entropy = np.maximum(np.log2(sizes) - logs.sum(axis=1) / sizes, 0.0)
        effective: NDArray[np.float64] = np.exp2(entropy)
        return effective

    def holds(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> NDArray[np.bool_]:
        """An entropy of at least log ℓ; where it is close, in fixed point, as parties that share counts have it."""
        figures = self.figures(histogram, whole, labels)
        good = self.allows(figures)
        close = np.abs(figures - self.l) <= _CLOSE * self.l
        if close.any():
            good[close] = _fixed_entropies(histogram[close], self._fixed_bound) >= 0
        return good

    def allows(self, figures: NDArray[Any]) -> NDArray[np.bool_]:
        """At least ℓ effective values, an entropy of at least log ℓ."""
        return figures >= self.l * (1 - TOLERANCE)

    def sql(self, words: SqlWords) -> GroupTest:
        """An effective number of values below ℓ, by logarithms."""
        effective = "pow(2, log2(sum(records)) - sum(records * log2(records)) / sum(records))"
        return words.test(effective, f"{effective} < {self.l!r} * (1 - {TOLERANCE!r})", rounded=True)

    def complaint(self, figure: float, size: int) -> str:
        """Its effective number of values, and how many it needs."""
        shown = beside(figure, self.l)
        return f"has an effective number of {shown} values of {self.sensitive}; at least {self.l} are required"


def _fixed_entropies(histogram: Counts, bound: int) -> Counts:
    """n · (H − bound) of each group of n records, with logarithms in fixed point."""
    from masquerade.crypto import log2

    sizes = histogram.sum(axis=1)
    surprise = log2(sizes)[:, None] - log2(np.maximum(histogram, 1))
    surplus: Counts = (histogram * surprise).sum(axis=1) - sizes * max(bound, 0)
    return surplus


def _weighed(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """x · log x, and 0 at 0."""
    weighed: NDArray[np.float64] = counts * np.log(np.maximum(counts, 1))
    return weighed


def _slopes(low: Counts, high: Counts) -> NDArray[np.float64]:
    """How fast x · log x grows from one count to the other."""
    gap = np.maximum(high - low, 1)
    slopes: NDArray[np.float64] = (_weighed(high.astype(float)) - _weighed(low.astype(float))) / gap
    return slopes


def _entropy_bound(low: Counts, high: Counts, l: float) -> NDArray[np.float64]:  # noqa: E741 # the papers' name
    """A lower bound of N·(log N − log l) − Σ h·log h, which is below 0 exactly where the entropy is below log l.

    N log N lies above each of its tangents, N·(log s + 1) − s. With a tangent instead, every value of the histogram
    can be chosen by itself: its least or its most. The best of a few tangents is the bound.
    """
    least, most = low.sum(axis=1, dtype=float), high.sum(axis=1, dtype=float)
    at_low, at_high = _weighed(low.astype(float)), _weighed(high.astype(float))
    bound = np.full(len(low), -np.inf)
    for step in range(_SCALES):
        scale = np.maximum(least + (most - least) * step / (_SCALES - 1), 1.0)
        tangent = (np.log(scale) + 1 - np.log(l))[:, None]
        each = np.minimum(low * tangent - at_low, high * tangent - at_high)
        np.maximum(bound, each.sum(axis=1) - scale, out=bound)
    return bound
