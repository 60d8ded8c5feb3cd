"""Candidate cuts of a batch's groups along one dimension, from one pass over the records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from masquerade.anonymize.mondrian.axes import Axis, Batch, ContinuousAxis, Shares, Slots
from masquerade.anonymize.mondrian.groups import Cells
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.anonymize.mondrian.parts import Parts, judged
from masquerade.engine.counts import Counts, Flags
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


@dataclass(frozen=True, eq=False)
class Candidates(Cuts, ABC):
    """Some cuts, each of one group along one dimension, in the order of the groups."""

    groups: Counts  # which group of the batch it would cut
    allowed: Flags

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
    view = axis.look(batch)
    groups = np.flatnonzero(view.can_split)
    if not groups.size:
        return None
    view, batch = view.only(view.can_split, batch.sizes), batch.only(view.can_split)
    slots = axis.cut(batch, view)
    bound = int(slots.first[-1])
    found, sizes = occurring(slots.of_row, bound)
    counts = judge.count(
        lambda: look_up(slots.of_row, found, np.arange(found.size), bound), batch.rows, sizes
    )
    parts = Parts(np.searchsorted(slots.first, found, "right") - 1, counts, slots.widths[found])
    parts, part_of_slot, allowed = judged(parts, view.widths, judge, strict)
    return AxisCandidates(
        batch.sizes,
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
