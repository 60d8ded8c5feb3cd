"""Groups of distinct records: the ranks they span, their rows and counts, and what their boxes lose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.anonymize.cheapest_box.space import DistinctRecords, Levels
from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.engine import Counts, Flags, Rows, group_rows, renumber

NONE = -1  # the group of records that no box took


class GrowingGroups:
    """Groups that may still grow: the ranks they span, their rows and their counts."""

    def __init__(self, levels: Sequence[Levels], records: DistinctRecords, groups: Counts, n_groups: int) -> None:
        self._levels = levels
        taken = np.flatnonzero(groups != NONE)
        order = taken[np.argsort(groups[taken], kind="stable")]
        starts = np.searchsorted(groups[order], np.arange(n_groups))
        self.first: Counts = np.minimum.reduceat(records.ranks[:, order], starts, axis=1)
        self.last: Counts = np.maximum.reduceat(records.ranks[:, order], starts, axis=1)
        self.sizes: Counts = np.add.reduceat(records.sizes[order], starts)
        self.counts: Histograms = tuple(np.add.reduceat(each[order], starts, axis=0) for each in records.counts)
        self.costs: Counts = self.penalty(self.first, self.last)

    def penalty(self, first: Counts, last: Counts) -> Counts:
        """Return what boxes over these ranks lose, added up over the attributes."""
        total: Counts = sum(
            (each.penalty(lo, hi) for each, lo, hi in zip(self._levels, first, last, strict=True)),
            np.zeros(first.shape[1], np.int64),
        )
        return total

    def increase(self, first: Counts, last: Counts, sizes: Counts, groups: Counts) -> Counts:
        """Return how much dearer groups get by records that span these ranks; all are aligned."""
        lo, hi = np.minimum(self.first[:, groups], first), np.maximum(self.last[:, groups], last)
        own = self.sizes[groups]
        dearer: Counts = self.penalty(lo, hi) * (own + sizes) - self.costs[groups] * own
        return dearer

    def with_more(self, groups: Counts, more: Histograms) -> Histograms:
        """Return the counts of groups with these added."""
        return tuple(mine[groups] + each for mine, each in zip(self.counts, more, strict=True))

    def add(self, groups: Counts, first: Counts, last: Counts, more: Histograms) -> None:
        """Let different groups take in records that span these ranks."""
        self.first[:, groups] = np.minimum(self.first[:, groups], first)
        self.last[:, groups] = np.maximum(self.last[:, groups], last)
        for mine, each in zip(self.counts, more, strict=True):
            mine[groups] += each
        self.sizes[groups] = self.counts[0][groups, 0]
        self.costs[groups] = self.penalty(self.first[:, groups], self.last[:, groups])

    def cells(self) -> tuple[Counts, Counts]:
        """Return the ranks `[lo, hi)` of each group's cells, attribute × group."""
        covers = [each.cover(lo, hi) for each, lo, hi in zip(self._levels, self.first, self.last, strict=True)]
        return np.stack([lo for lo, _ in covers]), np.stack([hi for _, hi in covers])


def merged_by_cells(levels: Sequence[Levels], records: DistinctRecords, groups: Counts) -> tuple[Counts, GrowingGroups]:
    """Make one group of those that a reader of the release cannot tell apart, because their cells are equal."""
    lo, hi = GrowingGroups(levels, records, groups, int(groups.max()) + 1).cells()
    ends = [(end, each.column.domain.size + 1) for each, *both in zip(levels, lo, hi, strict=True) for end in both]
    number, n_groups = group_rows(ends, lo.shape[1])
    groups = number[groups]
    return groups, GrowingGroups(levels, records, groups, n_groups)


# --- leftovers ----------------------------------------------------------------------------------------------
# Records that no box took: each joins the group that it makes dearer least, and whatever then is left is
# one group.

_CHOICES = 64  # groups that a record may join, the cheapest first
_AT_A_TIME = 1 << 22  # pairs of a record and a group


def with_everybody(
    levels: Sequence[Levels], records: DistinctRecords, groups: Counts, n_groups: int, judge: Judge
) -> tuple[Counts, Counts, Counts]:
    """Return each record's group, when everybody has one, and the ranks `[lo, hi)` of its cells, attribute × group."""
    while True:
        groups = groups.copy()
        if n_groups and (groups == NONE).any():
            join_cheapest(levels, records, groups, n_groups, judge)
        rest = groups == NONE
        if rest.any():
            groups[rest] = n_groups
            _merge_until_satisfied(levels, records, groups, n_groups, judge)
        groups, made = merged_by_cells(levels, records, groups)
        # Groups with equal cells are one, which may violate what is not monotone.
        good = judge.holds(made.counts)
        if good.all():
            return groups, *made.cells()
        groups = np.where(good[groups], (np.cumsum(good) - 1)[groups], NONE)
        n_groups = int(good.sum())


