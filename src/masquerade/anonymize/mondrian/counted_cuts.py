"""Cuts of groups whose records are in several chunks: by how many records of each group have each rank.

A cut along an attribute depends on nothing but the ranks of the group's records along it, and on the values that the
judge counts. So the pairs of group and rank that occur, each with its number of records, stand for the records: along
each attribute they are cut like records, and weigh as many (`cuts.py`). Of large groups these pairs are far fewer than
the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.mondrian.axes import (
    Axis,
    AxisView,
    Batch,
    Cells,
    ContinuousAxis,
    CutSlots,
    Shares,
    TaxonomyAxis,
)
from masquerade.anonymize.mondrian.cuts import AxisCandidates, Choice, Cuts, Parts, best_axes, candidates_of
from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.anonymize.mondrian.partition import Cutter
from masquerade.anonymize.preparation import start_cells, start_labels
from masquerade.data import Column, Records, codes_of, ranks_of
from masquerade.engine import (
    Arrays,
    Chunk,
    Counts,
    Engine,
    Flags,
    Ints,
    Rows,
    SparseCounts,
    renumber,
    value_counts,
    weighted_counts,
)

_BYTES_PER_PAIR = 100  # of group and rank: the sums of two threads, and what is made of them
_BYTES_PER_CODE = 25  # more, where each pair is counted by a code


@dataclass(frozen=True, eq=False)
class GroupTable:
    """The groups that were made: their records, their cells, and whether no cut of them is allowed.

    A group that was cut is still in its place, without records. `part_of` is as for `partition.py`.
    """

    sizes: Counts
    cells: Cells
    stuck: Flags
    part_of: Counts

    @classmethod
    def start(cls, sizes: Counts, cells: Cells) -> GroupTable:
        """Return groups to begin with."""
        return cls(sizes, cells, np.zeros(sizes.size, bool), np.zeros(sizes.size, np.int64))

    def again(self) -> GroupTable:
        """Return the same groups, to be cut in another way."""
        return replace(self, stuck=self.sizes == 0)


def whole_groups(records: Records, columns: Sequence[Column], label: str) -> GroupTable:
    """Put all records into one group, or where there are boundaries into those at them; `label` has each row's."""
    if all(column.boundary is None for column in columns):
        records.chunks.change(partial(_everybody, like=ranks_of(columns[0].name), labels=label))
        cells = np.array([[[0], [max(column.domain.size, 1)]] for column in columns], np.int64)
        return GroupTable.start(np.array([len(records)]), cells)
    sizes = start_labels(records, columns, label)
    return GroupTable.start(sizes, start_cells(records, columns, label, sizes))


