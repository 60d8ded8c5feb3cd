"""Greedy k-member clustering (Byun et al.) and GreedyCKA, which runs it within boundaries of generalisation.

Clusters are made over all attributes of all QIDs together, and each satisfies every requirement; so do the groups of
each QID, which are unions of clusters. Large tables are cut into blocks first, because clustering takes time with the
square of the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.cheapest_box.method import (
    NONE,
    join_cheapest,
    merged_by_cells,
    refuse_not_monotone,
    with_everybody,
)
from masquerade.anonymize.cheapest_box.space import ONE, DistinctRecords, GridLevels, Levels, TreeLevels
from masquerade.anonymize.method import TableMethod, WholeTableMethod
from masquerade.anonymize.mondrian.judge import Histograms, Judge, judge_of
from masquerade.anonymize.mondrian.partition import blocks, released_column
from masquerade.anonymize.preparation import Prepared, prepare
from masquerade.data import Coded, Column, Continuum, OnStep, Outcome, Schema, Table, Taxonomy
from masquerade.engine import Counts, Flags, Ints, Rows, renumber, value_counts, which_occur
from masquerade.errors import Problem, RequirementUnreachable
from masquerade.privacy import Conjunction, GroupRequirement, Requirement

# --- losses -------------------------------------------------------------------------------------------------
# What a cluster's cells lose along one attribute, as it is and with another record in it, for all ranks at
# once.
#
# The loss is that of the paper: the height of the cell's node over the height of the taxonomy; along
# numbers without a taxonomy the width over that of all values. In fixed point, so that the same job gives
# the same clusters everywhere.

Losses = NDArray[np.int32]
Span = tuple[int, int]  # the first and the last rank that a cluster covers


class TreeLosses:
    """A taxonomy: a cluster covers the lowest node above its values."""

    def __init__(self, taxonomy: Taxonomy) -> None:
        self._taxonomy, self._known = taxonomy, dict[Span, Losses]()

    def with_rank(self, span: Span) -> Losses:
        """Return for each rank what a cluster that covers `span` loses with that rank in it.

        That is the height of the lowest node above both; an ancestor's is overwritten by those below it.
        """
        if (known := self._known.get(span)) is not None:
            return known
        nodes, node = self._taxonomy.nodes, self._taxonomy.node(span[0], span[1] + 1)
        path = [node]
        while path[-1].parent >= 0:
            path.append(nodes[path[-1].parent])
        losses = np.zeros(self._taxonomy.size, np.int32)
        for above in reversed(path):
            losses[above.lo : above.hi] = above.height * ONE // max(self._taxonomy.height, 1)
        self._known[span] = losses
        return losses

    def widened(self, span: Span, rank: int) -> Span:
        """Return what a cluster covers with this rank in it: climb until it does."""
        nodes, node = self._taxonomy.nodes, self._taxonomy.node(span[0], span[1] + 1)
        while not node.lo <= rank < node.hi:
            node = nodes[node.parent]
        return node.lo, node.hi - 1


class NumberLosses:
    """Numbers and dates without a taxonomy: a cluster covers the values from its smallest to its largest."""

    def __init__(self, domain: Continuum) -> None:
        values = domain.values.astype(np.float64)
        spread = values[-1] - values[0] if values.size > 1 else 1.0
        self._first = domain.first
        self._places = np.rint((values - values[:1]) / spread * ONE).astype(np.int32)

    def with_rank(self, span: Span) -> Losses:
        """Return the width of the interval that covers both; a missing cell beside a number loses everything."""
        missing = np.full(self._first, 0 if span[0] < self._first else ONE, np.int32)
        if span[0] < self._first:
            numbers = np.full(self._places.size, ONE, np.int32)
            return np.concatenate([missing + (ONE if span[1] >= self._first else 0), numbers])
        low, high = (self._places[rank - self._first] for rank in span)
        return np.concatenate([missing, np.maximum(self._places, high) - np.minimum(self._places, low)])

    def widened(self, span: Span, rank: int) -> Span:
        """Return the smallest and the largest."""
        return min(span[0], rank), max(span[1], rank)


AttributeLosses = TreeLosses | NumberLosses


class HeightLevels(TreeLevels):
    """The levels of a taxonomy, where a value loses its height over that of the taxonomy."""

    def __init__(self, column: Column) -> None:
        super().__init__(column)
        assert isinstance(column.domain, Taxonomy)
        heights = np.array([node.height for node in column.domain.nodes])
        self._losses = heights * ONE // max(column.domain.height, 1)


# --- variety ------------------------------------------------------------------------------------------------
# Which sensitive values a growing cluster may take in next, so that it satisfies more than a size.
#
# Where some value makes the cluster varied enough, or leaves it so, only such values may join. Otherwise it
# takes values that it does not have yet, or else those that it has less of than the whole table: so it has
# p values, or enough of each, before it is filled up with whatever loses least (as EnhancedPKClustering
# does for p-sensitive k-anonymity).

_MOST_TRIED = 64  # values that are tried one by one


class Variety:
    """The sensitive values of one growing cluster."""

    def __init__(
        self, parts: Sequence[GroupRequirement], sensitive: Mapping[str, Coded], n_rows: int, judge: Judge
    ) -> None:
        varied = [each for part in parts for each in part.conjuncts if each.sensitive is not None]
        self._judge, self._whole_judge = judge_of(varied, sensitive, n_rows), judge
        self.coded = self._judge.counted
        self._whole = [coded.histogram() for coded in self.coded]
        self.counts: list[Counts] = []
        self.clear()

    @property
    def matters(self) -> bool:
        """Whether a size is not enough."""
        return bool(self.coded)

    def clear(self) -> None:
        """Start with an empty cluster."""
        self.size = 0
        self.counts = [np.zeros_like(whole) for whole in self._whole]

    def add(self, row: int) -> None:
        """Take in a record."""
        self.size += 1
        for coded, counts in zip(self.coded, self.counts, strict=True):
            counts[0, coded.codes[row]] += 1

    def holds(self) -> bool:
        """Return whether the cluster satisfies all requirements."""
        return bool(self._whole_judge.holds((np.array([[self.size]]), *self.counts))[0])

    def wanted(self, at: int, left: Flags) -> Flags | None:
        """Return which values of one sensitive attribute, of those that are left, may join next; None: all."""
        counts, whole = self.counts[at][0], self._whole[at][0]
        if counts.size <= _MOST_TRIED:
            n = counts.size
            tried: list[Counts] = [np.repeat(each, n, axis=0) for each in self.counts]
            tried[at] = tried[at] + np.eye(n, dtype=np.int64)
            histograms: Histograms = (np.full((n, 1), self.size + 1), *tried)
            good = self._judge.holds(histograms) & left
            if good.any():
                return None if good[left].all() else good
        new: Flags = (counts == 0) & left
        few: Flags = (counts * int(whole.sum()) < whole * self.size) & left
        return new if new.any() else few if few.any() else None


# --- growth -------------------------------------------------------------------------------------------------
# Greedy k-member clustering: grow one cluster after the other by the record that it loses least with.
#
# A cluster starts at the record farthest from the last one that was taken, and grows until it satisfies.
# What every record that is left would cost is kept up to date attribute by attribute, and only where the
# cluster's cell has changed; so a step is a search for the least of one array, however many attributes
# there are.

_NEVER = np.iinfo(np.int32).max


class _Left:
    """The records that no cluster has yet, and what each would cost the one that grows."""

    def __init__(self, columns: Sequence[Column], losses: Sequence[AttributeLosses], rows: Rows) -> None:
        self._losses = losses
        self._ranks = np.stack([column.ranks.take(rows) for column in columns])
        self._costs = np.zeros_like(self._ranks)  # attribute × record
        self._totals = np.zeros(rows.size, np.int32)
        self._spans: list[Span] = []
        self.records = np.arange(rows.size)  # their places in `rows`
        self.n = int(rows.size)

    def begin(self, record: Ints) -> None:
        """Start a cluster that covers these ranks."""
        self._spans = [(rank, rank) for rank in record.tolist()]
        n = self.n
        for at, (losses, span) in enumerate(zip(self._losses, self._spans, strict=True)):
            np.take(losses.with_rank(span), self._ranks[at, :n], out=self._costs[at, :n])
        np.sum(self._costs[:, :n], axis=0, out=self._totals[:n])

    def farthest(self) -> int:
        """Return the place of the record that would cost most; the first on a tie."""
        return int(self._totals[: self.n].argmax())

    def cheapest(self, allowed: Flags | None = None) -> int:
        """Return the place of the record that would cost least."""
        totals = self._totals[: self.n]
        return int((totals if allowed is None else np.where(allowed, totals, _NEVER)).argmin())

    def take(self, place: int) -> tuple[int, Ints]:
        """Take a record out: the last one gets its place. Return its number and its ranks."""
        record, ranks = int(self.records[place]), self._ranks[:, place].copy()
        self.n -= 1
        for each in (self.records, self._totals):
            each[place] = each[self.n]
        for both in (self._ranks, self._costs):
            both[:, place] = both[:, self.n]
        return record, ranks

    def widen(self, record: Ints) -> None:
        """Let the cluster cover these ranks, too, and reckon anew what changes by that."""
        n = self.n
        for at, (losses, span, rank) in enumerate(zip(self._losses, self._spans, record.tolist(), strict=True)):
            wider = losses.widened(span, rank)
            if wider != span:
                self._spans[at] = wider
                costs = losses.with_rank(wider).take(self._ranks[at, :n])
                self._totals[:n] += costs - self._costs[at, :n]
                self._costs[at, :n] = costs


def clusters(
    columns: Sequence[Column],
    losses: Sequence[AttributeLosses],
    rows: Rows,
    least: int,
    variety: Variety,
    random: np.random.Generator,
) -> tuple[Counts, int]:
    """Return each of these rows' cluster, `NONE` for what is left over in the end, and the number of clusters."""
    of_row = np.full(rows.size, NONE, np.int64)
    left, n_clusters = _Left(columns, losses, rows), 0
    place = int(random.integers(rows.size))
    last: Ints = np.array([column.ranks[rows[place]] for column in columns])
    while left.n >= least:
        left.begin(last)
        record, ranks = left.take(left.farthest())
        members = [record]
        left.begin(ranks)
        if variety.matters:
            variety.clear()
            variety.add(int(rows[record]))
        while not (len(members) >= least and (not variety.matters or variety.holds())):
            if not left.n:
                return of_row, n_clusters
            record, last = left.take(left.cheapest(_allowed(left, variety, rows)))
            members.append(record)
            left.widen(last)
            if variety.matters:
                variety.add(int(rows[record]))
        last = ranks if len(members) == 1 else last
        of_row[members] = n_clusters
        n_clusters += 1
    return of_row, n_clusters


