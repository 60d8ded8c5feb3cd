"""What must hold for the records that a coalition leaves: a requirement, whichever of its own records it takes out.

Definition 2.1 asks for every subset of the coalition's records, not just for all of them. In counts: a coalition
leaves a histogram h with `rest` ≤ h ≤ `total` on every sensitive value, where `rest` are the others' records and
`total` the whole group's. For requirements that only gain from more records (k-anonymity, distinct ℓ-diversity,
p-sensitive k-anonymity; "EG-monotone") the worst h is `rest` (Observation 2.3). A share is largest when everything
but that value is taken out. Entropy and distance are quasi-concave and quasi-convex in h, so that their worst h is a
corner of the box; `boxes` finds out whether one violates.

A larger coalition has a larger box, so the test is monotone in the coalition whatever the requirement: what one
coalition can breach, a larger one can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.errors import ParameterError
from masquerade.privacy.alpha_k_anonymity import AlphaKAnonymity
from masquerade.privacy.coalitions.boxes import all_satisfy
from masquerade.privacy.confidence_bounding import ConfidenceBounding
from masquerade.privacy.entropy_l_diversity import EntropyLDiversity
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.p_sensitive_k_anonymity import PSensitiveKAnonymity
from masquerade.privacy.recursive_l_diversity import RecursiveLDiversity
from masquerade.privacy.requirement import TOLERANCE, GroupRequirement
from masquerade.privacy.t_closeness import TCloseness

EG_MONOTONE = (KAnonymity, LDiversity, PSensitiveKAnonymity)
CORNERED = (EntropyLDiversity, TCloseness)  # whose worst histogram is searched for
KNOWN = (*EG_MONOTONE, *CORNERED, RecursiveLDiversity, AlphaKAnonymity, ConfidenceBounding)


@dataclass(frozen=True, eq=False)
class Constraint:
    """A requirement with what it compares groups to: the counts of the whole table, and the values' names.

    A requirement that looks at sizes alone has a single column of counts, and no names.
    """

    part: GroupRequirement
    whole: Counts
    labels: Sequence[str]

    def __post_init__(self) -> None:
        if not isinstance(self.part, KNOWN):
            raise ParameterError(
                f"m-privacy cannot wrap {self.part.model}: what remains of its counts is not known"
            )

    @property
    def listed(self) -> NDArray[np.intp]:
        """The columns of the values that a bound on shares is about."""
        values = getattr(self.part, "values", None)
        wanted = self.labels if values is None else set(values)
        return np.array([at for at, label in enumerate(self.labels) if label in wanted], np.intp)

    @property
    def nanoseconds(self) -> int:
        """About how long the test of one coalition takes, among many."""
        if isinstance(self.part, KAnonymity | LDiversity):
            return 25
        return 600 * len(self.labels) if isinstance(self.part, CORNERED) else 40 * len(self.labels)

    def plainly_holds(self, histogram: Counts) -> NDArray[np.bool_]:
        """Which histograms satisfy, as they are."""
        return self.part.holds(histogram, self.whole, self.labels)

    def holds(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """For each row of `rest`, whether every histogram from there up to `total` (one row) satisfies."""
        part = self.part
        if isinstance(part, EG_MONOTONE):
            return self.plainly_holds(rest)
        if isinstance(part, AlphaKAnonymity):
            large: NDArray[np.bool_] = rest.sum(axis=1) >= part.k
            return large & (self._shares(rest, total) <= part.alpha + TOLERANCE)
        if isinstance(part, ConfidenceBounding):
            return self._shares(rest, total) <= part.confidence + TOLERANCE
        if isinstance(part, RecursiveLDiversity):
            return largest_ratios(rest, total, part.l) < part.c * (1 - TOLERANCE)
        return all_satisfy(self, rest, total)

    def surely_holds(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """The same, but False also where it would take long to find out."""
        if isinstance(self.part, CORNERED):
            return all_satisfy(self, rest, total, in_short=True)
        return self.holds(rest, total)

    def _shares(self, rest: Counts, total: Counts) -> NDArray[np.float64]:
        """The largest share that a listed value can have: all of its records, and the least of the others'."""
        most = total[:, self.listed]
        others = rest.sum(axis=1, keepdims=True) - rest[:, self.listed]
        shares: NDArray[np.float64] = (most / np.maximum(most + others, 1)).max(axis=1, initial=0.0)
        return shares


def largest_ratios(rest: Counts, total: Counts, l: int) -> NDArray[np.float64]:  # noqa: E741 # the papers' name
    """The largest r₁ / (r_l + … + r_m) between `rest` and `total`; infinite where fewer than l values can remain.

    r₁ is one value with all of its records. The l − 1 values that the tail leaves out are that one and the l − 2
    others that have the most records anyway; all that is in the tail is as small as can be.
    """
    sums = rest.sum(axis=1, keepdims=True)
    if l == 1:
        tails = sums - rest + total
    else:
        padded = np.pad(-np.sort(-rest, axis=1), ((0, 0), (1, max(l - 1 - rest.shape[1], 0))))
        top = np.cumsum(padded, axis=1)  # top[:, j]: the sum of the j largest
        shorter, longer = top[:, l - 2, None], top[:, l - 1, None]
        among = rest >= (padded[:, l - 2, None] if l > 2 else np.iinfo(np.int64).max)
        tails = sums - rest - np.where(among, longer - rest, shorter)
    ratios = np.full(tails.shape, np.inf)
    np.divide(np.broadcast_to(total, tails.shape), tails, out=ratios, where=tails > 0)
    largest: NDArray[np.float64] = ratios.max(axis=1)
    return largest
