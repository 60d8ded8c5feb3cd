"""Mondrian's loop: cut all groups of a batch, each along its best dimension, until none can be cut.

Groups are independent of each other, so a batch that is too large is done in two halves, and nothing here loops over
groups or records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from masquerade.anonymize.mondrian.axes import (
    Axis,
    Batch,
    Cells,
    ContinuousAxis,
    JoinedTaxonomies,
    Tally,
    TaxonomyAxis,
    axes_of,
)
from masquerade.anonymize.mondrian.cuts import (
    CandidateCuts,
    Choice,
    CutGroups,
    best_axes,
    candidates_along,
    taxonomy_candidates,
)
from masquerade.anonymize.mondrian.judge import Judge, judge_of
from masquerade.anonymize.mondrian.method import by_certainty
from masquerade.anonymize.preparation import Prepared, rows_by_boundary, rows_by_label, start_groups
from masquerade.data import Column, Generalised
from masquerade.engine import Counts, Flags, Rows, renumber, rows_by_rank, value_counts
from masquerade.privacy import GroupRequirement, KAnonymity


@dataclass(frozen=True, eq=False)
class Open:
    """Groups that may be cut further, and their tally while it saves work.

    Cells along taxonomies are not updated on a cut; they are narrowed at the end. `part_of` says which part of which
    cut along a dimension that is not released each group is in (`cuts.py`); 0 is none.
    """

    batch: Batch
    cells: Cells
    part_of: Counts
    tally: Tally | None = None

    def only(self, groups: Flags) -> Open:
        """Return the flagged groups."""
        if groups.all():
            return self
        tally = None if self.tally is None else self.tally.only(groups)
        return Open(self.batch.only(groups), self.cells[:, :, groups], self.part_of[groups], tally)

    def halves(self) -> list[Open]:
        """Split into two batches with about equally many rows, each with at least one group."""
        batch, tally = self.batch, self.tally
        ends = np.cumsum(batch.sizes)
        middle = int(np.clip(np.searchsorted(ends, batch.rows.size // 2), 1, batch.n_groups - 1))
        return [
            Open(
                Batch(batch.rows[rows], batch.sizes[groups]),
                self.cells[:, :, groups],
                self.part_of[groups],
                None if tally is None else tally.only(groups),
            )
            for rows, groups in (
                (slice(int(ends[middle - 1])), slice(middle)),
                (slice(int(ends[middle - 1]), None), slice(middle, None)),
            )
        ]


class Done:
    """Groups that cannot be cut any further."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self.groups: list[Open] = []

    def add(self, groups: Open) -> None:
        """Append these groups."""
        self.groups.append(replace(groups, tally=None))

    @property
    def sizes(self) -> Counts:
        """The records of each group."""
        return np.concatenate([each.batch.sizes for each in self.groups])

    @property
    def part_of(self) -> Counts:
        """Which part of which hidden cut each group is in."""
        return np.concatenate([each.part_of for each in self.groups])

    def partition(self, axes: Sequence[Axis]) -> Partition:
        """Return all groups, with cells along taxonomies as narrow as the groups' values allow, and between edges."""
        batches = [each.batch for each in self.groups]
        batch = Batch(np.concatenate([each.rows for each in batches]), np.concatenate([each.sizes for each in batches]))
        cells = np.concatenate([each.cells for each in self.groups], axis=2)
        for axis, cell in zip(axes, cells, strict=True):
            if isinstance(axis, TaxonomyAxis):
                view = axis.look(batch)
                cell[:] = view.lo, view.hi
            elif isinstance(axis, ContinuousAxis) and axis.edges.size:
                cell[:] = axis.between_edges(cell[0], cell[1], axis.look(batch))
        labels = np.empty(self._n_rows, np.int64)
        labels[batch.rows] = np.repeat(np.arange(batch.n_groups), batch.sizes)
        return Partition(labels, cells)


@dataclass(frozen=True, eq=False)
class Partition:
    """The finished groups: each row's group, and each group's ranks `[lo, hi)` along each dimension."""

    labels: Counts
    cells: Cells

    def released(self, axes: Sequence[Axis]) -> tuple[Generalised, ...]:
        """Return the released columns."""
        return tuple(
            released_column(axis.column, lo, hi, self.labels)
            for axis, (lo, hi) in zip(axes, self.cells, strict=True)
            if axis.released
        )


def released_column(column: Column, lo: Counts, hi: Counts, labels: Counts) -> Generalised:
    """Return a released column: each row's label is the index of its cell in `lo` and `hi`."""
    domain = column.domain
    width = domain.size + 1
    codes, found = renumber(lo * width + hi, width * width)
    starts, ends = found // width, found % width
    names = tuple(domain.label(int(lo), int(hi)) for lo, hi in zip(starts, ends, strict=True))
    return Generalised(column.name, codes.astype(np.int32).take(labels), names, starts, ends, domain)


_ROWS_AT_A_TIME = 1 << 17  # what fits in a processor's cache
COUNTS_AT_A_TIME = 1 << 22


