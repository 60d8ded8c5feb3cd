"""Mondrian over one QID, on records in any number of chunks.

Groups are independent of each other, so where they are cut does not matter. Where all records fit one memory, the loop
of `partition.py` runs there at once. Where they do not, the first groups are too large for any memory, and are cut by
counts (`counted_cuts.py`); those that are small enough are sent, with the ranks of their records, to chunks that hold
nothing but whole groups, and the same loop runs there. It is the faster one for small groups: most of their records
have a combination of ranks of their own, so that counts save nothing. What comes back to the records is the number of
their group, and to us each group's cells.

Cuts between providers that must be undone (`cuts.py`) are found by the cells of all groups: which look alike,
and whether they satisfy together, by counts. The records of a group that is cut anew are those of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.mondrian.axes import (
    Axis,
    Batch,
    Cells,
    ProviderAxis,
    axes_of,
    predicate_axes_of,
    provider_column,
)
from masquerade.anonymize.mondrian.counted_cuts import GroupTable, cut_to_size, whole_groups
from masquerade.anonymize.mondrian.cuts import Choice, CutGroups, lookalikes, only_released, parts_of_unions
from masquerade.anonymize.mondrian.judge import Judge, Merge
from masquerade.anonymize.mondrian.partition import COUNTS_AT_A_TIME, Cutter, Done, Open, released_column
from masquerade.anonymize.preparation import Prepared
from masquerade.data import (
    Coded,
    Column,
    Generalised,
    Outcome,
    Records,
    ReleasedCodes,
    codes_of,
    gathered,
    packed,
    placed,
    ranks_of,
    sent_back,
)
from masquerade.engine import (
    Arrays,
    Chunk,
    Counts,
    Flags,
    Ints,
    SparseCounts,
    rows_by_rank,
    value_counts,
    weighted_counts,
)
from masquerade.privacy import GroupRequirement

_BYTES_PER_CELL = 64  # while a group is cut
_BYTES_PER_COUNT = 24  # of its parts, with what is made of it
_BYTES_PER_END = 32  # of a group along one axis: lo and hi, once more while those of all chunks are put together
Released = dict[str, tuple[Generalised, ReleasedCodes]]  # the columns, and where each record's codes are
_CUT = "cut groups"  # an array of a gathered chunk that is no number of each row


@dataclass(frozen=True, eq=False)
class JudgeOf:
    """A judge in the making: it is made again wherever groups are cut, of the records that are there."""

    parts: tuple[GroupRequirement, ...]
    sensitive: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]]
    whole: Mapping[str, Counts]
    n_rows: int
    classes: str | None
    merge: Merge

    @property
    def counted(self) -> tuple[str, ...]:
        """The columns that are counted."""
        return (*self.sensitive, *([self.classes] if self.classes is not None else []))

    def made(self, chunk: Chunk | None = None) -> Judge:
        """Return the judge of a chunk's records; without one, of counts alone."""
        coded = {
            name: Coded(name, np.empty(0, np.int32) if chunk is None else chunk[codes_of(name)], self.labels[name])
            for name in self.counted
        }
        classes = coded[self.classes] if self.classes is not None else None
        sensitive = {name: coded[name] for name in self.sensitive}
        return Judge(self.parts, sensitive, self.n_rows, classes, self.merge, self.whole)


def judge_of_records(records: Records, parts: Sequence[GroupRequirement], classes: str | None, merge: Merge) -> JudgeOf:
    """Return the judge of requirements on one QID, which counts just the sensitive attributes that they name."""
    named = [part.sensitive for part in parts if part.sensitive is not None]
    sensitive = tuple(name for name in records.coded if name in named)
    counted = {*sensitive, *([classes] if classes is not None else [])}
    return JudgeOf(
        tuple(parts),
        sensitive,
        {name: records.coded[name].labels for name in counted},
        {name: records.whole[name] for name in counted},
        len(records),
        classes,
        merge,
    )


def place_providers(records: Records, names: Sequence[str]) -> tuple[Column, ...]:
    """Give each record its place along the providers' dimension; return those dimensions, without ranks."""
    columns = []
    for name in names:
        column, place = provider_column(records.coded[name], records.whole[name][0])
        records.chunks.change(partial(_places, codes=codes_of(name), ranks=ranks_of(name), place=place))
        columns.append(column)
    return tuple(columns)


def _places(chunk: Chunk, *, codes: str, ranks: str, place: NDArray[np.int32]) -> Arrays:
    return {ranks: place.take(chunk[codes])}


def rows_together(records: Records, n_arrays: int) -> int:
    """Return how many records may be cut in one memory, each with a number in `n_arrays` arrays."""
    return records.engine.rows_at_once(_BYTES_PER_CELL * n_arrays)