def _allowed(left: _Left, variety: Variety, rows: Rows) -> Flags | None:
    """Return which of the records that are left have sensitive values that may join; None: all."""
    if not variety.matters:
        return None
    allowed = None
    for at, coded in enumerate(variety.coded):
        codes = coded.codes.take(rows.take(left.records[: left.n]))
        present = which_occur(codes if allowed is None else codes[allowed], len(coded.labels))
        if (wanted := variety.wanted(at, present)) is not None:
            fits = wanted.take(codes)
            allowed = fits if allowed is None else allowed & fits
    return allowed


# --- algorithm ----------------------------------------------------------------------------------------------

_BLOCK = 1 << 13  # rows that are clustered at once, at least; twice as many need no blocks
_SEED = 7


@dataclass(frozen=True)
class KMember(WholeTableMethod):
    """Clusters of at least k records, each grown by the record that it loses least with.

    It pays no attention to boundaries of generalisation; `violations` counts the cells that go beyond them.
    """

    name: ClassVar[str] = "k-member"
    summary: ClassVar[str] = (
        "grows clusters of k records, each by the record that it loses least with: fine cells, and slow on large tables"
    )
    answers_queries: ClassVar[bool] = True
    seconds_per_million: ClassVar[float] = 20.0

    seed: int = field(default=_SEED, kw_only=True)  # of the first record

    def seeded(self, seed: int) -> TableMethod:
        """Start at another record."""
        return replace(self, seed=seed)

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Requirements that are not monotone over fewer attributes than all; and those about boundaries."""
        yield from refuse_not_monotone(parts, self.name)
        for part in parts:
            if part.within_boundaries:
                yield Problem(f"{self.name} pays no attention to the boundaries of {part.model}; use greedy-cka")

    def run_on_table(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Cluster block by block."""
        task = prepare(table, requirement, self)
        groups, lo, hi = _clustered(task, self.seed, everybody=True)
        return task.outcome(
            released_column(column, first, after, groups)
            for column, first, after in zip(task.columns, lo, hi, strict=True)
        )


