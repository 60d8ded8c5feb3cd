"""The cuts of linked records along one attribute, by counts, and what is asked of chunks for them.

Linked records have one value along the attribute, whatever QID their groups are of (`linked.py`). Where they would be
cut follows from how many of them have each rank; whether they may be, from how many records of each group, of every QID
with the attribute, have each rank and each counted value.

A part is judged by all groups that it makes, of each QID with the attribute. So where `cuts.py` judges parts, here
parts are labels of slots, and `Satisfied` says which labels are good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.anonymize.mondrian.axes import Axis, AxisView, Batch, CutSlots, Shares
from masquerade.anonymize.mondrian.counted_cuts import CountRanks, Recut, WeightedRanks, look_at, with_ranks
from masquerade.anonymize.mondrian.cuts import Choice, Cuts, Parts
from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.engine import Arrays, Chunk, Counts, Flags, Ints, SparseCounts, renumber, value_counts, weighted_counts

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
