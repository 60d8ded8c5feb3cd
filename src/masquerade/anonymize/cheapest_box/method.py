"""Cheapest box first: make the group that loses least, then the next, of the records that are left.

Each group is a box: one value for each attribute. Boxes of different groups may overlap, so one column holds values of
all levels, as after Mondrian; unlike Mondrian's, groups need not come from cutting a larger one, and lose less. Equal
records are always in one group. Requirements whose QIDs share attributes are reached together, by groups over all their
attributes that satisfy each of them; QIDs without a common attribute are recoded apart from each other.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from masquerade.anonymize.cheapest_box.space import (
    ONE,
    BoxIndex,
    DistinctRecords,
    Hopeless,
    LargeBoxes,
    Levels,
    Remaining,
    distinct_records,
    levels_of,
)
from masquerade.anonymize.method import WholeTableMethod
from masquerade.anonymize.mondrian.judge import Histograms, Judge, judge_of
from masquerade.anonymize.mondrian.linked import linked
from masquerade.anonymize.mondrian.partition import blocks, released_column
from masquerade.anonymize.preparation import Prepared, prepare
from masquerade.data import Coded, Generalised, OnStep, Outcome, Schema, Table
from masquerade.engine import Counts, Flags, Rows, group_rows, renumber, which_occur
from masquerade.errors import Problem
from masquerade.forms import number, parameter
from masquerade.privacy import GroupRequirement, Requirement

# --- groups -----------------------------------------------------------------------------------------------
# Groups of distinct records: the ranks they span, their rows and counts, and what their boxes lose.

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


# --- search -------------------------------------------------------------------------------------------------
# The search: of all boxes that satisfy the requirement, make the cheapest a group, and go on without its
# records.
#
# All vectors of levels wait in a heap by a lower bound on the cost of their cheapest box that satisfies.
# Records only leave, so that cost only rises: a vector that is looked at either has the cheapest box still,
# or waits again with its true cost. For requirements that every part of a violating group violates
# (k-anonymity), that is exactly cheapest box first. For others a refused box may satisfy once some of its
# records have left: its vector waits again, further back each time. Where classes count, a box costs more
# the less pure it is, which later departures may lower: then the order is the cheapest at the time of
# looking.

_RETRY_FACTOR, _RETRY_STEP = 3, ONE // 50
_FEW = 1 << 10  # distinct records of a table so small that judging all boxes of a vector costs nothing


def cheapest_boxes(records: DistinctRecords, boxes: BoxIndex, judge: Judge, purity: float) -> tuple[Counts, int]:
    """Return each record's group, or NONE, and the number of groups."""
    heap = [(cost, vector) for vector, cost in enumerate(boxes.least_costs)]
    dearest = records.ranks.shape[0] * ONE
    heapq.heapify(heap)
    groups, n_groups = np.full(records.n, NONE), 0
    remaining = Remaining(records, boxes, judge.least, purity)
    refused, hopeless = _RefusedBoxes(), Hopeless(boxes.n_vectors)
    while heap and remaining.n_rows >= judge.least:
        bound, vector = heapq.heappop(heap)
        if vector in hopeless:
            continue
        if (costs := refused.costs(vector)) is not None:  # nobody has left since, so all are refused again
            following = heap[0][0] if heap else costs[-1]
            if costs[0] > following:
                heapq.heappush(heap, (costs[0], vector))
                continue
            if (later := bisect_right(costs, following)) < len(costs):
                heapq.heappush(heap, (costs[later], vector))
            _wait(heap, max(bound, costs[0]), vector, dearest)
            continue
        found = remaining.large_boxes(vector)
        if found is None:
            hopeless.note(vector, remaining)
            continue
        following = heap[0][0] if heap else int(found.costs.max())
        cheapest = int(found.costs.min())
        if cheapest > following:
            heapq.heappush(heap, (cheapest, vector))
            continue
        now = found.costs <= following
        if not now.all():
            heapq.heappush(heap, (int(found.costs[~now].min()), vector))
        chosen = found.only(now)
        if not judge.only_sizes:
            good = judge.holds(remaining.histograms(chosen))
            if not good.all():
                _wait(heap, max(bound, int(chosen.costs[~good].min())), vector, dearest)
            if not good.any():
                if records.n <= _FEW and not judge.holds(remaining.histograms(found.all())).any():
                    refused.note(vector, found)
                continue
            chosen = chosen.only(good)
        place = chosen.costs.argsort(kind="stable").argsort()  # groups are numbered cheapest first
        groups[remaining.remove(chosen)] = n_groups + place.repeat(chosen.lengths)
        n_groups += chosen.starts.size
        refused.forget()
    return groups, n_groups