def cut_to_size(
    records: Records, cutter: Cutter, label: str, most_rows: int, start: GroupTable, *, last: bool = True
) -> GroupTable:
    """Cut groups of more than `most_rows` records as long as one can be cut; array `label` then has each record's.

    Groups that cannot be cut are done if this is the `last` way in which they are.
    """
    sizes, cells, final = start.sizes.copy(), start.cells.copy(), start.stuck.copy()
    part_of = start.part_of
    while (open_ := np.flatnonzero(~final & (sizes > most_rows))).size:
        index = np.full(sizes.size, -1, np.int32)
        index[open_] = np.arange(open_.size)
        n_records = int(sizes[open_].sum())
        kernel = CountRanks.along(cutter.axes, cutter.judge, label, index)
        pairs = kernel.most_pairs(n_records, max(open_.size, n_records // most_rows))
        insist_on_pairs(records.engine, pairs, _BYTES_PER_PAIR + (_BYTES_PER_CODE if kernel.counted else 0))
        views = weighted_ranks(cutter.axes, records.chunks.total(kernel), cutter.judge, sizes[open_])
        offered = [view.candidates(at, cutter.judge, cutter.strict) for at, view in enumerate(views)]
        best = best_axes([each for each in offered if each is not None], cutter.choice, len(views), open_.size)
        own, of = cells[:, :, open_], part_of[open_]
        parts, tables, first = [], [], sizes.size
        for view, candidates in zip(views, offered, strict=True):
            made = None if candidates is None else candidates.made(best, first, own, of, cutter.hidden)
            if candidates is not None and made is not None:
                first += made.sizes.size
                parts.append(made)
                tables.append(view.table(candidates, made.chosen, made.numbers))
        if tables:
            records.chunks.change(Recut(best, tuple(tables), label, index))
        stuck = best < 0
        if last:
            narrowed = np.stack([view.narrowest(each) for view, each in zip(views, own, strict=True)])
            cells[:, :, open_[stuck]] = narrowed[:, :, stuck]
        sizes[open_[~stuck]] = 0
        sizes = np.concatenate([sizes, *(made.sizes for made in parts)])
        cells = np.concatenate([cells, *(made.cells for made in parts)], axis=2)
        part_of = np.concatenate([part_of, *(made.part_of for made in parts)])
        final[open_] = True  # replaced by its parts, or stuck
        final = np.append(final, np.zeros(sizes.size - final.size, bool))
    return GroupTable(sizes, cells, final, part_of)


def insist_on_pairs(engine: Engine, pairs: int, bytes_per_pair: int) -> None:
    """Raise if the counts of so many pairs of group and rank would take more memory than is stated."""
    engine.insist_on_room(pairs * bytes_per_pair, f"up to {pairs:,} counts of the values in each group")


def with_ranks(axis: Axis, ranks: Counts) -> Axis:
    """Return the axis for rows with these ranks."""
    own = copy(axis)
    own.column = replace(axis.column, ranks=ranks.astype(np.int32))
    return own


def look_at(axis: Axis, batch: Batch, weights: Counts, records: Counts) -> AxisView:
    """Look at different ranks of each group, in order, each of which so many records have; `records` sums them up."""
    if isinstance(axis, ContinuousAxis):
        return axis.look_weighted(batch, weights, records)
    return axis.look(batch)


@dataclass(frozen=True, eq=False)
class WeightedRanks:
    """The pairs of group and rank that occur along one axis, in order, and how many records have each."""

    axis: Axis  # whose column has the rank of each pair
    keys: Counts  # the pairs: the group's place times the number of ranks, plus the rank
    batch: Batch  # the pairs of each group
    weights: Counts
    coded: tuple[tuple[Counts, Counts, Counts, int], ...]  # pair, code and count; the number of codes
    records: Counts  # of each group

    @classmethod
    def of(cls, axis: Axis, counted: Sequence[SparseCounts], judge: Judge, records: Counts) -> WeightedRanks:
        """Return the pairs of groups, with their numbers of records, from what `CountRanks` counted along the axis."""
        if judge.counted:
            n_first = len(judge.counted[0].labels)
            pairs = counted[0].keys // n_first
            starts = np.flatnonzero(np.diff(pairs, prepend=-1))
            keys, weights = pairs[starts], np.add.reduceat(counted[0].counts, starts)
        else:
            keys, weights = counted[0].keys, counted[0].counts
        groups, ranks = np.divmod(keys, axis.n_ranks)
        batch = Batch(np.arange(keys.size), np.diff(np.searchsorted(groups, np.arange(records.size + 1))))
        coded = []
        for each, counts in zip(judge.counted, counted, strict=False):
            n_codes = len(each.labels)
            pair, code = np.divmod(counts.keys, n_codes)
            coded.append((np.searchsorted(keys, pair), code, counts.counts, n_codes))
        return cls(with_ranks(axis, ranks), keys, batch, weights, tuple(coded), records)

    def look(self) -> AxisView:
        """Return what each group covers, and where it would be cut."""
        return look_at(self.axis, self.batch, self.weights, self.records)

    def narrowest(self, cell: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cells of groups that are done: along taxonomies as narrow as their values, and between edges."""
        if isinstance(self.axis, TaxonomyAxis):
            view = self.axis.look(self.batch)
            return np.stack([view.lo, view.hi])
        if isinstance(self.axis, ContinuousAxis) and self.axis.edges.size:
            return np.stack(self.axis.between_edges(cell[0], cell[1], self.look()))
        return cell

    def candidates(self, at: int, judge: Judge, strict: bool) -> AxisCandidates | None:
        """Return the cuts along this axis; None when no group can be cut there."""

        def count(pairs: Rows, part: Callable[[], Ints], sizes: Counts) -> Histograms:
            return self.counts(part(), sizes.size, pairs)

        return candidates_of(at, self.axis, self.batch, self.look(), self.records, count, judge, strict)

    def counts(self, part: Ints, n_parts: int, pairs: Rows) -> Histograms:
        """Return the histograms of parts, given the part of each of these pairs."""
        sizes = weighted_counts(part, self.weights[pairs], n_parts).astype(np.int64).reshape(-1, 1)
        part_of_pair = np.full(self.weights.size, -1)
        part_of_pair[pairs] = part
        histograms = []
        for pair, code, counts, n_codes in self.coded:
            here = part_of_pair[pair]
            rows = here >= 0
            keys = here[rows] * n_codes + code[rows]
            counted = weighted_counts(keys, counts[rows], n_parts * n_codes).astype(np.int64)
            histograms.append(counted.reshape(n_parts, n_codes))
        return (sizes, *histograms)

    def table(self, candidates: AxisCandidates, chosen: Flags, numbers: Counts) -> PartTable:
        """Return the number of the part of each pair of a group that is cut along this axis."""
        pairs = candidates.batch.rows[np.repeat(chosen, candidates.batch.sizes)]
        part = candidates.labels(chosen, candidates.batch, numbers)
        return PartTable(int(candidates.axes[0]), ranks_of(self.axis.name), self.axis.n_ranks, self.keys[pairs], part)


def weighted_ranks(
    axes: Sequence[Axis], counted: Sequence[Sequence[SparseCounts]], judge: Judge, records: Counts
) -> list[WeightedRanks]:
    """Return the pairs along each axis, from what `CountRanks` counted; `records` are those of each group."""
    return [WeightedRanks.of(axis, counts, judge, records) for axis, counts in zip(axes, counted, strict=True)]


@dataclass(frozen=True, eq=False)
class PartTable:
    """The new group of the records with each (group, rank), of groups that are cut along one axis."""

    axis: int
    ranks: str
    size: int
    keys: Counts
    numbers: Counts


@dataclass(frozen=True, eq=False)
class Recut:
    """Gives the records of groups that are cut their new groups."""

    axis_of_group: Counts  # of each open group; -1 where it is not cut
    tables: tuple[PartTable, ...]
    labels: str
    index: NDArray[np.int32] | None = None  # of each group among the open ones, -1 where it is none; None where all are

    def __call__(self, chunk: Chunk) -> Arrays:
        """Return the new groups of a chunk's records."""
        labels = np.array(chunk[self.labels])
        group = labels.copy() if self.index is None else self.index.take(labels)
        cut_along = np.append(self.axis_of_group, -1).take(group)
        for table in self.tables:
            rows = np.flatnonzero(cut_along == table.axis)
            keys = group.take(rows).astype(np.int64) * table.size + chunk[table.ranks].take(rows)
            labels[rows] = table.numbers.take(np.searchsorted(table.keys, keys))
        return {self.labels: labels}


def _everybody(chunk: Chunk, *, like: str, labels: str) -> Arrays:
    return {labels: np.zeros(chunk[like].size, np.int32)}


@dataclass(frozen=True, eq=False)
class CountRanks:
    """Counts the records of open groups by rank, along each axis, and by each counted code."""

    labels: str
    index: NDArray[np.int32]
    ranks: tuple[str, ...]
    sizes: tuple[int, ...]
    counted: tuple[tuple[str, int], ...]

    @classmethod
    def along(cls, axes: Sequence[Axis], judge: Judge, labels: str, index: NDArray[np.int32]) -> CountRanks:
        """Count along these axes, and what a judge needs; `index` has the place of each label, -1 for none."""
        return cls(
            labels,
            index,
            tuple(ranks_of(axis.name) for axis in axes),
            tuple(axis.n_ranks for axis in axes),
            tuple((codes_of(each.name), len(each.labels)) for each in judge.counted),
        )

    def most_pairs(self, records: int, n_groups: int) -> int:
        """Return how many counts there may be of so many records in so many groups."""
        codes = [n_codes for _, n_codes in self.counted] or [1]
        return sum(min(records, n_groups * size * n_codes) for size in self.sizes for n_codes in codes)

    def __call__(self, chunk: Chunk) -> tuple[tuple[SparseCounts, ...], ...]:
        """Return for each axis the counts by (group, rank), or one for each counted code."""
        group = self.index.take(chunk[self.labels])
        rows = np.flatnonzero(group >= 0)
        group = group.take(rows).astype(np.int64)
        n_groups = int(self.index.max(initial=-1)) + 1
        found: list[tuple[SparseCounts, ...]] = []
        for name, size in zip(self.ranks, self.sizes, strict=True):
            keys = group * size + chunk[name].take(rows)
            by_code = (
                SparseCounts.of(keys * n_codes + chunk[codes].take(rows), n_groups * size * n_codes)
                for codes, n_codes in self.counted
            )
            found.append(tuple(by_code) if self.counted else (SparseCounts.of(keys, n_groups * size),))
        return tuple(found)


# --- linked records ---------------------------------------------------------------------------------------
# The cuts of linked records along one attribute, by counts, and what is asked of chunks for them.
#
# Linked records have one value along the attribute, whatever QID their groups are of (`linked.py`). Where they would
# be cut follows from how many of them have each rank; whether they may be, from how many records of each group, of
# every QID with the attribute, have each rank and each counted value.
#
# A part is judged by all groups that it makes, of each QID with the attribute. So where `cuts.py` judges parts, here
# parts are labels of slots, and `Satisfied` says which labels are good.

Test = Callable[[Judge, Histograms], Flags]
# Of the label of each slot (-1 for none), how many labels there are, and a test: the labels all of whose groups pass.
Satisfied = Callable[[Counts, int, Test], Flags]


@dataclass(frozen=True, eq=False)
class CountedGroups:
    """The groups of one QID that may be cut along an axis, and how many of their records have each rank."""

    judge: Judge
    groups: Counts  # their numbers among all groups of the QID, in order
    linked: Counts  # the linked records that each belongs to
    pairs: WeightedRanks  # of these groups' places and ranks

    @property
    def n_groups(self) -> int:
        """The number of these groups."""
        return int(self.groups.size)

    def pairs_of(self, groups: Counts, ranks: Ints) -> Counts:
        """Return the place of the pair of each of these groups and ranks."""
        keys = np.searchsorted(self.groups, groups) * self.pairs.axis.n_ranks + ranks
        return np.searchsorted(self.pairs.keys, keys)

    def keys(self) -> tuple[Counts, Counts]:
        """Return the place of each pair's group, and the (linked records, rank) of each pair as one number."""
        place, rank = np.divmod(self.pairs.keys, self.pairs.axis.n_ranks)
        return place, self.linked[place] * self.pairs.axis.n_ranks + rank


@dataclass(frozen=True, eq=False)
class Units:
    """The (linked records, rank) that occur along an axis, in order, and how many records have each."""

    axis: Axis
    keys: Counts
    batch: Batch
    weights: Counts
    records: Counts  # of all linked records

    @classmethod
    def of(cls, axis: Axis, counted: CountedGroups, n_linked: int) -> Units:
        """Add up the pairs of one QID's groups: every linked record is in one of them."""
        size = counted.pairs.axis.n_ranks
        numbers, keys = renumber(counted.keys()[1], n_linked * size)
        weights = weighted_counts(numbers, counted.pairs.weights, keys.size).astype(np.int64)
        linked, ranks = np.divmod(keys, size)
        batch = Batch(np.arange(keys.size), value_counts(linked, n_linked))
        records = weighted_counts(linked, weights, n_linked).astype(np.int64)
        return cls(with_ranks(axis, ranks), keys, batch, weights, records)

    def look(self) -> AxisView:
        """Return what linked records cover, and where they would be cut."""
        return look_at(self.axis, self.batch, self.weights, self.records)


@dataclass(frozen=True, eq=False)
class _SlotCounts:
    """The groups of one QID in each slot of a cut: those that occur, and what the judge counts of them."""

    judge: Judge
    n_groups: int
    slot: Counts
    group: Counts  # by its place
    histograms: Histograms

    @classmethod
    def of(cls, counted: CountedGroups, slot_of_pair: Counts) -> _SlotCounts:
        inside = np.flatnonzero(slot_of_pair >= 0)
        place = counted.keys()[0][inside]
        bound = (int(slot_of_pair.max(initial=0)) + 1) * counted.n_groups
        numbers, found = renumber(slot_of_pair[inside] * counted.n_groups + place, bound)
        histograms = counted.pairs.counts(numbers.astype(np.int64), found.size, inside)
        return cls(counted.judge, counted.n_groups, found // counted.n_groups, found % counted.n_groups, histograms)

    def bad(self, label_of_slot: Counts, n_labels: int, test: Test) -> Counts:
        """Return the labels of which some group fails a test, where the slots with one label are one part."""
        labels = label_of_slot[self.slot]
        inside = np.flatnonzero(labels >= 0)
        keys = labels[inside] * self.n_groups + self.group[inside]
        numbers, found = renumber(keys, n_labels * self.n_groups)
        histograms = tuple(_added_up(each[inside], numbers.astype(np.int64)) for each in self.histograms)
        bad: Counts = found[~test(self.judge, histograms)] // self.n_groups
        return bad

    def of_parts(self, part_of_slot: Counts) -> Histograms:
        """Return the counts of parts, given the number of each slot's part; every part has records."""
        return tuple(_added_up(each, part_of_slot[self.slot]) for each in self.histograms)


def _added_up(rows: Counts, labels: Counts) -> Counts:
    """Add up the rows with each label; every label up to the largest must occur."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    added: Counts = np.add.reduceat(rows[order], starts, axis=0) if starts.size else rows[:0]
    return added


@dataclass(frozen=True, eq=False)
class CountedCuts:
    """The cuts of linked records along one axis: where, into which parts, and how good each is."""

    counted: Sequence[CountedGroups]  # of every QID with the attribute
    scores: Shares  # of all linked records; -inf where no cut is allowed
    slots: CutSlots
    part_of_slot: Counts
    slot_of_pair: Sequence[Counts]  # for each of `counted`; -1 where there is no cut
    cut_at: Counts  # by the slots' groups

    def parts_of_pairs(self, at: int, made: Flags) -> tuple[Counts, Counts]:
        """Return the pairs of a QID's groups in cuts that are made, and the part of each (the number of a slot)."""
        counted = self.counted[at]
        place = counted.keys()[0]
        pairs = np.flatnonzero(made[counted.linked[place]])
        return pairs, self.part_of_slot[self.slot_of_pair[at][pairs]]


def cuts_along(
    at: int, axis: Axis, counted: Sequence[CountedGroups], n_linked: int, choice: Choice, strict: bool
) -> CountedCuts | None:
    """Return the cuts along dimension number `at`; None when no linked records can be cut there."""
    units = Units.of(axis, counted[0], n_linked)
    view = units.look()
    can_split = view.can_split
    if not can_split.any():
        return None
    batch, view = units.batch.only(can_split), view.only(can_split, units.batch.sizes)
    slots = units.axis.cut(batch, view)
    slot_of_unit = np.full(units.keys.size, -1, np.int64)
    slot_of_unit[np.repeat(can_split, units.batch.sizes)] = slots.of_row
    slot_of_pair = [slot_of_unit[np.searchsorted(units.keys, each.keys()[1])] for each in counted]
    found = [_SlotCounts.of(each, slot) for each, slot in zip(counted, slot_of_pair, strict=True)]

    def satisfied(label_of_slot: Counts, n_labels: int, test: Test) -> Flags:
        good = np.ones(n_labels, bool)
        for each in found:
            good[each.bad(label_of_slot, n_labels, test)] = False
        return good

    sizes = weighted_counts(found[0].slot, found[0].histograms[0][:, 0], slots.n_slots).astype(np.int64)
    part_of_slot, allowed = judged_slots(slots, sizes, satisfied, by_size=counted[0].judge.by_size, strict=strict)
    size_of_part = weighted_counts(part_of_slot, sizes, slots.n_slots)
    parts = np.flatnonzero(size_of_part)
    group = slots.groups[parts]
    # A part that several slots share stays at the value of the group.
    shared = value_counts(part_of_slot, slots.n_slots)[parts] > 1
    widths = np.where(shared, view.widths[group], slots.widths[parts])
    number = np.zeros(slots.n_slots, np.int64)
    number[parts] = np.arange(parts.size)
    counts = found[0].of_parts(number[part_of_slot])
    records = units.records[can_split]
    cuts = Cuts(records, view.widths, Parts(group, counts, widths), np.full(records.size, at))
    scores = np.full(n_linked, -np.inf)
    scores[can_split] = np.where(allowed, choice(cuts), -np.inf)
    return CountedCuts(counted, scores, slots, part_of_slot, slot_of_pair, view.at)


def judged_slots(
    slots: CutSlots, sizes: Counts, satisfied: Satisfied, *, by_size: bool, strict: bool
) -> tuple[Counts, Flags]:
    """Return the part that each slot would become, and which linked records may be cut; `sizes` are the slots'."""
    every = np.arange(slots.n_slots)
    if strict:
        return every, _all_hold(slots, every, satisfied)
    part, allowed = _keep_together(slots, sizes, satisfied)
    if by_size:
        allowed = allowed & _all_hold(slots, part, satisfied)
    return part, allowed


def _all_hold(slots: CutSlots, part_of_slot: Counts, satisfied: Satisfied) -> Flags:
    """Return of which linked records all parts satisfy; parts are numbered as the slots."""
    good = satisfied(part_of_slot, slots.n_slots, Judge.holds)
    all_hold: Flags = value_counts(slots.groups[~good], slots.n_groups) == 0
    return all_hold


def _keep_together(slots: CutSlots, sizes: Counts, satisfied: Satisfied) -> tuple[Counts, Flags]:
    """Return the part of each slot when those that cannot be cut off stay together, and where that is enough."""
    n_slots, n_groups, group = slots.n_slots, slots.n_groups, slots.groups
    part = np.arange(n_slots)
    good = satisfied(part, n_slots, Judge.can_be_cut_off)
    good_slots = np.flatnonzero(good & (sizes > 0))
    n_good = value_counts(group[good_slots], n_groups)
    allowed = value_counts(group[~good], n_groups) == 0
    mixed = ~allowed & (n_good > 0)
    if not mixed.any():
        return part, allowed
    stays = ~good & mixed[group]

    def rests_hold() -> Flags:
        return satisfied(np.where(stays, group, -1), n_groups, Judge.can_be_cut_off)

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


def count_pairs(
    chunk: Chunk,
    *,
    first: str,
    flagged: Flags,
    pairs: tuple[tuple[str, int, str, int], ...],  # two arrays with groups, and how many groups there are
) -> tuple[SparseCounts, ...]:
    """Count the records that groups of two QIDs share, of those whose group of the first QID is flagged."""
    rows = np.flatnonzero(flagged.take(chunk[first]))
    return tuple(
        SparseCounts.of(chunk[one].take(rows).astype(np.int64) * n_others + chunk[other].take(rows), n_ones * n_others)
        for one, n_ones, other, n_others in pairs
    )


def count_all(chunk: Chunk, *, kernels: tuple[CountRanks, ...]) -> tuple[tuple[tuple[SparseCounts, ...], ...], ...]:
    """Count several things at once."""
    return tuple(kernel(chunk) for kernel in kernels)


def recut_all(chunk: Chunk, *, kernels: tuple[Recut, ...]) -> Arrays:
    """Cut the groups of several QIDs at once."""
    return {name: array for kernel in kernels for name, array in kernel(chunk).items()}


def keep_arrays(chunk: Chunk, *, names: tuple[str, ...]) -> Arrays:
    """The arrays of these names, to be changed."""
    return {name: np.array(chunk[name]) for name in names}