@dataclass(frozen=True)
class GreedyCka(KMember):
    """GreedyCKA: k-member clustering of the records that have the same boundaries.

    Records that cannot satisfy within them are left out. For k-anonymity those are exactly OUT, the fewest possible.
    """

    name: ClassVar[str] = "greedy-cka"
    summary: ClassVar[str] = (
        "grows clusters of k records within the boundaries of generalisation, and leaves out those that fit in none"
    )
    boundaries = "parts"

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Tables without boundaries, too."""
        yield from refuse_not_monotone(parts, self.name)
        names = dict.fromkeys(name for part in parts for name in part.qid)
        if not any(name in schema and schema[name].is_bounded for name in names):
            yield Problem(
                f"{self.name} keeps to boundaries, and no attribute of the QID has max_generalization or max_width; "
                "give one, or use k-member"
            )

    def run_on_table(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Cluster block by block, and leave out what satisfies nowhere."""
        task = prepare(table, requirement, self)
        groups, lo, hi = _clustered(task, self.seed, everybody=False)
        kept = _still_satisfying(task, groups, lo.shape[1])
        if not kept.size:
            raise RequirementUnreachable(
                f"{table.origin.name}: {Conjunction(task.parts)} cannot be reached within max_generalization and "
                "max_width; allow more, or ask for less",
                violated=tuple(map(str, task.parts)),
            )
        return task.outcome(
            (
                released_column(column, first, after, groups[kept])
                for column, first, after in zip(task.columns, lo, hi, strict=True)
            ),
            kept=None if kept.size == groups.size else kept,
        )