class _RefusedBoxes:
    """Vectors whose boxes all violate, as long as nobody leaves: a small table has them looked at again and again."""

    def __init__(self) -> None:
        self._costs: dict[int, list[int]] = {}

    def note(self, vector: int, found: LargeBoxes) -> None:
        """All boxes of this vector violate."""
        self._costs[vector] = sorted(found.costs.tolist())

    def costs(self, vector: int) -> list[int] | None:
        """Return what the vector's boxes cost, in order; None unless all of them are known to violate."""
        return self._costs.get(vector)

    def forget(self) -> None:
        """Records have left: what violated may satisfy."""
        self._costs.clear()


def _wait(heap: list[tuple[int, int]], cost: int, vector: int, dearest: int) -> None:
    """Let a vector with refused boxes wait again, further back; its dearest boxes do not come back."""
    if cost < dearest:
        heapq.heappush(heap, (cost * _RETRY_FACTOR + _RETRY_STEP, vector))


# --- vectors ------------------------------------------------------------------------------------------------
# Which vectors of levels are searched: all of them where they are few, otherwise those learned from
# samples.
#
# Learning: around each of some records drawn at random, the box that the nearest others need is a good box
# for their neighbourhood, at the size of the smallest group and at multiples of it, because later groups
# have fewer records left to choose from. What these boxes' vectors are is all that is kept.

Vector = tuple[int, ...]  # a level for each attribute

MOST_VECTORS = 20_000  # that are searched without learning

_CENTRES, _NEIGHBOURS = 400, 4_000  # of a sample
_CENTRES_AT_A_TIME = 50
_MULTIPLES = (1, 2, 4, 8, 16, 64)
_SEED = 7


def vectors_of(levels: Sequence[Levels], records: DistinctRecords, least: int) -> Counts:
    """Return the vectors to search for groups of at least `least` rows, the most general too; vector × attribute."""
    kept = [_different(each, ranks) for each, ranks in zip(levels, records.ranks, strict=True)]
    if prod(each.size for each in kept) <= MOST_VECTORS:
        chosen = np.indices([each.size for each in kept]).reshape(len(kept), -1)
        return np.stack([each[level] for each, level in zip(kept, chosen, strict=True)], axis=1)
    most_general = tuple(each.n_levels - 1 for each in levels)
    return np.array(list(dict.fromkeys([*_learned(levels, records, least), most_general])))


def _different(levels: Levels, ranks: Counts) -> Rows:
    """Return the levels that cut the values of these records differently, of equal ones the first, which costs least.

    Of a block of a large table they are few: its records have few of the values.
    """
    present = np.flatnonzero(which_occur(ranks, levels.nodes.shape[1]))
    cuts = np.diff(levels.nodes[:, present], axis=1) != 0  # a value's ranks lie side by side
    return np.array(list({cut.tobytes(): level for level, cut in reversed([*enumerate(cuts)])}.values())[::-1])


def _learned(levels: Sequence[Levels], records: DistinctRecords, least: int) -> Iterator[Vector]:
    random = np.random.default_rng(_SEED)
    sample = random.permutation(records.n)[:_NEIGHBOURS]
    centres = sample[:_CENTRES]
    share = records.sizes[sample].sum() / records.sizes.sum()
    for some in range(0, centres.size, _CENTRES_AT_A_TIME):
        yield from _around(levels, records, centres[some : some + _CENTRES_AT_A_TIME], sample, least * share)


