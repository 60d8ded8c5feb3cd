"""The cuts that a batch's groups may have, the best of them, and the parts that those make.

Along one dimension they follow from one pass over the records, or over the different values of each group, which stand
for all records that have them (`top_cuts.py`); along all taxonomies at once from a tally (`taxonomy_candidates.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from masquerade.anonymize.mondrian.axes import Axis, Batch, ContinuousAxis, Shares, Slots, View
from masquerade.anonymize.mondrian.groups import Cells
from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.anonymize.mondrian.parts import Parts, judged
from masquerade.engine.counts import Counts, Flags, Ints, Rows
from masquerade.engine.numbering import look_up, occurring


@dataclass(frozen=True, eq=False)
class Cuts:
    """What a score of cuts may depend on, in the order of the groups that they cut."""

    sizes: Counts  # of the group of each cut
    widths: Shares  # of that group along the dimension, from 0 to 1
    parts: Parts  # `group` is the place of the cut among these
    axes: Counts  # the dimension of each cut

    @property
    def released(self) -> bool:
        """Whether the parts differ in values that are released."""
        return True


# Scores each cut; a group's best cut is made, along the first dimension on a tie.
Choice = Callable[[Cuts], Shares]
# The histograms of parts: given the rows, the part of each (asked for only if needed), and how many rows each part has.
CountParts = Callable[[Rows, Callable[[], Ints], Counts], Histograms]


class HiddenCuts(Protocol):
    """Takes note of cuts along dimensions that are not released."""

    def add(self, cells: Cells, parted: Counts) -> Counts:
        """Note groups that are cut in two; return the names of the parts, two for each group in order."""


@dataclass(frozen=True, eq=False)
class Made:
    """The parts of the cuts that are made along a dimension, or along all taxonomies."""

    chosen: Flags  # which of the candidates are made
    numbers: Counts  # of the part of each candidate, where it is made
    sizes: Counts
    parents: Counts  # the group of each part
    cells: Cells
    parted: Counts


@dataclass(frozen=True, eq=False)
class Candidates(Cuts, ABC):
    """Some cuts, each of one group along one dimension, in the order of the groups."""

    groups: Counts  # which group of the batch it would cut
    allowed: Flags

    def made(
        self, best: Counts, first: int, cells: Cells, parted: Counts, hidden: HiddenCuts | None
    ) -> Made | None:
        """Make the cuts that are the best of their groups, given the cells of all groups, and what hid cuts of them.

        Parts get numbers from `first` on. None where no cut is the best.
        """
        chosen = best[self.groups] == self.axes
        if not chosen.any():
            return None
        made = np.flatnonzero(chosen[self.parts.group])  # the parts of the chosen cuts, in order
        numbers = np.zeros(self.parts.group.size, np.int64)
        numbers[made] = np.arange(first, first + made.size)
        of_cut = self.parts.group[made]
        parents = self.groups[of_cut]
        own = cells[:, :, parents]
        self.narrow(own, of_cut)
        if hidden is None or self.released:
            names = parted[parents]
        else:
            cut = self.groups[chosen]
            names = hidden.add(cells[:, :, cut], parted[cut])
        return Made(chosen, numbers, self.parts.sizes[made], parents, own, names)

    @abstractmethod
    def narrow(self, cells: Cells, cuts: Counts) -> None:
        """Narrow the cells of parts in place; `cuts` has the index of each part's cut."""

    @abstractmethod
    def labels(self, chosen: Flags, cut: Batch, numbers: Counts) -> Counts:
        """Return the number of each row's part; `cut` has the groups whose cuts are chosen (at most one per group)."""


@dataclass(frozen=True, eq=False)
class AxisCandidates(Candidates):
    """The cuts along one dimension of the groups that can be cut there."""

    axis: Axis
    batch: Batch  # of just these
    slots: Slots
    found: Counts  # the slots that have rows, in order
    part_of_slot: Counts  # the part of each of those slots
    cut_at: Counts  # the node of each group, or the first rank of its upper half

    @property
    def released(self) -> bool:
        """Whether the dimension is released."""
        return self.axis.released

    def narrow(self, cells: Cells, cuts: Counts) -> None:
        """Narrow the cells of numbers cut in two; those along taxonomies are narrowed at the end."""
        if not isinstance(self.axis, ContinuousAxis):
            return
        at = int(self.axes[0])
        upper = np.diff(cuts, prepend=-1) == 0  # the second part of its group
        cells[at, 0, upper] = self.cut_at[cuts[upper]]
        cells[at, 1, ~upper] = self.cut_at[cuts[~upper]]
        cells[at, 0, ~upper] = self.axis.lower_start(cells[at, 0, ~upper], self.cut_at[cuts[~upper]])

    def labels(self, chosen: Flags, cut: Batch, numbers: Counts) -> Counts:
        """Map each row's slot to its part."""
        of_row = self.slots.of_row
        if not chosen.all():
            of_row = of_row[np.repeat(chosen, self.batch.sizes)]
        return look_up(of_row, self.found, numbers[self.part_of_slot], int(self.slots.first[-1]))


def candidates_along(at: int, axis: Axis, batch: Batch, judge: Judge, strict: bool) -> AxisCandidates | None:
    """Return the cuts along dimension number `at`; None when no group can be cut there."""

    def count(rows: Rows, label: Callable[[], Ints], sizes: Counts) -> Histograms:
        return judge.count(label, rows, sizes)

    return candidates_of(at, axis, batch, axis.look(batch), batch.sizes, count, judge, strict)


def candidates_of(
    at: int,
    axis: Axis,
    batch: Batch,
    view: View,
    records: Counts,
    count: CountParts,
    judge: Judge,
    strict: bool,
) -> AxisCandidates | None:
    """Return the cuts of groups that are seen so along dimension number `at`; None when no group can be cut there.

    `records` says how many each group has, where the rows of the batch stand for several each.
    """
    groups = np.flatnonzero(view.can_split)
    if not groups.size:
        return None
    view, batch = view.only(view.can_split, batch.sizes), batch.only(view.can_split)
    slots = axis.cut(batch, view)
    bound = int(slots.first[-1])
    found, sizes = occurring(slots.of_row, bound)
    counts = count(batch.rows, lambda: look_up(slots.of_row, found, np.arange(found.size), bound), sizes)
    parts = Parts(np.searchsorted(slots.first, found, "right") - 1, counts, slots.widths[found])
    parts, part_of_slot, allowed = judged(parts, view.widths, judge, strict)
    return AxisCandidates(
        records[groups],
        view.widths,
        parts,
        np.full(groups.size, at),
        groups,
        allowed,
        axis,
        batch,
        slots,
        found,
        part_of_slot,
        view.at,
    )


def best_axes(offered: Sequence[Candidates], choice: Choice, n_axes: int, n_groups: int) -> Counts:
    """Return the dimension of each group's best cut, the first on a tie; -1 where none is allowed."""
    scores = np.full((n_axes, n_groups), -np.inf)
    for candidates in offered:
        if candidates.allowed.any():
            score = choice(candidates)[candidates.allowed]
            scores[candidates.axes[candidates.allowed], candidates.groups[candidates.allowed]] = score
    best: Counts = scores.argmax(axis=0)
    best[scores[best, np.arange(n_groups)] == -np.inf] = -1
    return best