def outcome_of(task: Prepared, released: Released) -> Outcome:
    """Return the outcome of columns that were cut, in the order of the task."""
    made = [released[column.name] for column in task.columns]
    return task.outcome((column for column, _ in made), codes={column.name: codes for column, codes in made})


@dataclass(frozen=True, eq=False)
class Dimensions:
    """The dimensions of one QID, without ranks: the axes are made again wherever groups are cut."""

    columns: tuple[Column, ...]
    providers: tuple[Column, ...] = ()  # along which groups are cut, too, and which are not released
    edges: Mapping[str, Counts] = field(default_factory=dict)  # at which a workload's predicates begin or end to hold

    @property
    def all(self) -> tuple[Column, ...]:
        """All dimensions, in order."""
        return (*self.columns, *self.providers)

    @property
    def ranks(self) -> tuple[str, ...]:
        """The arrays in which a chunk has the ranks along each."""
        return tuple(ranks_of(column.name) for column in self.all)

    def here(self, chunk: Chunk) -> Dimensions:
        """Return the dimensions of a chunk's records."""
        columns, providers = (
            tuple(replace(each, ranks=chunk[ranks_of(each.name)].astype(np.int32, copy=False)) for each in several)
            for several in (self.columns, self.providers)
        )
        return replace(self, columns=columns, providers=providers)

    def axes(self) -> list[Axis]:
        """Return the axes along which groups are cut."""
        return [*axes_of(self.columns, self.edges), *map(ProviderAxis, self.providers)]

    def first(self) -> list[Axis]:
        """Return those along which they are cut before all others: at the predicates of a workload."""
        return predicate_axes_of(self.columns, self.edges) if self.edges else []


def cut_qid(records: Records, dimensions: Dimensions, judge: JudgeOf, choice: Choice, strict: bool) -> Released:
    """Cut along the dimensions of one QID until no cut is allowed; return the released columns."""
    label, groups = groups_of_qid(records, dimensions, judge, choice, strict)
    return {
        axis.name: released_by_number(axis.column, lo, hi, label)
        for axis, (lo, hi) in zip(dimensions.axes(), groups.cells, strict=True)
        if axis.released
    }


def groups_of_qid(
    records: Records, dimensions: Dimensions, judge: JudgeOf, choice: Choice, strict: bool
) -> tuple[str, GroupTable]:
    """Cut until no cut is allowed; return the groups, and the array in which chunks have each record's."""
    satisfy_together = all(part.monotone_in_records for part in judge.parts)
    hidden = CutGroups() if dimensions.providers and not satisfy_together else None
    n_axes, least = len(dimensions.all), judge.made().least
    most = len(records) // max(least, 1)  # groups
    told = f"up to {most:,} groups of {least} records along {n_axes} attributes"
    records.engine.insist_on_summing(most * _BYTES_PER_END * n_axes, told)
    label = f"cut {' '.join(column.name for column in dimensions.columns)}"
    how = _Cut(records, dimensions, judge, choice, strict, label, hidden)
    groups = how.all_of(whole_groups(records, dimensions.all, label))
    if hidden is not None:
        openly = replace(how, choice=only_released(choice))
        while (undone := how.undone(groups)).size:
            groups = openly.all_of(how.reopened(groups, undone))
    return label, groups


