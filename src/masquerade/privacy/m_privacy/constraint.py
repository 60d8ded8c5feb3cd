"""What must hold for the records that a coalition leaves: a requirement, whichever of its own records it takes out.

Definition 2.1 asks for every subset of the coalition's records, not just for all of them. In counts: a coalition
leaves a histogram h with `rest` ≤ h ≤ `total` on every sensitive value, where `rest` are the others' records and
`total` the whole group's. For requirements that only gain from more records ("EG-monotone") the worst h is `rest`
(Observation 2.3), and `Constraint` does for them as it is. Each other model declares a subclass of its own.

A larger coalition has a larger box, so the test is monotone in the coalition whatever the requirement: what one
coalition can breach, a larger one can.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.engine import Counts
from masquerade.errors import ParameterError
from masquerade.privacy.m_privacy.search import (
    SEARCH_SECONDS,
    Masks,
    MPrivacyOutcome,
    Sums,
    TooManyCoalitions,
    first_breach,
)
from masquerade.privacy.requirement import GroupRequirement, plural

# --- branch and bound ---------------------------------------------------------------------------------------
# The worst coalition by branch and bound over providers: for constraints without a way of their own to find
# it.
#
# Provider by provider, the largest first: it colludes, or it stays. What any coalition of a branch leaves
# is at least the records of those who stay and, of each value by itself, the fewest that the undecided can
# leave. More records left are a smaller box (`constraint`), so where this bound satisfies, nobody of the
# whole branch breaches; where nothing is undecided any more it is what the coalition leaves. A check is one
# branch.
#
# How long a branch takes depends on how near it is to the limit, so patience is measured by the clock.

_AT_A_TIME = 1 << 10  # branches of one length


def branch_and_bound(constraint: Constraint, matrix: Counts, power: int) -> MPrivacyOutcome:
    """Whether some `power` of the providers (rows, fewer than all) breach; smaller coalitions do less."""
    order = np.argsort(-matrix.sum(axis=1), kind="stable")
    rows = matrix[order]
    total = rows.sum(axis=0, keepdims=True)
    fewest = _fewest(rows, power)
    n, checks, started = len(rows), 0, time.thread_time()

    def insist_on_time() -> None:
        if time.thread_time() - started > SEARCH_SECONDS:
            raise TooManyCoalitions(
                f"m-privacy of {constraint.part.model}: {plural(n, 'provider')} in one group have too many coalitions "
                "to be searched in a minute; use alpha-k-anonymity or l-diversity instead, or a smaller m"
            )

    # Branches: how many providers are decided, the records of those who stay, how many may collude yet, who does.
    waiting = [(0, np.zeros_like(total), np.array([power]), np.zeros((1, n), bool))]
    while waiting:
        depth, kept, left, colluding = waiting.pop()
        checks += len(kept)
        rest = kept + fewest[depth, left]
        sure = rest.any(axis=1)  # nothing is left by no coalition: the bound is too low
        sure[sure] = constraint.surely_holds_between(rest[sure], total)
        decided = (left == 0) | (left == n - depth)
        for end in np.flatnonzero(decided & ~sure):
            insist_on_time()
            if not constraint.holds_between(rest[end : end + 1], total)[0]:
                colluding[end, depth:] = left[end] > 0
                return MPrivacyOutcome(False, tuple(sorted(order[colluding[end]].tolist())), checks)
        insist_on_time()
        bad = np.flatnonzero(~decided & ~sure)
        joining = colluding[bad]
        joining[:, depth] = True
        kept = np.concatenate([kept[bad], kept[bad] + rows[depth : depth + 1]])
        left = np.concatenate([left[bad] - 1, left[bad]])
        colluding = np.concatenate([joining, colluding[bad]])
        for at in reversed(range(0, len(kept), _AT_A_TIME)):  # those who collude are taken first
            some = slice(at, at + _AT_A_TIME)
            waiting.append((depth + 1, kept[some], left[some], colluding[some]))
    return MPrivacyOutcome(True, None, checks)


def _fewest(rows: Counts, power: int) -> NDArray[np.int64]:
    """[d, c]: the fewest records of each value that the providers from d on leave, if c of them collude."""
    n, n_values = rows.shape
    fewest = np.zeros((n + 1, power + 1, n_values), np.int64)
    for first in range(n):
        sums = np.cumsum(np.sort(rows[first:], axis=0), axis=0)  # of the 1, 2, … smallest
        for colluding in range(min(power, n - first - 1) + 1):
            fewest[first, colluding] = sums[n - first - colluding - 1]
    return fewest


# --- constraint ---------------------------------------------------------------------------------------------

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

    def worst_coalition(self, matrix: Counts, power: int) -> MPrivacyOutcome:
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

    def worst_coalition(self, matrix: Counts, power: int) -> MPrivacyOutcome:
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


# --- corners ------------------------------------------------------------------------------------------------
# Does every histogram between two satisfy? For models whose worst one is a corner: entropy ℓ-diversity,
# t-closeness.
#
# The values for which entropy (or distance) keeps to its side of the bound form a cone over a convex set,
# so the worst histogram of a box is one of its corners, of which there are 2^values. They are searched by
# halves: a box that a bound shows to satisfy is done, one with a corner that violates ends its coalition's
# search, and any other is split at its widest value. All coalitions are searched at once, as rows of
# arrays.

_FEW_CELLS = 1 << 12  # of a row, in short


class CornerConstraint(Constraint):
    """A constraint whose worst histogram is some corner of the box; each model says where to look for it first."""

    both_ends: ClassVar[bool] = False  # a corner may violate for its rare values, and not just for its frequent ones

    @property
    def nanoseconds(self) -> int:
        """A search for each coalition."""
        return 600 * len(self.labels)

    @abstractmethod
    def corner_order(self, rest: Counts, total: Counts) -> NDArray[np.intp]:
        """For each row of `rest`, the values in the order in which they fill up in a violating corner."""

    @abstractmethod
    def bound_holds(self, low: Counts, high: Counts) -> NDArray[np.bool_]:
        """For which boxes a bound, quickly computed, shows that all of their histograms satisfy."""

    def holds_between(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """For each row of `rest`, whether every histogram from there up to `total` (one row) satisfies."""
        return self._all_satisfy(rest, total, in_short=False)

    def surely_holds_between(self, rest: Counts, total: Counts) -> NDArray[np.bool_]:
        """The same, but False also where the search would be long."""
        return self._all_satisfy(rest, total, in_short=True)

    def _all_satisfy(self, rest: Counts, total: Counts, in_short: bool) -> NDArray[np.bool_]:
        good: NDArray[np.bool_] = self.holds_as_is(rest)
        for corner in self._likely_corners(rest, total):
            still = np.flatnonzero(good)
            good[still] = self.holds_as_is(corner[still])
        open_ = np.flatnonzero(good)
        good[open_] = self._search(rest[open_], np.repeat(total, open_.size, axis=0), in_short)
        return good

    def _likely_corners(self, rest: Counts, total: Counts) -> Iterator[Counts]:
        """Corners that violate if any does, most of the time: some values full, the others at their least."""
        yield np.repeat(total, len(rest), axis=0)
        corner, other = rest.copy(), np.repeat(total, len(rest), axis=0)
        rows = np.arange(len(rest))
        for column in self.corner_order(rest, total).T[:-1]:
            corner[rows, column] = total[0, column]
            other[rows, column] = rest[rows, column]
            yield corner
            if self.both_ends:
                yield other

    def _search(self, rest: Counts, total: Counts, in_short: bool) -> NDArray[np.bool_]:
        """Whether all corners of the boxes between the rows satisfy; the first and the last of each do."""
        good = np.ones(len(rest), bool)
        owner, low, high = np.arange(len(rest)), rest, total
        while owner.size:
            open_ = ~self.bound_holds(low, high) & (low < high).any(axis=1)
            owner, low, high = owner[open_], low[open_], high[open_]
            if in_short and low.size > min(_FEW_CELLS * len(rest), _CELLS):
                good[owner] = False
                return good
            if low.size > _CELLS:
                if len(rest) == 1:
                    raise self._too_many(low.shape[1])
                half = len(rest) // 2  # there is room for fewer at a time
                parts = (slice(None, half), slice(half, None))
                return np.concatenate([self._search(rest[part], total[part], in_short) for part in parts])
            rows = np.arange(owner.size)
            widest = np.argmax(high - low, axis=1) if owner.size else rows
            without, with_ = high.copy(), low.copy()
            without[rows, widest] = low[rows, widest]
            with_[rows, widest] = high[rows, widest]
            # Each half has one corner that was not tried yet: its upper one, or its lower one.
            bad = ~self.holds_as_is(with_) | ~self.holds_as_is(without)
            good[owner[bad]] = False
            keep = good[owner]
            owner = np.concatenate([owner[keep], owner[keep]])
            low = np.concatenate([low[keep], with_[keep]])
            high = np.concatenate([without[keep], high[keep]])
        return good

    def _too_many(self, n_values: int) -> ParameterError:
        return ParameterError(
            f"m-privacy of {self.part.model}: the subsets of a coalition's records over "
            f"{plural(n_values, 'sensitive value')} are too many to be searched; "
            f"use alpha-k-anonymity or l-diversity instead, or generalise {self.part.sensitive}"
        )


# --- fitness ------------------------------------------------------------------------------------------------
# The privacy fitness score (Definition 3.1): how far records are above, or below, what all constraints ask
# for.
#
# Each constraint's fitness is its figure beside its limit: |T| / k, different values / ℓ, t / distance, …
# The score of several is their weighted mean. Where one of them fails the score stays below 1, whatever the
# others are: min(1 − ε, F) (the paper prints max, with which a failing group could never score below 1 −
# ε).

# α of Table II: what the constraints on sensitive values weigh beside those on sizes.
VERIFICATION_WEIGHT = 0.3
ANONYMIZATION_WEIGHT = 0.8
_EPSILON = 1e-6


def score(
    constraints: Sequence[Constraint], histograms: Sequence[Counts], alpha: float = VERIFICATION_WEIGHT
) -> NDArray[np.float64]:
    """Each group's privacy fitness score: at least 1 only where all constraints hold (Equation 1).

    The constraints on sensitive values share the weight alpha, those on sizes the rest; where all are of one kind,
    they weigh alike. `histograms` has for each constraint one row a group.
    """
    on_values = [constraint.part.sensitive is not None for constraint in constraints]
    weights = [
        alpha / sum(on_values) if each else (1 - alpha) / (len(on_values) - sum(on_values)) for each in on_values
    ]
    if len(set(on_values)) == 1:
        weights = [1 / len(constraints)] * len(constraints)
    total = np.zeros(len(histograms[0]))
    good = np.ones(len(histograms[0]), bool)
    for constraint, histogram, weight in zip(constraints, histograms, weights, strict=True):
        total += weight * constraint.fitness(histogram)
        good &= constraint.holds_as_is(histogram)
    return np.where(good, total, np.minimum(total, 1 - _EPSILON))


# --- surviving values ---------------------------------------------------------------------------------------
# The worst coalition against distinct ℓ-diversity: can few enough providers leave fewer than ℓ values?
#
# Fewer than ℓ values remain when a set S of at most ℓ − 1 values survives and everybody who holds any other
# value is in the coalition. So a provider either survives, and all of its values are in S, or it colludes.
# Providers with the same values do the same. Branch on the most frequent kind of provider: it survives (S
# grows, and takes other providers in) or all of them collude (the coalition grows by that many). S can grow
# ℓ − 1 times and the coalition m times, so the tree has at most C(m + ℓ − 1, ℓ − 1) leaves however many
# providers and values there are: 286 for m = 10 and ℓ = 4.
#
# Two bounds cut it further. Providers with more values than S has room for must collude. And r more values
# in S save at most the providers on the r best values, where a provider counts on each of its missing
# values with an equal part.

ROUNDING = 1e-9  # what sums of fractions can be off by

Values = int  # a set of values as bits


def value_sets(matrix: Counts) -> list[Values]:
    """The values that each provider has, of a providers × values matrix."""
    packed: NDArray[np.uint8] = np.packbits(matrix > 0, axis=1, bitorder="little")
    return [int.from_bytes(row, "little") for row in packed.view(f"V{packed.shape[1]}").ravel().tolist()]


def worst_coalition(matrix: Counts, l: int, power: int) -> tuple[tuple[int, ...] | None, int]:  # noqa: E741 # the papers' name
    """At most `power` providers without whom fewer than l values remain, if there are, and the nodes searched.

    `power` must be below the number of providers, so that somebody's records remain.
    """
    held = value_sets(matrix)
    search = _Search()
    surviving = search.surviving(Counter(held), l - 1, power)
    if surviving is None:
        return None, search.nodes
    return tuple(at for at, values in enumerate(held) if values & ~surviving), search.nodes


class _Search:
    def __init__(self) -> None:
        self.nodes = 0

    def surviving(self, kinds: Mapping[Values, int], room: int, budget: int) -> Values | None:
        """A set of at most `room` values outside which at most `budget` providers hold any.

        `kinds` are the values that providers have and S lacks, with the number of such providers.
        """
        self.nodes += 1
        budget -= sum(times for values, times in kinds.items() if values.bit_count() > room)
        if budget < 0:
            return None
        undecided = {values: times for values, times in kinds.items() if 0 < values.bit_count() <= room}
        if sum(undecided.values()) <= budget:
            return 0
        if sum(undecided.values()) - _most_saved(undecided, room) > budget + ROUNDING:
            return None
        frequent = max(undecided, key=undecided.__getitem__)
        merged: Counter[Values] = Counter()
        for values, times in undecided.items():
            merged[values & ~frequent] += times
        found = self.surviving(merged, room - frequent.bit_count(), budget)
        if found is not None:
            return found | frequent
        times = undecided.pop(frequent)
        return self.surviving(undecided, room, budget - times) if times <= budget else None


def _most_saved(kinds: Mapping[Values, int], room: int) -> float:
    """At least as many providers as `room` more values can save."""
    worth: Counter[int] = Counter()
    for values, times in kinds.items():
        share = times / values.bit_count()
        while values:
            lowest = values & -values
            worth[lowest] += share  # type: ignore[assignment] # a part of a provider
            values ^= lowest
    return sum(sorted(worth.values(), reverse=True)[:room])
