"""One party's view of Mondrian's groups: its best cut of each along its own attributes, and its own cells.

All parties number groups, their parts and the records inside them in the same way, so that a cut is told by the part
of each record, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.mondrian.axes import Axis, Batch
from masquerade.anonymize.mondrian.candidates import Candidates, candidates_along
from masquerade.anonymize.mondrian.groups import Done, Open
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.anonymize.mondrian.partition import Choice
from masquerade.engine.counts import Counts, Flags, Ints, value_counts
from masquerade.engine.numbering import rows_by_rank


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cuts of some groups: into how many parts each, and the part of each of its records, in order."""

    n_parts: Counts
    part_of_row: Ints


@dataclass(frozen=True, eq=False)
class BestCuts:
    """This party's cuts, and the best of each group; its `axis` is -1 where none is allowed."""

    by_axis: NDArray[
        np.float64
    ]  # axis × group: the score of the cut, -inf where none is allowed; the last is no axis
    offered: Sequence[Candidates]

    @cached_property
    def axis(self) -> Counts:
        """The axis of each group's best cut, the first on a tie."""
        return np.where(self.scores == -np.inf, -1, self.by_axis.argmax(axis=0))

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """The score of each group's best cut."""
        best: NDArray[np.float64] = self.by_axis.max(axis=0)
        return best

    def without(self, groups: Flags) -> BestCuts:
        """Return the best cuts once those of the flagged groups, which must all have one, are out of the question."""
        by_axis = self.by_axis.copy()
        by_axis[self.axis[groups], np.flatnonzero(groups)] = -np.inf
        return replace(self, by_axis=by_axis)

    def of(self, groups: Flags, batch: Batch) -> Cuts:
        """Return the cuts of the flagged groups, which must all have one."""
        n_parts = np.ones(batch.n_groups, np.int64)
        part_of_row = np.zeros(batch.rows.size, np.int64)
        for candidates, chosen, made, within in self._chosen(groups):
            of_cut = candidates.parts.group[made]
            numbers = np.zeros(candidates.parts.group.size, np.int64)
            numbers[made] = within
            is_cut = np.zeros(batch.n_groups, bool)
            is_cut[candidates.groups[chosen]] = True
            cut = batch.only(is_cut)
            part_of_row[np.repeat(is_cut, batch.sizes)] = candidates.labels(chosen, cut, numbers)
            n_parts[is_cut] = value_counts(of_cut, chosen.size)[chosen]
        return Cuts(n_parts[groups], part_of_row[np.repeat(groups, batch.sizes)])

    def narrow(self, cells: Counts, groups: Flags, first_part: Counts) -> None:
        """Narrow this party's cells, in place, of the parts of the flagged groups; `first_part` is of each group."""
        for candidates, _, made, within in self._chosen(groups):
            of_cut = candidates.parts.group[made]
            numbers = first_part[candidates.groups[of_cut]] + within
            narrowed = cells[:, :, numbers]
            candidates.narrow(narrowed, of_cut)
            cells[:, :, numbers] = narrowed

    def _chosen(self, groups: Flags) -> list[tuple[Candidates, Flags, Counts, Counts]]:
        """Return candidates with best cuts of these groups: which cuts, their parts, and the parts' numbers."""
        found = []
        for candidates in self.offered:
            chosen = groups[candidates.groups] & (self.axis[candidates.groups] == candidates.axes)
            if chosen.any():
                made = np.flatnonzero(chosen[candidates.parts.group])
                of_cut = candidates.parts.group[made]
                found.append(
                    (candidates, chosen, made, np.arange(made.size) - np.searchsorted(of_cut, of_cut))
                )
        return found


@dataclass(eq=False)
class OwnGroups:
    """The groups as a party sees them, with its own cells: those that may be cut, and those that are done."""

    axes: Sequence[Axis]  # its own, in the order of the joint schema
    judge: Judge
    choice: Choice
    strict: bool
    labels: Counts  # each record's group at the start
    n_groups: int

    def __post_init__(self) -> None:
        batch = Batch(rows_by_rank(self.labels, self.n_groups), value_counts(self.labels, self.n_groups))
        first_rows = batch.rows[batch.starts]
        cells = np.zeros((len(self.axes), 2, self.n_groups), np.int64)
        for at, axis in enumerate(self.axes):
            cells[at] = axis.column.most_general(first_rows)
        self._done = Done(self.labels.size)
        self.open = self._large(Open(batch, cells, np.zeros(self.n_groups, np.int64)))

    def best(self) -> BestCuts:
        """Return the allowed cuts of each open group along our own attributes, as far as we can judge."""
        assert self.open is not None
        batch = self.open.batch
        scores = np.full((len(self.axes) + 1, batch.n_groups), -np.inf)  # the last row: no cut
        offered = []
        for at, axis in enumerate(self.axes):
            candidates = candidates_along(at, axis, batch, self.judge, self.strict)
            if candidates is not None and candidates.allowed.any():
                offered.append(candidates)
                scores[at, candidates.groups[candidates.allowed]] = self.choice(candidates)[
                    candidates.allowed
                ]
        return BestCuts(scores, offered)

    def cut(self, cuts: Cuts, is_cut: Flags, best: BestCuts, mine: Flags) -> None:
        """Cut the flagged groups, of which `mine` are cut along our own attributes; the others are done."""
        assert self.open is not None
        groups = self.open
        if not is_cut.all():
            self._done.add(groups.only(~is_cut))
        if not is_cut.any():
            self.open = None
            return
        cut = groups.batch.only(is_cut)
        first = np.cumsum(cuts.n_parts) - cuts.n_parts
        labels = np.repeat(first, cut.sizes) + cuts.part_of_row
        n_parts = int(cuts.n_parts.sum())
        parents = np.repeat(np.flatnonzero(is_cut), cuts.n_parts)
        cells = groups.cells[:, :, parents]
        first_part = np.zeros(groups.batch.n_groups, np.int64)
        first_part[is_cut] = first
        best.narrow(cells, mine, first_part)
        batch = Batch(cut.rows[rows_by_rank(labels, n_parts)], value_counts(labels, n_parts))
        parts = Open(batch, cells, groups.parted[parents])
        self.open = self._large(parts)

    def _large(self, groups: Open) -> Open | None:
        """Return the groups with enough records to be cut; the others are done."""
        large = groups.batch.sizes >= 2 * self.judge.least
        if not large.all():
            self._done.add(groups.only(~large))
        return groups.only(large) if large.any() else None

    def satisfied(self, cuts: Cuts, cut: Batch) -> Flags:
        """Return which of these groups' cuts make no part that is empty, or known to violate a requirement."""
        first = np.cumsum(cuts.n_parts) - cuts.n_parts
        labels = np.repeat(first, cut.sizes) + cuts.part_of_row
        n_parts = int(cuts.n_parts.sum())
        counts = self.judge.count(lambda: labels, cut.rows, value_counts(labels, n_parts))
        good: Flags = np.logical_and.reduceat(self.judge.holds(counts), first)
        return good

    def done(self) -> Done:
        """Return the finished groups, once none is open."""
        assert self.open is None
        return self._done