@dataclass(frozen=True, eq=False)
class _Cut:
    """How the groups of one QID are cut. Each record's group is in the array `label` of its chunk."""

    records: Records
    dimensions: Dimensions
    judge: JudgeOf
    choice: Choice
    strict: bool
    label: str
    hidden: CutGroups | None

    def all_of(self, start: GroupTable) -> GroupTable:
        """Cut until no cut is allowed: large groups by counts, then each in one memory. Return what is made."""
        records, label, ranks = self.records, self.label, self.dimensions.ranks
        cutter = Cutter(self.dimensions.axes(), self.judge.made(), self.choice, self.strict, self.hidden)
        most_rows = rows_together(records, len(ranks) + len(self.judge.counted))
        top = start
        prepared = np.ones(top.sizes.size, bool)  # the groups that are cut along the first dimensions already
        if first := self.dimensions.first():
            top = cut_to_size(records, replace(cutter, axes=first), label, most_rows, top, last=False)
            prepared, top = top.stuck, top.again()
        top = cut_to_size(records, cutter, label, most_rows, top)
        prepared = np.append(prepared, np.ones(top.sizes.size - prepared.size, bool))
        done = np.flatnonzero(top.stuck & (top.sizes > 0))
        number = np.full(top.sizes.size, -1, np.int64)
        number[done] = np.arange(done.size)
        waiting = np.flatnonzero(~top.stuck)
        if not waiting.size:
            records.chunks.change(partial(number_groups, tables=((label, label, number),)))
            return _finished([top.sizes[done]], [top.cells[:, :, done]], [top.part_of[done]])
        n_hidden = None if self.hidden is None else len(self.hidden)
        cut = _CutInMemory(
            self.dimensions,
            label,
            top.cells,
            top.part_of,
            n_hidden,
            prepared,
            self.judge,
            self.choice,
            self.strict,
            min(COUNTS_AT_A_TIME, records.engine.rows_at_once(_BYTES_PER_COUNT * len(cutter.axes))),
        )
        if len(records.chunks) == 1:
            # Every group is whole in the one chunk already: nothing is sent, and nothing comes back.
            groups = records.chunks.derive(replace(cut, number=number, first=done.size))
            found = [_Found.read(each, len(cutter.axes)) for each in groups.each(_cut_groups)]
            records.chunks.join(groups, partial(_labels_of, label=label))
        else:
            names = (*ranks, *map(codes_of, self.judge.counted), label)
            bins = np.full(top.sizes.size, -1, np.int64)
            bins[waiting] = packed(top.sizes[waiting], most_rows)
            groups = gathered(records, label, bins, names)
            groups.change(cut)
            found = [_Found.read(each, len(cutter.axes)) for each in groups.each(_cut_groups)]
            firsts = np.cumsum([done.size, *(each.sizes.size for each in found)])[:-1]
            back = sent_back(records, groups, [(int(first),) for first in firsts], (label,))
            placed(records, back, partial(number_groups, tables=((label, label, number),)))
        if self.hidden is not None:
            found = [each.noted(self.hidden, n_hidden or 0) for each in found]
        return _finished(
            [top.sizes[done], *(each.sizes for each in found)],
            [top.cells[:, :, done], *(each.cells for each in found)],
            [top.part_of[done], *(each.part_of for each in found)],
        )

    def undone(self, groups: GroupTable) -> Counts:
        """Return the groups that hidden cuts split whose parts look alike, and violate together."""
        assert self.hidden is not None
        alike, members = lookalikes(self.dimensions.axes(), groups.cells)
        several = np.flatnonzero(members > 1)
        if not several.size:
            return several
        union = np.full(members.size, -1, np.int64)
        union[several] = np.arange(several.size)
        judge = self.judge.made()
        counted = tuple((codes_of(each.name), len(each.labels)) for each in judge.counted)
        counts = self.records.chunks.total(
            partial(
                _count_unions, label=self.label, union_of_group=union[alike], n_unions=several.size, counted=counted
            )
        )
        histograms = [
            each.dense(several.size, n) for each, n in zip(counts, (1, *(n for _, n in counted)), strict=True)
        ]
        violating = np.zeros(members.size, bool)
        violating[several] = ~judge.holds(tuple(histograms))
        return self.hidden.undone(parts_of_unions(alike, violating, groups.part_of))

    def reopened(self, groups: GroupTable, cut: Counts) -> GroupTable:
        """Return the groups with those that hidden cuts cut in place of their parts, to be cut again."""
        assert self.hidden is not None
        inside = self.hidden.inside(groups.part_of, cut)
        n_groups = groups.sizes.size
        number = np.where(inside >= 0, n_groups + inside, np.arange(n_groups))
        self.records.chunks.change(partial(number_groups, tables=((self.label, self.label, number),)))
        parts = inside >= 0
        sizes = weighted_counts(inside[parts], groups.sizes[parts], cut.size).astype(np.int64)
        axes = len(self.dimensions.all)
        return GroupTable(
            np.append(np.where(parts, 0, groups.sizes), sizes),
            np.concatenate([groups.cells, self.hidden.cells(axes)[:, :, cut]], axis=2),
            np.append(np.ones(n_groups, bool), np.zeros(cut.size, bool)),
            np.append(groups.part_of, self.hidden.part_of[cut]),
        )


def _finished(sizes: Sequence[Counts], cells: Sequence[Cells], part_of: Sequence[Counts]) -> GroupTable:
    together = np.concatenate(sizes)
    return GroupTable(together, np.concatenate(cells, axis=2), np.ones(together.size, bool), np.concatenate(part_of))


def released_by_number(column: Column, lo: Counts, hi: Counts, label: str) -> tuple[Generalised, ReleasedCodes]:
    """Return a released column; the array `label` has each record's number among the cells `[lo, hi)`."""
    made = released_column(column, lo, hi, np.arange(lo.size))
    width = np.min_scalar_type(max(len(made.labels) - 1, 0))
    return replace(made, codes=np.empty(0, np.int32)), ReleasedCodes(label, made.codes.astype(width))


