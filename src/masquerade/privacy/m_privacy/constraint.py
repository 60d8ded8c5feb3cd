"""What must hold for the records that a coalition leaves: a requirement, whichever of its own records it takes out.

Definition 2.1 asks for every subset of the coalition's records, not just for all of them. In counts: a coalition
leaves a histogram h with `rest` ≤ h ≤ `total` on every sensitive value, where `rest` are the others' records and
`total` the whole group's. For requirements that only gain from more records ("EG-monotone") the worst h is `rest`
(Observation 2.3), and `Constraint` does for them as it is. Each other model declares a subclass of its own.

A larger coalition has a larger box, so the test is monotone in the coalition whatever the requirement: what one
coalition can breach, a larger one can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Counts
from masquerade.errors import ParameterError
from masquerade.privacy.m_privacy.branch_and_bound import branch_and_bound
from masquerade.privacy.m_privacy.coalition_masks import Masks, Sums
from masquerade.privacy.m_privacy.outcome import Outcome, first_breach
from masquerade.privacy.requirement import GroupRequirement

_CELLS = 1 << 22  # counts that are summed at a time
_FITTEST = 1000.0  # a group at distance 0 is no fitter than this
_SMALLEST_LIMIT = 1e-6


BreachTest = Callable[[Masks], NDArray[np.bool_]]  # for each coalition, whether it breaches


class Constraint:
    """One requirement against coalitions, with what it compares groups to.

    `whole` are the counts of the whole table (one row), `labels` the names of the sensitive values; a requirement that
    looks at sizes alone has a single column of counts, and no names. A group's `matrix` has a row for each provider
    that has records in it, and a column for each value; `power` is how many of them collude, and is below their number.
    """

    def __init__(self, part: GroupRequirement, whole: Counts, labels: Sequence[str]) -> None:
        self.part, self.whole, self.labels = part, whole, labels

    @property
    def nanoseconds(self) -> int:
        """About how long the test of one coalition takes, among many."""
        return 40 * max(len(self.labels), 1)

    def holds_as_is(self, histogram: Counts) -> NDArray[np.bool_]:
        """Which histograms (rows) satisfy."""
        return self.part.holds(histogram, self.whole, self.labels)

    def holds_between(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """For each row of `rest`, whether every histogram from there up to `total` (one row) satisfies."""
        return self.holds_as_is(rest)

    def surely_holds_between(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """The same, but False also where it would take long to find out."""
        return self.holds_between(rest, total)

    def worst_coalition(self, matrix: Counts, power: int) -> Outcome:
        """Whether some coalition of `power` providers breaches. A check is one candidate, or one node of a search."""
        return branch_and_bound(self, matrix, power)

    def withstands(self, counts: Counts, power: Counts) -> NDArray[np.bool_]:
        """Which groups (counts: groups × providers × values) no coalition of their `power` breaches."""
        alone = (
            self.worst_coalition(matrix[matrix.any(axis=1)], int(colluding)).private
            for matrix, colluding in zip(counts, power, strict=True)
        )
        return np.fromiter(alone, bool, len(counts))

    def breach_test(self, matrix: Counts) -> BreachTest:
        """The test of many coalitions of one group at once."""
        total, removed = matrix.sum(axis=0, keepdims=True), Sums(matrix)
        step = max(_CELLS // matrix.shape[1], 1)

        def breached(coalitions: Masks) -> NDArray[np.bool_]:
            blocks = (coalitions[first : first + step] for first in range(0, len(coalitions), step))
            good = [self.holds_between(total - removed.of(block), total) for block in blocks]
            return ~np.concatenate([*good, np.zeros(0, bool)])

        return breached

    def fitness(self, histogram: Counts) -> NDArray[np.float64]:
        """Each group's figure beside its limit: at least 1 where it satisfies, and larger is fitter."""
        limit = self.part.limit
        if limit is None:
            return self.holds_as_is(histogram).astype(float)
        figures = self.part.figures(histogram, self.whole, self.labels)
        if self.part.worst == "smallest":
            return np.minimum(figures / limit, _FITTEST)
        room = limit / np.maximum(figures, max(limit, _SMALLEST_LIMIT) / _FITTEST)
        return np.minimum(np.where(figures <= 0, _FITTEST, room), _FITTEST)