def _clustered(task: Prepared, seed: int, *, everybody: bool) -> tuple[Counts, Counts, Counts]:
    """Return each row's group, and the ranks `[lo, hi)` of each group's cells, attribute × group.

    With `everybody` each row has one, as it has where its whole block satisfies; otherwise those that no cluster can
    take have `NONE`.
    """
    random = np.random.default_rng(seed)
    losses: list[AttributeLosses] = []
    levels: list[Levels] = []  # for groups that are compared by the same loss
    for column in task.columns:
        domain = column.domain
        losses.append(TreeLosses(domain) if isinstance(domain, Taxonomy) else NumberLosses(domain))
        levels.append(HeightLevels(column) if isinstance(domain, Taxonomy) else GridLevels(column))
    judge = judge_of(task.parts, task.sensitive, task.n_rows)
    variety = Variety(task.parts, task.sensitive, task.n_rows, judge)
    groups, n_groups = np.full(task.n_rows, NONE, np.int64), 0
    cells = [np.zeros((2, len(task.columns), 0), np.int64)]
    for rows in blocks(task.columns, task.parts, task, _BLOCK):
        of_row, n_clusters = clusters(task.columns, losses, rows, judge.least, variety, random)
        # Records of their own: equal ones may be in different clusters.
        everyone, ones = np.arange(rows.size), np.ones(rows.size, np.int64)
        ranks = np.stack([column.ranks.take(rows) for column in task.columns]).astype(np.int64)
        counts = judge.count(partial(_same, everyone), rows, ones)
        records = DistinctRecords(ranks, ones, counts, None, everyone)
        if everybody or judge.holds(tuple(each.sum(axis=0, keepdims=True) for each in records.counts))[0]:
            of_row, lo, hi = with_everybody(levels, records, of_row, n_clusters, judge)
        elif n_clusters:
            join_cheapest(levels, records, of_row, n_clusters, judge)
            some = np.flatnonzero(of_row != NONE)
            merged, made = merged_by_cells(levels, records.only(some), of_row[some])
            good = judge.holds(made.counts)  # groups with equal cells are one
            of_row[some] = np.where(good[merged], merged, NONE)
            lo, hi = made.cells()
        else:
            continue
        groups[rows] = np.where(of_row == NONE, NONE, of_row + n_groups)
        n_groups += lo.shape[1]
        cells.append(np.stack([lo, hi]))
    lo, hi = np.concatenate(cells, axis=2)
    return groups, lo, hi


def _still_satisfying(task: Prepared, groups: Counts, n_groups: int) -> Rows:
    """Return the rows whose groups satisfy when just they are released: some requirements compare with all of them."""
    kept = np.flatnonzero(groups != NONE)
    if not any(part.compares_with_whole for part in task.parts):
        return kept
    while kept.size:
        sensitive = {name: coded.of_rows(kept) for name, coded in task.sensitive.items()}
        judge = judge_of(task.parts, sensitive, int(kept.size))
        labels, found = renumber(groups[kept], n_groups)
        counts = judge.count(partial(_same, labels), np.arange(kept.size), value_counts(labels, found.size))
        good = judge.holds(counts)
        if good.all():
            break
        kept = kept[good[labels]]
    return kept


def _same(labels: Ints) -> Ints:
    return labels
