"""Mondrian over several QIDs that share attributes: each requirement is judged on the groups of its own QID.

A cut along an attribute changes the groups of every QID that has it, and no others. So the records that are cut
together along an attribute are those *linked* by it: a chain of groups, of any QIDs with the attribute, that share
records. They have one value there, all get the parts of one cut, and the cut is allowed when the groups that it makes
of each of these QIDs satisfy the requirements on that QID. With one QID the linked records are just its groups.

In each round the best cuts that have no group in common are made. What allows a cut is known from its own groups, so
the others do not disturb it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from masquerade.anonymize.boundaries import start_groups
from masquerade.anonymize.mondrian.axes import Axis, Batch, ContinuousAxis, Shares, Slots
from masquerade.anonymize.mondrian.candidates import Cuts
from masquerade.anonymize.mondrian.groups import released_column
from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.anonymize.mondrian.partition import Choice
from masquerade.anonymize.mondrian.parts import Parts
from masquerade.data.column import Generalised
from masquerade.engine.counts import Counts, Flags, Ints, Rows, value_counts, which_occur
from masquerade.engine.numbering import look_up, occurring, renumber, rows_by_rank

Test = Callable[[Judge, Histograms], Flags]


@dataclass(eq=False)
class _Qid:
    """The groups of one QID, as each row's group."""

    judge: Judge
    groups: Counts
    n_groups: int

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