class AllOf(Constraint):
    """A requirement that asks for the same as several others together (`GroupRequirement.conjuncts`)."""

    def __init__(self, part: GroupRequirement, whole: Counts, labels: Sequence[str]) -> None:
        super().__init__(part, whole, labels)
        self._all = [constraint_of(each, whole, labels) for each in part.conjuncts]

    @property
    def nanoseconds(self) -> int:
        """As long as all of them."""
        return sum(each.nanoseconds for each in self._all)

    def holds_between(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """Where all do."""
        return _every([each.holds_between(rest, total) for each in self._all])

    def surely_holds_between(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """Where all do."""
        return _every([each.surely_holds_between(rest, total) for each in self._all])

    def worst_coalition(self, matrix: Counts, power: int) -> Outcome:
        """A coalition that breaches the first that can be breached."""
        return first_breach(each.worst_coalition(matrix, power) for each in self._all)

    def withstands(self, counts: Counts, power: Counts) -> NDArray[np.bool_]:
        """Where all do."""
        return _every([each.withstands(counts, power) for each in self._all])

    def breach_test(self, matrix: Counts) -> BreachTest:
        """Where one is breached."""
        tests = [each.breach_test(matrix) for each in self._all]
        return lambda coalitions: ~_every([~test(coalitions) for test in tests])

    def fitness(self, histogram: Counts) -> NDArray[np.float64]:
        """The least fitness of all."""
        least: NDArray[np.float64] = np.minimum.reduce([each.fitness(histogram) for each in self._all])
        return least


def _every(verdicts: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    all_: NDArray[np.bool_] = np.logical_and.reduce(verdicts)
    return all_


def can_wrap(part: GroupRequirement | type[GroupRequirement]) -> bool:
    """Whether it is known what a coalition can make of this requirement's counts."""
    return not part.wraps and (part.constraint is not None or part.monotone_in_records)


def constraint_of(part: GroupRequirement, whole: Counts, labels: Sequence[str]) -> Constraint:
    """The constraint that a requirement declares; ParameterError where it declares none."""
    if not can_wrap(part):
        raise ParameterError(
            f"m-privacy cannot wrap {part.model}: what a coalition can make of its counts is not known"
        )
    return (part.constraint or Constraint)(part, whole, labels)


def sizes_of(matrix: Counts) -> Counts:
    """The records of each provider of a group, or of each provider of each group."""
    sizes: Counts = matrix[..., 0] if matrix.shape[-1] == 1 else matrix.sum(axis=-1)
    return sizes


def least_left(records: NDArray[np.float64 | np.int64], power: int) -> NDArray[np.float64 | np.int64]:
    """What remains of each column when the `power` providers (rows) with the most are gone."""
    left = len(records) - power
    kept = np.partition(records, left - 1, axis=0)[:left] if power else records
    sums: NDArray[np.float64 | np.int64] = kept.sum(axis=0)
    return sums


def least_left_of_groups(records: Counts, power: Counts) -> Counts:
    """What remains in each group without the `power` providers that have the most; providers on the second axis."""
    sums = np.cumsum(np.sort(records, axis=1), axis=1)
    last = (records.shape[1] - power - 1).reshape(-1, *([1] * (records.ndim - 1)))
    left: Counts = np.take_along_axis(sums, last, axis=1)[:, 0]
    return left


def largest_contributors(records: NDArray[np.float64 | np.int64], power: int) -> tuple[int, ...]:
    """Who has the most: at most `power` providers, without any that have nothing."""
    order = np.argsort(-records, kind="stable")[:power]
    return tuple(sorted(order[records[order] > 0].tolist()))
