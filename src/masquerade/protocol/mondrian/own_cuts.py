"""One party's view of Mondrian's groups: its best cut of each along its own attributes, and its own cells.

All parties number groups, their parts and the records inside them in the same way, so that a cut is told by the part
of each record, in order. Where a group's records are does not show: they are in the chunks of the party's engine.

Groups are looked at in two ways, as on one table. One of which no chunk has all records is looked at by counts of
(group, rank) (`anonymize/mondrian/counted_cuts.py`): these add up over chunks. As soon as a group is small enough for
one memory, its records are sent to a chunk that holds it whole, and looked at there: that keeps what is made on the
way, and what travels, as small as the group. A table in memory is one chunk that has every group from the start, so
nothing is sent, and the cuts that were looked at are kept for whichever is made. What comes back is, for each group,
its best cuts: every party bids for each group by itself in any case. The party's process holds, besides each group's
cells, what it sends and receives: the part of each record, in the narrowest type that holds it, while a level is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize import (
    Axis,
    AxisCandidates,
    Batch,
    Cells,
    Choice,
    ContinuousAxis,
    CountRanks,
    Dimensions,
    JudgeOf,
    TaxonomyAxis,
    WeightedRanks,
    released_column,
    weighted_ranks,
)
from masquerade.data import Generalised, Records, codes_of
from masquerade.engine import Chunks, Counts, Flags, Ints, Kernel, Rows, value_counts
from masquerade.protocol.mondrian import kernels
from masquerade.protocol.mondrian.kernels import in_blocks, places

_BYTES_PER_CELL = 64  # while a group is looked at
_RECORDS_AT_ONCE = 1 << 20  # of those whose parts are counted in this process


@dataclass(frozen=True, eq=False)
class PartsOfGroups:
    """Cuts of some groups: into how many parts each, and the part of each of its records, in order."""

    n_parts: Counts
    part_of_row: Ints


class OpenBatch(Batch):
    """Groups that may be cut, whose rows are in chunks, and are fetched if somebody asks for them."""

    def __init__(self, groups: Counts, sizes: Counts, view: OwnGroups) -> None:
        self.__dict__.update(groups=groups, sizes=sizes, view=view)

    groups: Counts
    view: OwnGroups

    @cached_property
    def rows(self) -> Rows:
        """The places of the groups' records in the common order: eight bytes a record."""
        return self.view.rows_of(self)

    @property
    def n_records(self) -> int:
        """Number of rows of all groups."""
        return int(self.sizes.sum())

    def only(self, groups: Flags) -> OpenBatch:
        """Return the batch of the flagged groups."""
        return self if groups.all() else OpenBatch(self.groups[groups], self.sizes[groups], self.view)


@dataclass(frozen=True, eq=False)
class BestCuts:
    """This party's cuts, and the best of each group; its `axis` is -1 where none is allowed."""

    by_axis: NDArray[np.float64]  # axis × group: the score of the cut, -inf where none is allowed; the last is no axis
    view: OwnGroups
    cut_at: Counts  # axis × group, where the cut is allowed
    n_parts: Counts
    offered: kernels.Offered | None  # the cuts themselves, where one chunk in this memory has all groups
    by_counts: Sequence[tuple[WeightedRanks, AxisCandidates | None]]  # of groups in no one chunk, by axis
    spread: Counts  # the numbers of those groups

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

    def of(self, groups: Flags) -> PartsOfGroups:
        """Return the cuts of the flagged groups, which must all have one."""
        return self.view.own_parts(self, groups)

    def narrow(self, cells: Counts, groups: Flags, first_part: Counts) -> None:
        """Narrow the cells, in place, of the parts of the flagged groups; `first_part` is of each group.

        Those of numbers that are cut in two; along taxonomies all are narrowed at the end, by the values there are.
        """
        for at, axis in enumerate(self.view.axes):
            if isinstance(axis, ContinuousAxis):
                cut = np.flatnonzero(groups & (self.axis == at))
                lower, cut_at = first_part[cut], self.cut_at[at, cut]
                cells[at, 0, lower + 1] = cut_at
                cells[at, 1, lower] = cut_at
                cells[at, 0, lower] = axis.lower_start(cells[at, 0, lower], cut_at)

    def tables(self, groups: Flags) -> kernels.Tables:
        """Return the part of each (label, rank) of flagged groups that are in no one chunk."""
        found = []
        for at, (ranks, candidates) in enumerate(self.by_counts):
            if candidates is None:
                continue
            numbers = self.spread[candidates.groups]
            chosen = groups[numbers] & (self.axis[numbers] == at)
            if chosen.any():
                group = candidates.parts.group
                within = np.arange(group.size) - np.searchsorted(group, group)
                table = ranks.table(candidates, chosen, within)
                found.append((at, table.ranks, table.size, table.keys, table.numbers))
        return tuple(found)