class LinkedPartition:
    """Groups of several QIDs, cut until no cut is allowed."""

    def __init__(
        self,
        axes: Sequence[Axis],
        judges: Mapping[frozenset[str], Judge],
        choice: Choice,
        n_rows: int,
        strict: bool,
        first: Sequence[Axis] = (),
    ) -> None:
        self._axes, self._choice, self._strict, self._n_rows = axes, choice, strict, n_rows
        qids = {
            names: _Qid(judge, *start_groups([axis.column for axis in axes if axis.name in names], n_rows))
            for names, judge in judges.items()
        }
        self._of_axis = [[qid for names, qid in qids.items() if axis.name in names] for axis in axes]
        self._qids = tuple(qids.values())
        self._cells = [axis.column.most_general(np.arange(n_rows)) for axis in axes]  # of numbers
        for way in (first, axes) if first else (axes,):
            self._axes = way
            # Rows whose linked records cannot be cut as they are.
            self._stuck = [np.zeros(n_rows, bool) for _ in axes]
            while self._cut():
                pass

    def released(self) -> tuple[Generalised, ...]:
        """Return the released columns."""
        columns = []
        for at, axis in enumerate(self._axes):
            everybody = np.arange(self._n_rows)
            if isinstance(axis, ContinuousAxis):
                lo, hi = self._cells[at]
                if axis.edges.size:
                    linked, n_linked = self._linked(at)
                    batch = _batch(linked, n_linked, everybody)
                    members = batch.rows[batch.starts]  # all linked records have one cell
                    lo, hi = axis.between_edges(lo[members], hi[members], axis.look(batch))
                    columns.append(released_column(axis.column, lo, hi, linked))
                    continue
                columns.append(released_column(axis.column, lo, hi, everybody))
            else:
                linked, n_linked = self._linked(at)
                view = axis.look(_batch(linked, n_linked, everybody))
                columns.append(released_column(axis.column, view.lo, view.hi, linked))
        return tuple(columns)

    # --- a round ---

    def _cut(self) -> bool:
        """Make the best cuts that do not touch the same groups; return whether there were any."""
        linked = [self._linked(at) for at in range(len(self._axes))]
        by_axis = [self._cuts_along(at, *linked[at]) for at in range(len(self._axes))]
        chosen = self._best(by_axis)
        if not any(flags.any() for flags in chosen):
            return False
        cut = [
            self._make(at, cuts, flags)
            for at, (cuts, flags) in enumerate(zip(by_axis, chosen, strict=True))
            if cuts is not None and flags.any()
        ]
        changed = np.concatenate(cut)
        for (numbers, n_linked), stuck in zip(linked, self._stuck, strict=True):
            stuck &= ~which_occur(numbers[changed], n_linked)[numbers]
        return True

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
        whole = _batch(linked, n_linked, np.flatnonzero(~stuck))
        stuck[:] = True
        if not whole.n_groups:
            return None
        view = axis.look(whole)
        batch, view = whole.only(view.can_split), view.only(view.can_split, whole.sizes)
        if not batch.n_groups:
            return None
        slots = axis.cut(batch, view)
        part_of_slot, allowed = self._judged(at, batch.rows, slots)
        parts = part_of_slot[slots.of_row]
        found, sizes = occurring(parts, slots.n_slots)
        group = slots.groups[found]
        # A part that several slots share stays at the value of the group.
        shared = value_counts(part_of_slot, slots.n_slots)[found] > 1
        widths = np.where(shared, view.widths[group], slots.widths[found])
        numbers = partial(look_up, parts, found, np.arange(found.size), slots.n_slots)
        counts = self._of_axis[at][0].judge.count(numbers, batch.rows, sizes)
        cuts = Cuts(batch.sizes, view.widths, Parts(group, counts, widths), np.full(batch.n_groups, at))
        scores = np.where(allowed, self._choice(cuts), -np.inf)
        stuck[batch.rows[np.repeat(allowed, batch.sizes)]] = False
        return _LinkedCuts(batch, parts, slots.n_slots, view.at, scores)

    def _judged(self, at: int, rows: Rows, slots: Slots) -> tuple[Counts, Flags]:
        """Return the part that each slot would become, and which groups may be cut (see `parts.py`)."""
        if self._strict:
            return np.arange(slots.n_slots), self._all_hold(at, rows, slots, slots.of_row)
        part, allowed = self._keep_together(at, rows, slots)
        if self._of_axis[at][0].judge.by_size:
            allowed = allowed & self._all_hold(at, rows, slots, part[slots.of_row])
        return part, allowed

    def _all_hold(self, at: int, rows: Rows, slots: Slots, parts: Counts) -> Flags:
        """Return of which groups all parts satisfy; `parts` are numbered as the slots."""
        good = self._satisfied(at, rows, parts, slots.n_slots, Judge.holds)
        all_hold: Flags = value_counts(slots.groups[~good], slots.n_groups) == 0
        return all_hold

    def _keep_together(self, at: int, rows: Rows, slots: Slots) -> tuple[Counts, Flags]:
        """Return the part of each slot when those that cannot be cut off stay together, and where that is enough."""
        n_slots, n_groups, group = slots.n_slots, slots.n_groups, slots.groups
        part = np.arange(n_slots)
        good = self._satisfied(at, rows, slots.of_row, n_slots, Judge.can_be_cut_off)
        sizes = value_counts(slots.of_row, n_slots)
        good_slots = np.flatnonzero(good & (sizes > 0))
        n_good = value_counts(group[good_slots], n_groups)
        allowed = value_counts(group[~good], n_groups) == 0
        mixed = ~allowed & (n_good > 0)
        if not mixed.any():
            return part, allowed
        stays = ~good & mixed[group]

        def rests_hold() -> Flags:
            inside = stays[slots.of_row]
            labels = group[slots.of_row[inside]]
            return self._satisfied(at, rows[inside], labels, n_groups, Judge.can_be_cut_off)

        fine = rests_hold()
        needy = mixed & ~fine & (n_good > 1)
        if needy.any():
            ordered = good_slots[np.lexsort((good_slots, sizes[good_slots], group[good_slots]))]
            smallest = ordered[np.diff(group[ordered], prepend=-1) > 0]
            stays[smallest[needy[group[smallest]]]] = True
            fine = rests_hold()
        allowed |= mixed & fine
        staying = np.flatnonzero(stays & allowed[group])
        first = np.zeros(n_groups, np.int64)
        first[group[staying][::-1]] = staying[::-1]
        part[staying] = first[group[staying]]
        return part, allowed

    def _satisfied(self, at: int, rows: Rows, labels: Counts, n_labels: int, test: Test) -> Flags:
        """Return for each label whether its rows' groups, of all QIDs with the dimension, pass the judge's test."""
        good = np.ones(n_labels, bool)
        for qid in self._of_axis[at]:
            keys = labels * qid.n_groups + qid.groups[rows]
            numbers, found = renumber(keys, n_labels * qid.n_groups)
            histograms = qid.judge.count(partial(_same, numbers), rows, value_counts(numbers, found.size))
            good[found[~test(qid.judge, histograms)] // qid.n_groups] = False
        return good

    def _best(self, by_axis: Sequence[_LinkedCuts | None]) -> list[Flags]:
        """Return along each axis which cuts are best in all groups that they touch: of equals, along the first axis."""
        best = [np.full(qid.n_groups, -np.inf) for qid in self._qids]
        axis_of_best = [np.full(qid.n_groups, -1) for qid in self._qids]
        for at, cuts in enumerate(by_axis):
            if cuts is None:
                continue
            of_row = np.repeat(cuts.scores, cuts.batch.sizes)
            for number, qid in enumerate(self._qids):
                if qid in self._of_axis[at]:
                    scores = np.full(qid.n_groups, -np.inf)
                    scores[qid.groups[cuts.batch.rows]] = of_row
                    better = scores > best[number]
                    best[number][better] = scores[better]
                    axis_of_best[number][better] = at
        chosen = []
        for at, cuts in enumerate(by_axis):
            if cuts is None:
                chosen.append(np.zeros(0, bool))
                continue
            first = np.ones(cuts.batch.rows.size, bool)
            for number, qid in enumerate(self._qids):
                if qid in self._of_axis[at]:
                    first &= axis_of_best[number][qid.groups[cuts.batch.rows]] == at
            chosen.append(np.logical_and.reduceat(first, cuts.batch.starts))
        return chosen

    def _make(self, at: int, cuts: _LinkedCuts, chosen: Flags) -> Rows:
        """Make the chosen cuts along a dimension; return the rows that they cut."""
        inside = np.repeat(chosen, cuts.batch.sizes)
        rows, parts = cuts.batch.rows[inside], cuts.parts[inside]
        for qid in self._of_axis[at]:
            qid.split(rows, parts, cuts.n_parts)
        axis = self._axes[at]
        if isinstance(axis, ContinuousAxis):
            cut_at = np.repeat(cuts.cut_at, cuts.batch.sizes)[inside]
            upper = parts % 2 == 1
            self._cells[at][0, rows[upper]] = cut_at[upper]
            self._cells[at][1, rows[~upper]] = cut_at[~upper]
            starts = self._cells[at][0, rows[~upper]]
            self._cells[at][0, rows[~upper]] = axis.lower_start(starts, cut_at[~upper])
        return rows


def _batch(labels: Counts, n_labels: int, rows: Rows) -> Batch:
    """Return these rows as a batch of groups, one for each label that they have."""
    order = rows_by_rank(labels[rows], n_labels)
    sizes = value_counts(labels[rows], n_labels)
    return Batch(rows[order], sizes[sizes > 0])


def _same(labels: Ints) -> Ints:
    return labels