@dataclass(frozen=True, eq=False)
class _Found:
    """What was made of whole groups: their parts, and the groups that hidden cuts cut."""

    sizes: Counts
    cells: Cells
    part_of: Counts
    cut: Cells
    cut_part_of: Counts

    @classmethod
    def read(cls, arrays: Arrays, n_axes: int) -> _Found:
        """Return what a gathered chunk has of it."""
        shape = (n_axes, 2, -1)
        return cls(
            arrays["sizes"],
            arrays["cells"].reshape(shape),
            arrays["part of"],
            arrays["cut"].reshape(shape),
            arrays["cut part of"],
        )

    def noted(self, hidden: CutGroups, before: int) -> _Found:
        """Take note of the hidden cuts, after those of others; parts up to 2 `before` had their names already."""
        later = 2 * (len(hidden) - before)

        def named(parts: Counts) -> Counts:
            return np.where(parts > 2 * before, parts + later, parts)

        hidden.add(self.cut, named(self.cut_part_of))
        return replace(self, part_of=named(self.part_of))


@dataclass(frozen=True, eq=False)
class _CutInMemory:
    """Cuts groups that are whole in a chunk; it then has each row's group, and what is to be known of the groups.

    `number` has the numbers of groups that are done already, and is -1 for the others, whose parts are numbered from
    `first` on; without it no group is done.
    """

    dimensions: Dimensions
    label: str
    cells: Cells
    part_of: Counts
    n_hidden: int | None  # the hidden cuts so far; None where they need not be noted
    prepared: Flags  # groups that need not be cut along the first dimensions any more
    judge: JudgeOf
    choice: Choice
    strict: bool
    counts_at_a_time: int
    number: Counts | None = None
    first: int = 0

    def __call__(self, chunk: Chunk) -> Arrays:
        labels, dimensions = chunk[self.label], self.dimensions.here(chunk)
        axes, judge = dimensions.axes(), self.judge.made(chunk)
        there, batch = self._waiting(labels)
        groups = Open(batch, self.cells[:, :, there], self.part_of[there])
        hidden = None if self.n_hidden is None else CutGroups(self.n_hidden)
        cutter = Cutter(axes, judge, self.choice, self.strict, hidden, self.counts_at_a_time)
        if first := dimensions.first():
            ready = self.prepared[there]
            fragments = Done(batch.n_records)
            if not ready.all():
                replace(cutter, axes=first).cut([groups.only(~ready)], fragments)
            waiting = [*fragments.groups, *([groups.only(ready)] if ready.any() else [])]
        else:
            waiting = [cutter.tallied(groups)]
        done = Done(labels.size)
        cutter.cut(waiting, done)
        made = done.partition(axes)
        numbers = made.labels + self.first
        if self.number is not None and batch.n_records < labels.size:
            finished = self.number.take(labels)
            numbers = np.where(finished >= 0, finished, numbers)
        cut = hidden if hidden is not None else CutGroups()
        return {
            self.label: numbers.astype(np.int32),
            f"{_CUT} sizes": done.sizes,
            f"{_CUT} cells": made.cells.ravel(),
            f"{_CUT} part of": done.part_of,
            f"{_CUT} cut": cut.cells(len(axes)).ravel(),
            f"{_CUT} cut part of": cut.part_of,
        }

    def _waiting(self, labels: Ints) -> tuple[Counts, Batch]:
        """Return the labels of the groups that are not done, and their records."""
        sizes = value_counts(labels, self.cells.shape[2])
        if self.number is not None:
            sizes[self.number >= 0] = 0
        there = np.flatnonzero(sizes)
        if there.size == 1 and sizes[there[0]] == labels.size:
            return there, Batch(np.arange(labels.size), sizes[there])
        rows = rows_by_rank(labels, sizes.size)
        return there, Batch(rows[sizes.take(labels.take(rows)) > 0], sizes[there])


def _cut_groups(chunk: Chunk) -> Arrays:
    return {name.removeprefix(f"{_CUT} "): np.array(chunk[name]) for name in chunk if name.startswith(_CUT)}


def _count_unions(
    chunk: Chunk,
    *,
    label: str,
    union_of_group: Counts,  # -1 where no other group looks like it
    n_unions: int,
    counted: tuple[tuple[str, int], ...],
) -> tuple[SparseCounts, ...]:
    """Count the records of groups that look alike, and by each counted code."""
    union = union_of_group.take(chunk[label])
    rows = np.flatnonzero(union >= 0)
    union = union.take(rows)
    return (
        SparseCounts.of(union, n_unions),
        *(SparseCounts.of(union * n_codes + chunk[codes].take(rows), n_unions * n_codes) for codes, n_codes in counted),
    )


def _labels_of(_: Chunk, other: Chunk, *, label: str) -> Arrays:
    """Take the groups over that the same records have in other chunks."""
    return {label: other[label]}


def number_groups(chunk: Chunk, *, tables: tuple[tuple[str, str, Counts], ...]) -> Arrays:
    """Give each record numbers by its groups: the array with those, the array to make, the number of each group."""
    return {name: number.take(chunk[label]).astype(np.int32) for label, name, number in tables}