class OwnGroups:
    """The groups as a party sees them, with its own cells: those that may be cut, and those that are done."""

    def __init__(
        self,
        table: Records,
        dimensions: Dimensions,
        judge: JudgeOf,
        choice: Choice,
        strict: bool,
        start: tuple[Counts, Cells] | None = None,
    ) -> None:
        """`start` has each record's group and the groups' cells; without it all are in one."""
        self.axes: Sequence[Axis] = dimensions.axes()
        self.how = kernels.Cutting(tuple(self.axes), dimensions.ranks, judge, choice, strict)
        self._judge = judge.made()
        sizes = np.array(table.sizes, np.int64)
        self._firsts = np.cumsum(sizes) - sizes
        arrays = len(dimensions.ranks) + len(judge.counted)
        self._most_rows = table.engine.rows_at_once(_BYTES_PER_CELL * max(arrays, 1))
        self._done_cells: list[Cells] = []
        self._n_done = 0
        if start is None:
            cells = np.array([[[0], [max(axis.column.domain.size, 1)]] for axis in self.axes], np.int64)
            labels: list[Counts | None] = [None] * len(table.chunks)
        else:
            cells = start[1]
            labels = [start[0][first : first + n] for first, n in zip(self._firsts, table.sizes, strict=True)]
        n_groups = 1 if start is None else int(start[0].max(initial=-1)) + 1
        cells = cells.reshape(len(self.axes), 2, -1 if self.axes else n_groups)
        table.chunks.change(
            [
                partial(kernels.initial_labels, rows=rows, labels=each)
                for rows, each in zip(table.sizes, labels, strict=True)
            ]
        )
        together = len(table.chunks) == 1 and len(table) <= self._most_rows
        self._home = GroupStore(table.chunks, whole=together, everything=together)
        self._away: list[GroupStore] = []  # where records of whole groups were sent
        self._number([(self._home, [np.arange(cells.shape[2])] * len(table.chunks))], cells)

    @property
    def open(self) -> OpenBatch | None:
        """The groups that may be cut; None where there are none."""
        return self._batch if self._batch.n_groups else None

    @property
    def _stores(self) -> Sequence[GroupStore]:
        return (self._home, *self._away)

    # --- looking ---

    def best(self) -> BestCuts:
        """Return the allowed cuts of each open group along our own attributes, as far as we can judge."""
        n_axes, n_groups = len(self.axes), self._batch.n_groups
        scores = np.full((n_axes + 1, n_groups), -np.inf)  # the last row: no cut
        cut_at, n_parts = np.zeros((2, n_axes, n_groups), np.int64)
        offered = None
        for store in self._stores if n_axes else ():
            if not store.whole:
                continue
            # Kept where they lie in this memory anyway: from any other place they would have to travel.
            looks = [
                partial(kernels.best_of_chunk, open_=groups >= 0, how=self.how, keep=store.everything)
                for groups in store.groups
            ]
            for groups, found in zip(store.groups, store.chunks.each(looks), strict=True):
                here = groups >= 0
                for of_all, of_chunk in (
                    (scores[:n_axes], found.scores),
                    (cut_at, found.cut_at),
                    (n_parts, found.n_parts),
                ):
                    of_all[:, groups[here]] = of_chunk[:, here]
                offered = found.offered
        numbers = self._home.spread
        by_counts = self._counted(numbers) if numbers.size and n_axes else []
        for at, (_, candidates) in enumerate(by_counts):
            if candidates is not None and candidates.allowed.any():
                groups = numbers[candidates.groups]
                scores[at, groups[candidates.allowed]] = self.how.choice(candidates)[candidates.allowed]
                cut_at[at, groups] = candidates.cut_at
                n_parts[at, groups] = value_counts(candidates.parts.group, groups.size)
        return BestCuts(scores, self, cut_at, n_parts, offered, by_counts, numbers)

    def _counted(self, numbers: Counts) -> list[tuple[WeightedRanks, AxisCandidates | None]]:
        """Look at the groups of which no chunk has all records."""
        spread, judge = self._home, self._judge
        index = np.full(spread.groups[0].size + 1, -1, np.int32)
        index[np.flatnonzero(spread.groups[0] >= 0)] = np.arange(numbers.size)
        counted = spread.chunks.total(CountRanks.along(self.axes, judge, kernels.LABEL, index))
        found = weighted_ranks(self.axes, counted, judge, self._batch.sizes[numbers])
        return [(each, each.candidates(at, judge, self.how.strict)) for at, each in enumerate(found)]

    def own_parts(self, best: BestCuts, groups: Flags) -> PartsOfGroups:
        """Return our cuts of the flagged groups."""
        asked = np.flatnonzero(groups)
        n_parts = best.n_parts[best.axis[asked], asked]
        axis = np.where(groups, best.axis, -1)
        made: list[tuple[GroupStore, list[Kernel[Ints]]]] = [
            (
                store,
                [
                    partial(kernels.parts_of_chunk, axis=store.by_label(at, axis), how=self.how, offered=best.offered)
                    for at in store.places
                ],
            )
            for store in self._stores
            if store.whole
        ]
        if tables := best.tables(groups):
            # The tables number groups by their place among those that were counted.
            place = np.full(axis.size, -1)
            place[best.spread] = np.arange(best.spread.size)
            home = self._home
            by_rank: list[Kernel[Ints]] = [
                partial(
                    kernels.parts_by_rank, axis=home.by_label(at, axis), place=home.by_label(at, place), tables=tables
                )
                for at in home.places
            ]
            made.append((home, by_rank))
        return PartsOfGroups(n_parts, self._collected(groups, made, np.min_scalar_type(int(n_parts.max(initial=1)))))

    def rows_of(self, batch: OpenBatch) -> Rows:
        """Return the places of these groups' records in the common order, group by group."""
        flags = np.zeros(self._batch.n_groups, bool)
        flags[batch.groups] = True
        made: list[tuple[GroupStore, list[Kernel[Ints]]]] = []
        for store in self._stores:
            wanted = [store.by_label(at, flags.astype(np.int64), 0) > 0 for at in store.places]
            firsts = [int(first) for first in self._firsts] if store is self._home else [None] * len(wanted)
            made.append(
                (
                    store,
                    [
                        partial(kernels.rows_of, groups=each, firsts=self._firsts, first=first)
                        for each, first in zip(wanted, firsts, strict=True)
                    ],
                )
            )
        rows: Rows = self._collected(flags, made, np.dtype(np.intp)).astype(np.intp, copy=False)
        return rows

    def _collected(
        self, groups: Flags, made: Sequence[tuple[GroupStore, Sequence[Kernel[Ints]]]], dtype: np.dtype
    ) -> Ints:
        """Put together what chunks give for each record of the flagged groups, group by group."""
        starts = self._starts(groups)
        found: Ints = np.zeros(int(self._batch.sizes[groups].sum()), dtype)
        for store, each in made:
            for at, given in enumerate(store.chunks.each(each)):
                found[store.records(at, starts)] = given
        return found

    def _starts(self, groups: Flags) -> Counts:
        """Return where each flagged group starts in a list of their records; -1 for the others."""
        sizes = np.where(groups, self._batch.sizes, 0)
        return np.where(groups, np.cumsum(sizes) - sizes, -1)

    # --- cutting ---

    def satisfied(self, cuts: PartsOfGroups, cut: Batch) -> Flags:
        """Return which of these groups' cuts make no part that is empty, or known to violate a requirement."""
        assert isinstance(cut, OpenBatch)
        sizes = _part_sizes(cuts, cut.sizes)
        first = np.cumsum(cuts.n_parts) - cuts.n_parts
        if self._judge.only_sizes or not self._judge.counted:
            good: Flags = np.logical_and.reduceat(self._judge.holds((sizes.reshape(-1, 1),)), first)
            return good
        of_group = np.zeros(self._batch.n_groups, np.int64)
        of_group[cut.groups] = cuts.n_parts
        starts = self._starts(of_group > 0)
        all_good = np.ones(of_group.size, bool)
        for store in self._stores:
            if not store.whole:
                continue
            judges = [
                partial(
                    kernels.judge_whole,
                    n_parts=store.by_label(at, of_group, 0),
                    parts=cuts.part_of_row[store.records(at, starts)],
                    judge=self.how.judge,
                )
                for at in store.places
            ]
            for at, given in enumerate(store.chunks.each(judges)):
                asked = store.by_label(at, of_group, 0) > 0
                all_good[store.groups[at][asked]] = given
        spread = self._home.spread
        if of_group[spread].any():
            all_good &= self._spread_parts_hold(cuts, cut, of_group, sizes)
        return all_good[cut.groups]

    def _spread_parts_hold(self, cuts: PartsOfGroups, cut: OpenBatch, of_group: Counts, sizes: Counts) -> Flags:
        """Judge the parts of groups of which no chunk has all records, by the counts of all chunks."""
        home, starts = self._home, self._starts(of_group > 0)
        n_parts = home.by_label(0, of_group, 0)
        counted = tuple((codes_of(each.name), len(each.labels)) for each in self._judge.counted)
        counts = home.chunks.each(
            [
                partial(
                    kernels.count_parts,
                    n_parts=n_parts,
                    parts=cuts.part_of_row[home.records(at, starts)],
                    coded=counted,
                )
                for at in home.places
            ]
        )
        here = home.groups[0][n_parts > 0]
        of_part = np.repeat(np.isin(cut.groups, here), cuts.n_parts)
        histograms = (sizes[of_part].reshape(-1, 1), *(sum(each) for each in zip(*counts, strict=True)))
        ends = np.cumsum(n_parts[n_parts > 0])
        good = np.ones(of_group.size, bool)
        good[here] = np.logical_and.reduceat(self._judge.holds(histograms), ends - n_parts[n_parts > 0])
        return good

    def cut(self, cuts: PartsOfGroups, is_cut: Flags, best: BestCuts, mine: Flags) -> None:
        """Cut the flagged groups, of which `mine` are cut along our own attributes; the others are done."""
        self._finish(~is_cut)
        n_parts = np.zeros(self._batch.n_groups, np.int64)
        n_parts[is_cut] = cuts.n_parts
        first_part = np.cumsum(n_parts) - n_parts
        cells = self._cells[:, :, np.repeat(np.arange(n_parts.size), n_parts)]
        best.narrow(cells, mine, first_part)
        starts = self._starts(is_cut)
        numbered = []
        for store in self._stores:
            changes, labels = [], []
            for at in store.places:
                of_label = store.by_label(at, n_parts, 0)
                first = np.where(of_label > 0, np.cumsum(of_label) - of_label, -1)
                parts = cuts.part_of_row[store.records(at, starts)]
                changes.append(partial(kernels.label_parts, first=first, final=store.final[at], parts=parts))
                here = of_label > 0
                labels.append(places(store.by_label(at, first_part)[here], of_label[here]))
            store.chunks.change(changes)
            numbered.append((store, labels))
        self._number(numbered, cells)

    def _number(self, numbered: Sequence[tuple[GroupStore, list[Counts]]], cells: Cells) -> None:
        """Find out how large the groups with these cells are; each chunk's labels have their numbers.

        Those with too few records to be cut are done, and those that fit a chunk now are sent to one.
        """
        n_groups = cells.shape[2]
        sizes = np.zeros(n_groups, np.int64)
        for store, labels in numbered:
            store.sizes = store.chunks.each([partial(kernels.sizes_of, n_labels=each.size) for each in labels])
            store.before = []
            for numbers, records in zip(labels, store.sizes, strict=True):
                store.before.append(sizes[numbers])
                sizes[numbers] += records
            store.groups = labels
            store.final = [np.full(each.size, -1) for each in labels]
        self._batch, self._cells = OpenBatch(np.arange(n_groups), sizes, self), cells
        large = sizes >= 2 * self._judge.least
        if not large.all():
            self._finish(~large)
            self._keep(large)
        self._send_small()

    def _finish(self, done: Flags) -> None:
        """Note that the flagged open groups are done; their records hear of it at the next cut."""
        final = np.full(done.size, -1)
        final[done] = np.arange(self._n_done, self._n_done + int(done.sum()))
        self._n_done += int(done.sum())
        self._done_cells.append(self._cells[:, :, done])
        for store in self._stores:
            for at in store.places:
                now = store.by_label(at, final)
                store.final[at] = np.where(now >= 0, now, store.final[at])

    def _keep(self, groups: Flags) -> None:
        """Let only the flagged groups be open."""
        number = np.where(groups, np.cumsum(groups) - 1, -1)
        for store in self._stores:
            store.groups = [store.by_label(at, number) for at in store.places]
        sizes = self._batch.sizes[groups]
        self._batch = OpenBatch(np.arange(sizes.size), sizes, self)
        self._cells = self._cells[:, :, groups]

    def _send_small(self) -> None:
        """Send the records of groups that fit a chunk to one that has all of them."""
        if self._home.whole:
            return
        home = self._home
        numbers = home.groups[0]
        label = np.flatnonzero(numbers >= 0)
        label = label[self._batch.sizes[numbers[label]] <= self._most_rows]
        if not label.size:
            return
        sizes = self._batch.sizes[numbers[label]]
        bins = (np.cumsum(sizes) - sizes) // max(self._most_rows, 1)
        bins = np.cumsum(np.diff(bins, prepend=bins[0]) > 0)  # without empty ones
        n_bins = int(bins[-1]) + 1
        bin_of_label, there = np.full((2, numbers.size), -1)
        bin_of_label[label] = bins
        there[label] = np.arange(label.size) - np.searchsorted(bins, bins)
        names = (*self.how.ranks, *map(codes_of, self.how.judge.counted))
        sent = home.chunks.exchange(
            [
                partial(
                    kernels.shuffle_pieces,
                    at=at,
                    bin_of_label=bin_of_label,
                    label_there=there,
                    n_bins=n_bins,
                    names=names,
                )
                for at in home.places
            ],
            n_bins,
        )
        sent.change(kernels.arrived)
        ends = np.searchsorted(bins, np.arange(n_bins + 1))
        of_bin = [label[first:last] for first, last in pairwise(ends.tolist())]
        self._away.append(
            GroupStore(
                sent,
                whole=True,
                groups=[numbers[each] for each in of_bin],
                final=[np.full(each.size, -1) for each in of_bin],
                before=[np.zeros(each.size, np.int64) for each in of_bin],
                sizes=[self._batch.sizes[numbers[each]] for each in of_bin],
            )
        )
        # Who stays keeps its label; of those that are gone nothing is known here any more.
        stays = np.where(bin_of_label < 0, np.arange(numbers.size), -1)
        home.chunks.change(partial(kernels.relabel_chunk, labels=stays))
        for at in home.places:
            home.groups[at] = np.where(stays >= 0, home.groups[at], -1)
            home.sizes[at] = np.where(stays >= 0, home.sizes[at], 0)

    # --- the end ---

    def done(self) -> FinishedGroups:
        """Return the finished groups, once none is open: each as narrow along taxonomies as its values allow."""
        home = self._home
        for store in self._stores:
            none = [np.full(each.size, -1) for each in store.final]
            nothing = np.zeros(0, np.uint8)
            store.chunks.change(
                [
                    partial(kernels.label_parts, first=each, final=final, parts=nothing)
                    for each, final in zip(none, store.final, strict=True)
                ]
            )
        cells = np.concatenate(self._done_cells, axis=2)
        taxonomies = [at for at, axis in enumerate(self.axes) if isinstance(axis, TaxonomyAxis)]
        if taxonomies:
            first, last = self._extents(tuple(self.how.ranks[at] for at in taxonomies))
            for at, lowest, highest in zip(taxonomies, first, last, strict=True):
                axis = self.axes[at]
                assert isinstance(axis, TaxonomyAxis)
                node = axis.lowest(lowest, highest)
                cells[at] = axis.lo[node], axis.hi[node]
        for store in self._away:
            n_chunks = len(home.chunks)
            back = store.chunks.exchange([partial(kernels.send_back, n_chunks=n_chunks)] * len(store.chunks), n_chunks)
            home.chunks.join(back, kernels.come_back)
            back.drop()
            store.chunks.drop()
        return FinishedGroups(home.chunks, self.axes, cells)

    def _extents(self, ranks: tuple[str, ...]) -> tuple[Counts, Counts]:
        """Return the first and last ranks of the finished groups, dimension × group.

        Where each group is whole, before its records are sent back: so what chunks tell is no more than a group each.
        """
        first = np.full((len(ranks), self._n_done), np.iinfo(np.int64).max)
        last = np.full((len(ranks), self._n_done), -1)
        for store in self._stores:
            for groups, lowest, highest in store.chunks.each(
                partial(kernels.extents_of, ranks=ranks, n_groups=self._n_done)
            ):
                first[:, groups] = np.minimum(first[:, groups], lowest)
                last[:, groups] = np.maximum(last[:, groups], highest)
        return first, last