@dataclass(frozen=True, eq=False)
class Cutter:
    """How groups are cut; `hidden` takes note of cuts that the release does not show."""

    axes: Sequence[Axis]
    judge: Judge
    choice: Choice
    strict: bool
    hidden: CutGroups | None = None
    counts_at_a_time: int = COUNTS_AT_A_TIME  # of parts of groups that are cut together

    def start(self, n_rows: int) -> Open:
        """Return the groups that are cut first: that of all records, or where there are boundaries those at them."""
        if all(axis.column.boundary is None for axis in self.axes) or not n_rows:
            everybody = Batch(np.arange(n_rows), np.array([n_rows]))
            whole = np.array([[[0], [max(axis.column.domain.size, 1)]] for axis in self.axes], np.int64)
            return Open(everybody, whole, np.zeros(1, np.int64))
        labels, n_groups = start_groups([axis.column for axis in self.axes], n_rows)
        batch = Batch(rows_by_rank(labels, n_groups), value_counts(labels, n_groups))
        cells = np.stack([axis.column.most_general(batch.rows[batch.starts]) for axis in self.axes])
        return Open(batch, cells, np.zeros(n_groups, np.int64))

    def tallied(self, groups: Open) -> Open:
        """Return the groups with their tally, unless requirements need more than sizes, or counting costs more."""
        if not self.judge.only_sizes or not any(isinstance(axis, TaxonomyAxis) for axis in self.axes):
            return groups
        trees, batch = JoinedTaxonomies(self.axes), groups.batch
        if not trees.worth_counting(batch.n_groups, batch.n_records):
            return groups
        return replace(groups, tally=Tally.of_groups(trees, batch))

    def cut(self, waiting: list[Open], done: Done) -> None:
        """Cut until no cut is allowed, and add what is made to `done`."""
        while waiting:
            groups = waiting.pop()
            batch = groups.batch
            n_parts = min(batch.n_records, batch.n_groups * max(axis.most_parts for axis in self.axes))
            too_large = batch.n_records > _ROWS_AT_A_TIME or n_parts * self.judge.columns > self.counts_at_a_time
            if too_large and batch.n_groups > 1:
                waiting += groups.halves()
                continue
            offered = _candidates(self.axes, groups, self.judge, self.strict)
            best = best_axes(offered, self.choice, len(self.axes), batch.n_groups)
            stuck = best < 0
            if stuck.any():
                done.add(groups.only(stuck))
            if not stuck.all() and (following := _carried_out(self, offered, best, groups, done)) is not None:
                waiting.append(following)


def partition(axes: Sequence[Axis], judge: Judge, choice: Choice, n_rows: int, strict: bool) -> Partition:
    """Cut all records of one memory until no cut is allowed."""
    cutter, done = Cutter(axes, judge, choice, strict), Done(n_rows)
    cutter.cut([cutter.tallied(cutter.start(n_rows))], done)
    return done.partition(axes)


def blocks(columns: Sequence[Column], parts: Sequence[GroupRequirement], task: Prepared, least: int) -> list[Rows]:
    """Return blocks of records that are recoded apart from each other: within the same boundaries, and not too many.

    A table of at least twice `least` rows is cut by Mondrian, unless a requirement is not monotone; then every block
    that is cut off satisfies, and has at least so many.
    """
    if task.n_rows < 2 * least or not all(part.monotone for part in parts):
        return rows_by_boundary(columns, task.n_rows)
    large = KAnonymity([column.name for column in columns], least)
    judge = judge_of([*parts, large], task.sensitive, task.n_rows)
    cut = partition(axes_of(columns), judge, by_certainty, task.n_rows, False)
    return rows_by_label(cut.labels, cut.cells.shape[2])


def _candidates(axes: Sequence[Axis], groups: Open, judge: Judge, strict: bool) -> list[CandidateCuts]:
    """Return all possible cuts of the groups."""
    tally = groups.tally
    by_rows = [
        candidates_along(at, axis, groups.batch, judge, strict)
        for at, axis in enumerate(axes)
        if tally is None or not isinstance(axis, TaxonomyAxis)
    ]
    by_counts = None if tally is None else taxonomy_candidates(groups.batch, tally, judge, strict)
    return [each for each in (by_counts, *by_rows) if each is not None]


def _carried_out(
    cutter: Cutter, offered: Sequence[CandidateCuts], best: Counts, groups: Open, done: Done
) -> Open | None:
    """Return the parts of all groups, each cut along its best dimension (-1 where it is not cut).

    Parts with too few records to be cut again are added to `done`.
    """
    rows, labels, parts_of = [], [], []
    n_parts = 0
    for candidates in offered:
        made = candidates.made(best, n_parts, groups.cells, groups.part_of, cutter.hidden)
        if made is None:
            continue
        n_parts += made.sizes.size
        is_cut = np.zeros(best.size, bool)
        is_cut[made.parents] = True
        cut = groups.batch.only(is_cut)
        rows.append(cut.rows)
        labels.append(candidates.labels(made.chosen, cut, made.numbers))
        parts_of.append(made)
    order = rows_by_rank(np.concatenate(labels), n_parts)
    batch = Batch(np.concatenate(rows)[order], np.concatenate([made.sizes for made in parts_of]))
    cells = np.concatenate([made.cells for made in parts_of], axis=2)
    parts = Open(batch, cells, np.concatenate([made.part_of for made in parts_of]))
    large = batch.sizes >= 2 * cutter.judge.least
    if not large.all():
        done.add(parts.only(~large))
        if not large.any():
            return None
    following, tally = parts.only(large), groups.tally
    if tally is None or not tally.trees.worth_counting(following.batch.n_groups, following.batch.rows.size):
        return following
    return replace(following, tally=tally.of_parts(batch, np.concatenate([made.parents for made in parts_of]), large))