def join_cheapest(
    levels: Sequence[Levels], records: DistinctRecords, groups: Counts, n_groups: int, judge: Judge
) -> None:
    """In rounds: every record asks for its cheapest group, and every group takes the cheapest of those that ask."""
    state = GrowingGroups(levels, records, groups, n_groups)
    waiting = np.flatnonzero(groups == NONE)
    while waiting.size:
        choices = _choices(state, records, waiting)
        progress = False
        while waiting.size:
            ask, wanted, increase = _asks(state, records, waiting, choices, judge)
            if not ask.size:
                break
            order = np.lexsort((ask, increase, wanted))
            ask, wanted = ask[order], wanted[order]
            first = np.flatnonzero(np.diff(wanted, prepend=-1))  # the cheapest of each group
            taken, into = waiting[ask[first]], wanted[first]
            ranks = records.ranks[:, taken]
            state.add(into, ranks, ranks, tuple(each[taken] for each in records.counts))
            groups[taken] = into
            kept = np.ones(waiting.size, bool)
            kept[ask[first]] = False
            waiting, choices = waiting[kept], choices[kept]
            progress = True
        if not progress:
            return


def _choices(state: GrowingGroups, records: DistinctRecords, waiting: Rows) -> Counts:
    """Return the groups that each record would make dearer least, as record × choice."""
    n_groups = state.sizes.size
    n_choices = min(_CHOICES, n_groups)
    found = []
    step = max(1, _AT_A_TIME // n_groups)
    everyone = np.arange(n_groups)
    for start in range(0, waiting.size, step):
        some = waiting[start : start + step]
        ranks = np.repeat(records.ranks[:, some], n_groups, axis=1)
        increase = state.increase(
            ranks, ranks, np.repeat(records.sizes[some], n_groups), np.tile(everyone, some.size)
        ).reshape(some.size, n_groups)
        found.append(np.argsort(increase, axis=1, kind="stable")[:, :n_choices])
    return np.concatenate(found)


def _asks(
    state: GrowingGroups, records: DistinctRecords, waiting: Rows, choices: Counts, judge: Judge
) -> tuple[Counts, Counts, Counts]:
    """Return who asks (as index of `waiting`), for which group, and how much dearer that gets."""
    n_choices = choices.shape[1]
    who, wanted = np.repeat(np.arange(waiting.size), n_choices), choices.ravel()
    record = waiting[who]
    increase = state.increase(records.ranks[:, record], records.ranks[:, record], records.sizes[record], wanted)
    good: Flags = judge.holds(state.with_more(wanted, tuple(each[record] for each in records.counts)))
    increase = np.where(good, increase, np.iinfo(np.int64).max).reshape(-1, n_choices)
    best = increase.argmin(axis=1)
    least = increase[np.arange(waiting.size), best]
    ask = np.flatnonzero(least < np.iinfo(np.int64).max)
    return ask, choices[ask, best[ask]], least[ask]


def _merge_until_satisfied(
    levels: Sequence[Levels], records: DistinctRecords, groups: Counts, rest: int, judge: Judge
) -> None:
    """Let the last group, of all that is left, take in the group that costs least, until it satisfies."""
    state = GrowingGroups(levels, records, groups, rest + 1)
    alive = np.ones(rest + 1, bool)
    alive[rest] = False
    into = np.arange(rest + 1)
    itself = np.array([rest])
    while alive.any() and not judge.holds(tuple(each[itself] for each in state.counts))[0]:
        others = np.flatnonzero(alive)
        first, last = state.first[:, itself], state.last[:, itself]
        increase = state.increase(first, last, state.sizes[itself], others)
        good = judge.holds(state.with_more(others, tuple(each[itself] for each in state.counts)))
        best = int(np.where(good | ~good.any(), increase, np.iinfo(np.int64).max).argmin())
        taken = others[[best]]
        state.add(itself, state.first[:, taken], state.last[:, taken], tuple(each[taken] for each in state.counts))
        into[taken], alive[taken] = rest, False
    groups[:], _ = renumber(into[groups], rest + 1)  # so that each number is somebody's