def _around(
    levels: Sequence[Levels], records: DistinctRecords, centres: Rows, sample: Rows, least: float
) -> Iterator[Vector]:
    """Yield the vectors of boxes around each centre with as many rows of the sample as multiples of `least`."""
    needed = [
        _levels_to(each, ranks[centres], ranks[sample]) for each, ranks in zip(levels, records.ranks, strict=True)
    ]
    distance = sum(
        each.costs[level, records.ranks[at][centres][:, None]].astype(np.int64)
        for at, (each, level) in enumerate(zip(levels, needed, strict=True))
    )
    nearest = np.argsort(distance, axis=1, kind="stable")
    rows = np.cumsum(records.sizes[sample][nearest], axis=1)
    for multiple in _MULTIPLES:
        ends = (rows < multiple * least).sum(axis=1)  # the place of the last one needed
        for centre in np.flatnonzero(ends < sample.size):
            inside = nearest[centre, : ends[centre] + 1]
            vector = []
            for each, ranks in zip(levels, records.ranks, strict=True):
                own, others = ranks[centres[centre]], ranks[sample[inside]]
                same = (each.nodes[:, others] == each.nodes[:, own][:, None]).all(axis=1)
                vector.append(int(np.where(same, each.costs[:, own], np.iinfo(np.int32).max).argmin()))  # the cheapest
            yield tuple(vector)


def _levels_to(levels: Levels, centres: Counts, others: Counts) -> Counts:
    """Return the cheapest level at which each centre and each other have one value."""
    found = np.full((centres.size, others.size), levels.n_levels - 1)
    best = np.full((centres.size, others.size), np.iinfo(np.int32).max, np.int32)
    for level in range(levels.n_levels):
        nodes = levels.nodes[level]
        cost = levels.costs[level, centres][:, None]
        better = (nodes[centres][:, None] == nodes[others]) & (cost < best)
        found[better] = level
        np.copyto(best, cost, where=better)
    return found


# --- algorithm ----------------------------------------------------------------------------------------------

_BLOCK = 1 << 14  # rows that are searched at once, at least; twice as many need no blocks


@dataclass(frozen=True)
class CheapestBox(WholeTableMethod):
    """Local recoding by the cheapest box that satisfies.

    `purity` is what a box costs more when it mixes classes: that much of an attribute's whole range, times the share
    of its records outside its largest class. It counts only where there is a class.
    """

    name: ClassVar[str] = "cheapest-box"
    summary: ClassVar[str] = (
        "makes the group that loses least, then the next of the records that are left: finer cells than Mondrian's, "
        "in groups that may overlap"
    )
    answers_queries: ClassVar[bool] = True
    boundaries = "records"
    seconds_per_million: ClassVar[float] = 10.0

    purity: float = parameter(
        number(0, 100), 1.0, help="with a class: what a group costs more the more it mixes classes; 0 ignores them"
    )

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Requirements that are not monotone, over fewer attributes than those they are linked to."""
        for each in linked(parts):
            yield from refuse_not_monotone(each, self.name)

    def run_on_table(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Recode the attributes of each set of linked QIDs."""
        task = prepare(table, requirement, self)
        classes = task.here(table.coded(self.target)) if self.target is not None and self.purity else None
        released = {
            column.name: column for parts in linked(task.parts) for column in self._recoded(task, parts, classes)
        }
        return task.outcome(released[column.name] for column in task.columns)

    def _recoded(
        self, task: Prepared, parts: Sequence[GroupRequirement], classes: Coded | None
    ) -> Iterator[Generalised]:
        columns = [column for column in task.columns if any(column.name in part.qid for part in parts)]
        judge = judge_of(parts, task.sensitive, task.n_rows)
        groups, n_groups = np.empty(task.n_rows, np.int64), 0
        cells = []
        for rows in blocks(columns, parts, task, _BLOCK):
            levels = [levels_of(column) for column in columns]
            records = distinct_records(levels, rows, judge, classes)
            boxes = BoxIndex(levels, records, vectors_of(levels, records, judge.least))
            found = cheapest_boxes(records, boxes, judge, self.purity)
            of_record, lo, hi = with_everybody(levels, records, *found, judge)
            groups[rows] = of_record[records.of_row] + n_groups
            n_groups += lo.shape[1]
            cells.append((lo, hi))
        lo, hi = (np.concatenate(ends, axis=1) for ends in zip(*cells, strict=True))
        for column, first, after in zip(columns, lo, hi, strict=True):
            yield released_column(column, first, after, groups)


def refuse_not_monotone(parts: Sequence[GroupRequirement], method: str) -> Iterator[Problem]:
    """Refuse non-monotone requirements over several QIDs, as each is tested only on groups finer than its own."""
    attributes = {name for part in parts for name in part.qid}
    for part in parts:
        if not part.monotone and set(part.qid) != attributes:
            yield Problem(
                f"{method}: {part.model} over {', '.join(part.qid)} is not monotone, so it must be over all attributes "
                f"of the requirements: {', '.join(sorted(attributes))}"
            )
