"""Groups of several QIDs that share attributes, as one of several parties sees them.

They are cut in rounds, as `anonymize/mondrian/linked.py` explains. But parties tell each other, of each record that is
cut, which part it goes to, so here groups are numbers of rows; each party finds the cuts along its own attributes by
counts of its rows, and takes over those along others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from masquerade.anonymize import (
    Axis,
    Batch,
    Choice,
    ContinuousAxis,
    CountedGroups,
    Judge,
    Shares,
    WeightedRanks,
    cuts_along,
    released_column,
)
from masquerade.data import Generalised
from masquerade.engine import (
    Counts,
    Flags,
    Ints,
    Rows,
    SparseCounts,
    group_rows,
    look_up,
    occurring,
    renumber,
    rows_by_rank,
    value_counts,
    which_occur,
)


@dataclass(eq=False)
class _Qid:
    """The groups of one QID, as each row's group."""

    judge: Judge
    groups: Counts
    n_groups: int

    def counted(self, axis: Axis, rows: Rows, linked: Ints) -> CountedGroups:
        """Count the records of the groups that these rows are in, by rank along an axis and by what the judge counts.

        `linked` has the linked records that each row belongs to.
        """
        places, found = renumber(self.groups[rows], self.n_groups)
        of_group = np.zeros(found.size, np.int64)
        of_group[places] = linked
        keys, bound = (places.astype(np.int64) * axis.n_ranks + axis.column.ranks.take(rows), found.size * axis.n_ranks)
        counts = [
            SparseCounts.of(keys * len(each.labels) + each.codes.take(rows), bound * len(each.labels))
            for each in self.judge.counted
        ] or [SparseCounts.of(keys, bound)]
        records = value_counts(places, found.size)
        return CountedGroups(self.judge, found, of_group, WeightedRanks.of(axis, counts, self.judge, records))

    def split(self, rows: Rows, parts: Counts, n_parts: int) -> None:
        """Split groups, all of whose rows are given, by the part of each row."""
        made, found = renumber(parts * self.n_groups + self.groups[rows], n_parts * self.n_groups)
        groups = self.groups.copy()
        groups[rows] = self.n_groups + made
        numbers, left = renumber(groups, self.n_groups + found.size)
        self.groups, self.n_groups = numbers.astype(np.int64, copy=False), left.size


@dataclass(frozen=True, eq=False)
class _LinkedCuts:
    """The cuts along one dimension, of linked records that can be cut there."""

    batch: Batch
    parts: Counts  # of each row, numbered across the batch
    n_parts: int
    cut_at: Counts  # of each group of the batch
    scores: Shares  # of each cut; -inf for those that are not allowed


@dataclass(frozen=True, eq=False)
class BestOfGroups:
    """The best cut of each group of one QID: its score, and its dimension, -1 where none is allowed."""

    scores: Shares
    dimensions: Counts