def _part_sizes(cuts: PartsOfGroups, sizes: Counts) -> Counts:
    """Count the records of each part, some groups at a time."""
    ends = np.cumsum(sizes)
    found = [np.zeros(0, np.int64)]
    for groups in in_blocks(sizes, _RECORDS_AT_ONCE):
        n_parts = cuts.n_parts[groups]
        first = np.cumsum(n_parts) - n_parts
        records = slice(int(ends[groups.start] - sizes[groups.start]), int(ends[groups.stop - 1]))
        labels = np.repeat(first, sizes[groups]) + cuts.part_of_row[records]
        found.append(value_counts(labels, int(n_parts.sum())))
    return np.concatenate(found)


# --- groups -------------------------------------------------------------------------------------------------
# Where the records of a party's groups are, and which labels of a chunk are which groups; and the finished groups.


@dataclass(eq=False)
class GroupStore:
    """Chunks with labelled groups. Those of whole groups have labels of their own each, others all the same."""

    chunks: Chunks
    whole: bool
    everything: bool = False  # one chunk has all groups, in order
    groups: list[Counts] = field(default_factory=list)  # of each chunk: each label's open group, or -1
    final: list[Counts] = field(default_factory=list)  # of each chunk: each label's finished group, or -1
    before: list[Counts] = field(default_factory=list)  # of each chunk: records of each label's group in chunks before
    sizes: list[Counts] = field(default_factory=list)  # of each chunk: its records with each label

    @property
    def places(self) -> range:
        """The places of its chunks."""
        return range(len(self.chunks))

    @property
    def spread(self) -> Counts:
        """The open groups of which no chunk has all records."""
        if self.whole:
            return np.zeros(0, np.int64)
        return self.groups[0][self.groups[0] >= 0]

    def records(self, at: int, starts: Counts) -> Rows | slice:
        """Return where a chunk's records go in a list of groups that start at these places; -1: not in the list."""
        if self.everything:
            return slice(None)
        groups = self.groups[at]
        there = np.append(starts, -1).take(groups)
        here = (there >= 0) & (self.sizes[at] > 0)
        return places(there[here] + self.before[at][here], self.sizes[at][here])

    def by_label(self, at: int, of_group: Counts, otherwise: int = -1) -> Counts:
        """Return for each label of a chunk what its group has."""
        found: Counts = np.append(of_group, otherwise).take(self.groups[at])
        return found


@dataclass(frozen=True, eq=False)
class FinishedGroups:
    """A party's groups once none may be cut: each record's in the chunks, and each group's own cells."""

    chunks: Chunks
    axes: Sequence[Axis]
    cells: Cells

    def each_label(self) -> Iterator[Counts]:
        """Yield each record's group, chunk by chunk."""
        for at in range(len(self.chunks)):
            yield self.chunks.only(at, kernels.final_groups)

    @property
    def labels(self) -> Counts:
        """Each record's group."""
        return np.concatenate([*self.each_label()])

    def released(self) -> tuple[Generalised, ...]:
        """Return the released columns: four bytes a cell here."""
        everybody = np.arange(self.cells.shape[2])
        columns = [
            released_column(axis.column, lo, hi, everybody)
            for axis, (lo, hi) in zip(self.axes, self.cells, strict=True)
        ]
        codes: list[list[Ints]] = [[] for _ in columns]
        for labels in self.each_label() if columns else ():
            for column, found in zip(columns, codes, strict=True):
                found.append(column.codes.take(labels))
        return tuple(replace(column, codes=np.concatenate(found)) for column, found in zip(columns, codes, strict=True))