class LinkedGroups:
    """Groups of several QIDs, as somebody sees them who holds some of the attributes.

    The groups are the same for everybody. `axes` are the dimensions whose cells are known here, by their position among
    all `names`; bids are made, and cells narrowed, along these alone. `starts` has each QID's groups at the start.
    `cells` has the cell of each row then along each of `axes`; without it those are as general as may be.
    """

    def __init__(
        self,
        names: Sequence[str],
        axes: Mapping[int, Axis],
        judges: Mapping[frozenset[str], Judge],
        choice: Choice,
        n_rows: int,
        strict: bool,
        starts: Mapping[frozenset[str], tuple[Counts, int]],
        cells: Mapping[int, Counts] | None = None,
    ) -> None:
        self._choice, self._strict, self._n_rows = choice, strict, n_rows
        qids = {qid: _Qid(judge, *starts[qid]) for qid, judge in judges.items()}
        self._of_axis = [[each for qid, each in qids.items() if name in qid] for name in names]
        self._qids = tuple(qids.values())
        self._cells = (  # of numbers
            {at: axis.column.most_general(np.arange(n_rows)) for at, axis in axes.items()}
            if cells is None
            else dict(cells)
        )
        self._links: list[tuple[Counts, int]] = []
        self._own: dict[int, _LinkedCuts | None] = {}
        self._axes = axes
        # Rows whose linked records cannot be cut as they are.
        self._stuck = {at: np.zeros(self._n_rows, bool) for at in axes}

    def released(self) -> tuple[Generalised, ...]:
        """Return the released columns of our own dimensions."""
        columns = []
        everybody = np.arange(self._n_rows)
        for at, axis in self._axes.items():
            if isinstance(axis, ContinuousAxis) and not axis.edges.size:
                lo, hi = self._cells[at]
                columns.append(released_column(axis.column, lo, hi, everybody))
                continue
            linked, n_linked = self._linked(at)
            batch = _batch(linked, n_linked, everybody)
            if isinstance(axis, ContinuousAxis):
                lo, hi = self._cells[at][:, batch.rows[batch.starts]]  # all linked records have one cell
                lo, hi = axis.between_edges(lo, hi, axis.look(batch))
            else:
                view = axis.look(batch)
                lo, hi = view.lo, view.hi
            columns.append(released_column(axis.column, lo, hi, linked))
        return tuple(columns)

    # --- a round ---

    def best(self) -> list[BestOfGroups]:
        """Return for each QID our best cut of each group, along the first dimension on a tie."""
        self._links = [self._linked(at) for at in range(len(self._of_axis))]
        self._own = {at: self._cuts_along(at, *self._links[at]) for at in self._axes}
        found = [BestOfGroups(np.full(qid.n_groups, -np.inf), np.full(qid.n_groups, -1)) for qid in self._qids]
        for at, cuts in self._own.items():
            if cuts is None:
                continue
            of_row = np.repeat(cuts.scores, cuts.batch.sizes)
            for best, qid in zip(found, self._qids, strict=True):
                if qid in self._of_axis[at]:
                    scores = np.full(qid.n_groups, -np.inf)
                    scores[qid.groups[cuts.batch.rows]] = of_row
                    better = scores > best.scores
                    best.scores[better] = scores[better]
                    best.dimensions[better] = at
        return found

    def settled(self, dimensions: Sequence[Counts]) -> list[tuple[int, Batch]]:
        """Return what is cut, along which dimension, given that of each group's best cut for each QID.

        A cut is made where it is the best of all groups that it touches.
        """
        found = []
        for at, (numbers, n_linked) in enumerate(self._links):
            made = np.ones(n_linked, bool)
            for best, qid in zip(dimensions, self._qids, strict=True):
                if qid in self._of_axis[at]:
                    made[numbers[best[qid.groups] != at]] = False
            if made.any():
                found.append((at, _batch(numbers, n_linked, np.flatnonzero(made[numbers]))))
        return found

    def parts(self, at: int, batch: Batch) -> tuple[Counts, Counts]:
        """Return of settled cuts along a dimension of ours how many parts each makes, and the part of each row."""
        cuts, (numbers, n_linked) = self._own[at], self._links[at]
        assert cuts is not None  # it was the best somewhere
        made = which_occur(numbers[batch.rows], n_linked)
        parts = cuts.parts[made[numbers[cuts.batch.rows]]]
        found, _ = occurring(parts, cuts.n_parts)
        labels = look_up(parts, found, np.arange(found.size), cuts.n_parts)
        first = labels.astype(np.int64)
        first = np.minimum.reduceat(first, batch.starts)
        return np.diff(np.append(first, found.size)), labels - np.repeat(first, batch.sizes)

    def satisfied(self, at: int, batch: Batch, n_parts: Counts, part_of_row: Ints) -> bool:
        """Return whether these cuts make no part that is empty, or known to violate a requirement."""
        labels, total = _labels(batch, n_parts, part_of_row)
        if not (value_counts(labels, total) > 0).all():
            return False
        for qid in self._of_axis[at]:
            numbers, found = renumber(labels * qid.n_groups + qid.groups[batch.rows], total * qid.n_groups)
            histograms = qid.judge.count(partial(_same, numbers), batch.rows, value_counts(numbers, found.size))
            if not qid.judge.holds(histograms).all():
                return False
        return True

    def cut(self, at: int, batch: Batch, n_parts: Counts, part_of_row: Ints) -> None:
        """Make settled cuts along a dimension."""
        labels, total = _labels(batch, n_parts, part_of_row)
        for qid in self._of_axis[at]:
            qid.split(batch.rows, labels, total)
        axis, cuts = self._axes.get(at), self._own.get(at)
        if isinstance(axis, ContinuousAxis) and cuts is not None:
            numbers, n_linked = self._links[at]
            made = which_occur(numbers[batch.rows], n_linked)
            first_rows = cuts.batch.rows[cuts.batch.starts]
            cut_at = np.repeat(cuts.cut_at[made[numbers[first_rows]]], batch.sizes)
            cells = self._cells[at][:, batch.rows]
            axis.narrow(cells, cut_at, part_of_row == 1)
            self._cells[at][:, batch.rows] = cells

    def changed(self, rows: Rows) -> list[Flags]:
        """Note the rows that were cut in this round; return for each QID those whose best cut may be another now."""
        touched = [which_occur(numbers[rows], n_linked)[numbers] for numbers, n_linked in self._links]
        for at, stuck in self._stuck.items():
            stuck &= ~touched[at]
        return [
            np.logical_or.reduce([touched[at] for at, qids in enumerate(self._of_axis) if qid in qids])
            for qid in self._qids
        ]

    @property
    def groups(self) -> list[tuple[Counts, int]]:
        """For each QID each row's group, and how many there are."""
        return [(qid.groups, qid.n_groups) for qid in self._qids]

    def large_enough(self) -> list[Flags]:
        """Return for each QID which groups may be in a cut, by their sizes alone.

        Linked records can be cut when a group of theirs is large enough for two parts, or goes into one as a whole.
        """
        found = [np.zeros(qid.n_groups, bool) for qid in self._qids]
        for at, (numbers, n_linked) in enumerate(self._links):
            able = np.ones(n_linked, bool)
            for qid in self._of_axis[at]:
                linked_of_group = np.zeros(qid.n_groups, np.int64)
                linked_of_group[qid.groups] = numbers
                several = value_counts(linked_of_group, n_linked) > 1
                able &= several | (value_counts(numbers, n_linked) >= 2 * qid.judge.least)
            for flags, qid in zip(found, self._qids, strict=True):
                if qid in self._of_axis[at]:
                    flags[qid.groups[able[numbers]]] = True
        return found

    def _linked(self, at: int) -> tuple[Counts, int]:
        """Number the records that are linked along a dimension: each row's number, and how many there are."""
        first, *others = self._of_axis[at]
        if not others:
            return first.groups, first.n_groups
        linked = first.groups
        while True:
            before = linked
            for qid in (*others, first):
                least = np.full(qid.n_groups, self._n_rows)
                np.minimum.at(least, qid.groups, linked)
                linked = least[qid.groups]
            if np.array_equal(before, linked):
                numbers, found = renumber(linked, first.n_groups)
                return numbers.astype(np.int64), found.size

    def _cuts_along(self, at: int, linked: Counts, n_linked: int) -> _LinkedCuts | None:
        """Return the cuts along a dimension; rows that are in no allowed one are stuck from now on."""
        axis, stuck = self._axes[at], self._stuck[at]
        rows = np.flatnonzero(~stuck)
        stuck[:] = True
        if not rows.size:
            return None
        numbers, found = renumber(linked[rows], n_linked)
        counted = [qid.counted(axis, rows, numbers) for qid in self._of_axis[at]]
        cuts = cuts_along(at, axis, counted, found.size, self._choice, self._strict)
        if cuts is None:
            return None
        stuck[rows] = ~(cuts.scores > -np.inf)[numbers]
        # Only some linked records have slots: those that can be cut at all.
        first = self._of_axis[at][0]
        slots = cuts.slot_of_pair[0][counted[0].pairs_of(first.groups[rows], axis.column.ranks[rows])]
        can_split = np.zeros(found.size, bool)
        can_split[numbers[slots >= 0]] = True
        order = rows_by_rank(numbers, found.size)
        order = order[slots[order] >= 0]
        batch = Batch(rows[order], value_counts(numbers[order], found.size)[can_split])
        parts = cuts.part_of_slot[slots[order]]
        return _LinkedCuts(batch, parts, cuts.slots.n_slots, cuts.cut_at, cuts.scores[can_split])


def groups_alike(
    qids: Iterable[frozenset[str]], names: Sequence[str], cells: Sequence[tuple[Ints, int]], n: int
) -> dict[frozenset[str], tuple[Counts, int]]:
    """Group what has equal cells over each QID; given, for each attribute, the number of each of n things' cell."""
    return {qid: group_rows([each for name, each in zip(names, cells, strict=True) if name in qid], n) for qid in qids}


def _labels(batch: Batch, n_parts: Counts, part_of_row: Ints) -> tuple[Counts, int]:
    """Number the parts of a batch's groups one after the other: each row's number, and how many there are."""
    first = np.cumsum(n_parts) - n_parts
    return np.repeat(first, batch.sizes) + part_of_row.astype(np.int64, copy=False), int(n_parts.sum())


def _batch(labels: Counts, n_labels: int, rows: Rows) -> Batch:
    """Return these rows as a batch of groups, one for each label that they have."""
    order = rows_by_rank(labels[rows], n_labels)
    sizes = value_counts(labels[rows], n_labels)
    return Batch(rows[order], sizes[sizes > 0])


def _same(labels: Ints) -> Ints:
    return labels
