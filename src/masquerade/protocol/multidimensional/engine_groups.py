"""A party's view of Mondrian's groups where its columns are on an engine: what `OwnGroups` is in one memory.

Groups of which no chunk could hold all records are looked at by counts of (group, rank), as on one table in chunks
(`anonymize/chunked/top_cuts.py`). Once a group is small enough, its records are sent to a chunk that holds it whole,
and looked at there by the very code of one memory. What comes back is, for each group, its best cuts: every party bids
for each group by itself in any case. The party's process holds, besides each group's cells, what it sends and receives:
the part of each record, in the narrowest type that holds it, while a level is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from masquerade.anonymize.chunked.multidimensional import Dimensions, JudgeOf
from masquerade.anonymize.chunked.top_cuts import CountRanks, WeightedRanks
from masquerade.anonymize.chunked.top_cuts import Cutting as CuttingByCounts
from masquerade.anonymize.mondrian.axes import Axis, Batch, ContinuousAxis, TaxonomyAxis
from masquerade.anonymize.mondrian.candidates import AxisCandidates
from masquerade.anonymize.mondrian.groups import Cells, Open
from masquerade.anonymize.mondrian.partition import Choice
from masquerade.data.records import Records, codes_of
from masquerade.engine.chunks import Kernel
from masquerade.engine.counts import Counts, Flags, Ints, Rows, value_counts
from masquerade.protocol.multidimensional import group_kernels as kernels
from masquerade.protocol.multidimensional.engine_partition import EnginePartition
from masquerade.protocol.multidimensional.group_kernels import in_blocks, places
from masquerade.protocol.multidimensional.group_store import GroupStore
from masquerade.protocol.multidimensional.own_cuts import BestCuts, Cuts

_BYTES_PER_CELL = 64  # while a group is looked at
_RECORDS_AT_ONCE = 1 << 20  # of those whose parts are counted in this process


class EngineBatch(Batch):
    """Open groups whose rows are on the engine, and are fetched if somebody asks for them."""

    def __init__(self, groups: Counts, sizes: Counts, view: EngineGroups) -> None:
        self.__dict__.update(groups=groups, sizes=sizes, view=view)

    groups: Counts
    view: EngineGroups

    @cached_property
    def rows(self) -> Rows:
        """The places of the groups' records in the common order: eight bytes a record."""
        return self.view.rows_of(self)

    @property
    def n_records(self) -> int:
        """Number of rows of all groups."""
        return int(self.sizes.sum())

    def only(self, groups: Flags) -> EngineBatch:
        """Return the batch of the flagged groups."""
        return self if groups.all() else EngineBatch(self.groups[groups], self.sizes[groups], self.view)


@dataclass(frozen=True, eq=False)
class EngineBest(BestCuts):
    """Our best cuts, of which the engine has the parts."""

    view: EngineGroups
    cut_at: Counts  # axis × group, where the cut is allowed
    n_parts: Counts
    by_counts: Sequence[tuple[WeightedRanks, AxisCandidates | None]]  # of groups in no one chunk, by axis
    spread: Counts  # the numbers of those groups

    def of(self, groups: Flags, batch: Batch) -> Cuts:
        """Return the cuts of the flagged groups, which must all have one."""
        return self.view.own_parts(self, groups)

    def narrow(self, cells: Counts, groups: Flags, first_part: Counts) -> None:
        """Narrow the cells of numbers that are cut in two; those along taxonomies are narrowed at the end."""
        for at, axis in enumerate(self.view.axes):
            if isinstance(axis, ContinuousAxis):
                cut = np.flatnonzero(groups & (self.axis == at))
                lower, cut_at = first_part[cut], self.cut_at[at, cut]
                cells[at, 0, lower + 1] = cut_at
                cells[at, 1, lower] = cut_at
                cells[at, 0, lower] = axis.lower_start(cells[at, 0, lower], cut_at)

    def tables(self, groups: Flags) -> tuple[tuple[int, str, int, Counts, Counts], ...]:
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
                name = self.view.how.dimensions.ranks[at]
                table = ranks.table(name, candidates, chosen, within)
                found.append((at, name, table.size, table.keys, table.numbers))
        return tuple(found)


class EngineGroups:
    """The groups as a party sees them: those that may be cut, and those that are done, both on an engine."""

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
        self.how = kernels.Cutting(dimensions, judge, choice, strict)
        self._judge = judge.made()
        self._table = table
        sizes = np.array(table.sizes, np.int64)
        self._firsts = np.cumsum(sizes) - sizes
        arrays = len(dimensions.ranks) + len(judge.counted)
        self._most_rows = table.engine.rows_at_once(_BYTES_PER_CELL * max(arrays, 1))
        self._done_cells: list[Cells] = []
        self._extents: list[
            tuple[Counts, Counts]
        ] = []  # first and last ranks of done groups along taxonomies
        self._n_done = 0
        if start is None:
            cells = np.array([[[0], [max(axis.column.domain.size, 1)]] for axis in self.axes], np.int64)
            labels: list[Counts | None] = [None] * len(table.chunks)
        else:
            cells = start[1]
            labels = [start[0][first : first + n] for first, n in zip(self._firsts, table.sizes, strict=True)]
        cells = cells.reshape(len(self.axes), 2, -1 if self.axes else 1 if start is None else _n(start[0]))
        table.chunks.change([kernels.Start(*both) for both in zip(table.sizes, labels, strict=True)])
        spread = GroupStore(table.chunks, False, [], [], [], [])
        self._stores = [spread]
        self.open: Open | None = None
        self._number([(spread, [np.arange(cells.shape[2])] * len(table.chunks))], cells)

    # --- looking ---

    def best(self) -> EngineBest:
        """Return the allowed cuts of each open group along our own attributes, as far as we can judge."""
        assert self.open is not None
        n_axes, n_groups = len(self.axes), self.open.batch.n_groups
        scores = np.full((n_axes + 1, n_groups), -np.inf)  # the last row: no cut
        cut_at, n_parts = np.zeros((2, n_axes, n_groups), np.int64)
        spread, *whole = self._stores
        for store in whole if n_axes else ():
            looks = [kernels.BestOfChunk(groups >= 0, self.how) for groups in store.groups]
            for groups, found in zip(store.groups, store.chunks.each(looks), strict=True):
                here = groups >= 0
                for of_all, of_chunk in zip((scores[:n_axes], cut_at, n_parts), found, strict=True):
                    of_all[:, groups[here]] = of_chunk[:, here]
        numbers = spread.groups[0][spread.groups[0] >= 0]
        by_counts = self._counted(numbers) if numbers.size and n_axes else []
        for at, (_, candidates) in enumerate(by_counts):
            if candidates is not None and candidates.allowed.any():
                groups = numbers[candidates.groups]
                scores[at, groups[candidates.allowed]] = self.how.choice(candidates)[candidates.allowed]
                cut_at[at, groups] = candidates.cut_at
                n_parts[at, groups] = value_counts(candidates.parts.group, groups.size)
        return EngineBest(scores, (), self, cut_at, n_parts, by_counts, numbers)

    def _counted(self, numbers: Counts) -> list[tuple[WeightedRanks, AxisCandidates | None]]:
        """Look at the groups of which no chunk has all records."""
        assert self.open is not None
        how, spread = self.how, self._stores[0]
        by_counts = CuttingByCounts(
            self.axes, how.dimensions.ranks, self._judge, how.choice, how.strict, kernels.LABEL
        )
        index = np.full(spread.groups[0].size + 1, -1, np.int32)
        index[np.flatnonzero(spread.groups[0] >= 0)] = np.arange(numbers.size)
        counted = spread.chunks.total(
            CountRanks(kernels.LABEL, index, by_counts.ranks, by_counts.sizes, by_counts.counted)
        )
        sizes = self.open.batch.sizes[numbers]
        found = []
        for at, (axis, size, counts) in enumerate(zip(self.axes, by_counts.sizes, counted, strict=True)):
            ranks = WeightedRanks.of(axis, size, counts, self._judge, sizes)
            found.append((ranks, ranks.candidates(at, by_counts)))
        return found

    def own_parts(self, best: EngineBest, groups: Flags) -> Cuts:
        """Return our cuts of the flagged groups."""
        asked = np.flatnonzero(groups)
        n_parts = best.n_parts[best.axis[asked], asked]
        axis = np.where(groups, best.axis, -1)
        spread, *whole = self._stores
        made: list[tuple[GroupStore, list[Kernel[Ints]]]] = [
            (store, [kernels.PartsOfChunk(store.by_label(at, axis), self.how) for at in _chunks(store)])
            for store in whole
        ]
        if tables := best.tables(groups):
            # The tables number groups by their place among those that were counted.
            place = np.full(axis.size, -1)
            place[best.spread] = np.arange(best.spread.size)
            own = [self._by_place(at, axis, place, tables) for at in _chunks(spread)]
            made.append((spread, list(own)))
        return Cuts(n_parts, self._collected(groups, made, np.min_scalar_type(int(n_parts.max(initial=1)))))

    def _by_place(self, at: int, axis: Counts, place: Counts, tables: kernels.Tables) -> Kernel[Ints]:
        spread = self._stores[0]
        return kernels.PartsByRank(spread.by_label(at, axis), spread.by_label(at, place), tables)

    def rows_of(self, batch: EngineBatch) -> Rows:
        """Return the places of these groups' records in the common order, group by group."""
        assert self.open is not None
        flags = np.zeros(self.open.batch.n_groups, bool)
        flags[batch.groups] = True
        made: list[tuple[GroupStore, list[Kernel[Ints]]]] = []
        for store in self._stores:
            wanted = [store.by_label(at, flags.astype(np.int64), 0) > 0 for at in _chunks(store)]
            made.append(
                (
                    store,
                    [
                        kernels.RowsOf(each, self._firsts, None if store.whole else at)
                        for at, each in enumerate(wanted)
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
        assert self.open is not None
        found: Ints = np.zeros(int(self.open.batch.sizes[groups].sum()), dtype)
        for store, each in made:
            for at, given in enumerate(store.chunks.each(each)):
                found[store.records(at, starts)] = given
        return found

    def _starts(self, groups: Flags) -> Counts:
        """Return where each flagged group starts in a list of their records; -1 for the others."""
        assert self.open is not None
        sizes = np.where(groups, self.open.batch.sizes, 0)
        return np.where(groups, np.cumsum(sizes) - sizes, -1)

    # --- cutting ---

    def satisfied(self, cuts: Cuts, cut: Batch) -> Flags:
        """Return which of these groups' cuts make no part that is empty, or known to violate a requirement."""
        assert self.open is not None
        assert isinstance(cut, EngineBatch)
        sizes = _part_sizes(cuts, cut.sizes)
        first = np.cumsum(cuts.n_parts) - cuts.n_parts
        if self._judge.only_sizes or not self._judge.counted:
            good: Flags = np.logical_and.reduceat(self._judge.holds((sizes.reshape(-1, 1),)), first)
            return good
        of_group = np.zeros(self.open.batch.n_groups, np.int64)
        of_group[cut.groups] = cuts.n_parts
        starts = self._starts(of_group > 0)
        all_good = np.ones(of_group.size, bool)
        spread, *whole = self._stores
        for store in whole:
            judges = [
                kernels.JudgeWhole(
                    store.by_label(at, of_group, 0),
                    cuts.part_of_row[store.records(at, starts)],
                    self.how.judge,
                )
                for at in _chunks(store)
            ]
            for at, given in enumerate(store.chunks.each(judges)):
                asked = store.by_label(at, of_group, 0) > 0
                all_good[store.groups[at][asked]] = given
        n_parts = spread.by_label(0, of_group, 0)
        if n_parts.any():
            counted = tuple((codes_of(each.name), len(each.labels)) for each in self._judge.counted)
            counts = spread.chunks.each(
                [
                    kernels.CountParts(n_parts, cuts.part_of_row[spread.records(at, starts)], counted)
                    for at in _chunks(spread)
                ]
            )
            here = spread.groups[0][n_parts > 0]
            of_part = np.repeat(np.isin(cut.groups, here), cuts.n_parts)
            histograms = (sizes[of_part].reshape(-1, 1), *(sum(each) for each in zip(*counts, strict=True)))
            ends = np.cumsum(n_parts[n_parts > 0])
            holds = self._judge.holds(histograms)
            all_good[here] = np.logical_and.reduceat(holds, ends - n_parts[n_parts > 0])
        return all_good[cut.groups]

    def cut(self, cuts: Cuts, is_cut: Flags, best: BestCuts, mine: Flags) -> None:
        """Cut the flagged groups, of which `mine` are cut along our own attributes; the others are done."""
        assert self.open is not None
        groups = self.open
        self._finish(~is_cut, groups.cells)
        n_parts = np.zeros(groups.batch.n_groups, np.int64)
        n_parts[is_cut] = cuts.n_parts
        first_part = np.cumsum(n_parts) - n_parts
        parents = np.repeat(np.arange(n_parts.size), n_parts)
        cells = groups.cells[:, :, parents]
        best.narrow(cells, mine, first_part)
        starts = self._starts(is_cut)
        numbered = []
        for store in self._stores:
            changes, labels = [], []
            for at in _chunks(store):
                of_label = store.by_label(at, n_parts, 0)
                first = np.where(of_label > 0, np.cumsum(of_label) - of_label, -1)
                parts = cuts.part_of_row[store.records(at, starts)]
                changes.append(kernels.Cut(first, store.final[at], parts))
                here = of_label > 0
                labels.append(places(store.by_label(at, first_part)[here], of_label[here]))
            store.chunks.change(changes)
            numbered.append((store, labels))
        self._number(numbered, cells)

    def _number(self, numbered: Sequence[tuple[GroupStore, list[Counts]]], cells: Cells) -> None:
        """Find out how large the groups with these cells are; each chunk's labels have their numbers.

        Those with too few records to be cut are done, and those that fit a chunk now are sent to one.
        """
        taxonomies = [at for at, axis in enumerate(self.axes) if isinstance(axis, TaxonomyAxis)]
        ranks = tuple(self.how.dimensions.ranks[at] for at in taxonomies)
        n_groups = cells.shape[2]
        sizes = np.zeros(n_groups, np.int64)
        first = np.full((len(ranks), n_groups), np.iinfo(np.int64).max)
        last = np.full((len(ranks), n_groups), -1)
        for store, labels in numbered:
            found = store.chunks.each([kernels.Extents(each.size, ranks) for each in labels])
            store.sizes = [each[0] for each in found]
            store.before = []
            for numbers, (records, lowest, highest) in zip(labels, found, strict=True):
                store.before.append(sizes[numbers])
                sizes[numbers] += records
                first[:, numbers] = np.minimum(first[:, numbers], lowest)
                last[:, numbers] = np.maximum(last[:, numbers], highest)
            store.groups = labels
            store.final = [np.full(each.size, -1) for each in labels]
        self._open_extents = first, last
        self.open = Open(EngineBatch(np.arange(n_groups), sizes, self), cells, np.zeros(n_groups, np.int64))
        large = sizes >= 2 * self._judge.least
        if n_groups:
            self._finish(~large, cells)
        self._keep(large)
        self._send_small()

    def _finish(self, done: Flags, cells: Cells) -> None:
        """Note that the flagged open groups are done; their records hear of it at the next cut."""
        final = np.full(done.size, -1)
        final[done] = np.arange(self._n_done, self._n_done + int(done.sum()))
        self._n_done += int(done.sum())
        self._done_cells.append(cells[:, :, done])
        self._extents.append((self._open_extents[0][:, done], self._open_extents[1][:, done]))
        for store in self._stores:
            for at in _chunks(store):
                now = store.by_label(at, final)
                store.final[at] = np.where(now >= 0, now, store.final[at])

    def _keep(self, groups: Flags) -> None:
        """Let only the flagged groups be open."""
        assert self.open is not None
        number = np.where(groups, np.cumsum(groups) - 1, -1)
        for store in self._stores:
            store.groups = [store.by_label(at, number) for at in _chunks(store)]
        first, last = self._open_extents
        self._open_extents = first[:, groups], last[:, groups]
        if not groups.any():
            self.open = None
            return
        sizes = self.open.batch.sizes[groups]
        batch = EngineBatch(np.arange(sizes.size), sizes, self)
        self.open = replace(self.open.only(groups), batch=batch)

    def _send_small(self) -> None:
        """Send the records of groups that fit a chunk to one that has all of them."""
        if self.open is None:
            return
        spread = self._stores[0]
        numbers = spread.groups[0]
        label = np.flatnonzero(numbers >= 0)
        label = label[self.open.batch.sizes[numbers[label]] <= self._most_rows]
        if not label.size:
            return
        sizes = self.open.batch.sizes[numbers[label]]
        bins = (np.cumsum(sizes) - sizes) // max(self._most_rows, 1)
        bins = np.cumsum(np.diff(bins, prepend=bins[0]) > 0)  # without empty ones
        n_bins = int(bins[-1]) + 1
        bin_of_label, there = np.full((2, numbers.size), -1)
        bin_of_label[label] = bins
        there[label] = np.arange(label.size) - np.searchsorted(bins, bins)
        names = (*self.how.dimensions.ranks, *map(codes_of, self.how.judge.counted))
        sent = spread.chunks.exchange(
            [kernels.Send(at, bin_of_label, there, n_bins, names) for at in _chunks(spread)], n_bins
        )
        sent.change(kernels.arrived)
        ends = np.searchsorted(bins, np.arange(n_bins + 1))
        of_bin = [label[first:last] for first, last in pairwise(ends.tolist())]
        self._stores.append(
            GroupStore(
                sent,
                True,
                [numbers[each] for each in of_bin],
                [np.full(each.size, -1) for each in of_bin],
                [np.zeros(each.size, np.int64) for each in of_bin],
                [self.open.batch.sizes[numbers[each]] for each in of_bin],
            )
        )
        # Who stays keeps its label; of those that are gone nothing is known here any more.
        stays = np.where(bin_of_label < 0, np.arange(numbers.size), -1)
        spread.chunks.change(kernels.Relabel(stays))
        for at in _chunks(spread):
            spread.groups[at] = np.where(stays >= 0, spread.groups[at], -1)
            spread.sizes[at] = np.where(stays >= 0, spread.sizes[at], 0)

    # --- the end ---

    def done(self) -> EnginePartition:
        """Return the finished groups, once none is open."""
        assert self.open is None
        spread, *whole = self._stores
        for store in self._stores:
            none = [np.full(each.size, -1) for each in store.final]
            nothing = np.zeros(0, np.uint8)
            store.chunks.change(
                [kernels.Cut(each, final, nothing) for each, final in zip(none, store.final, strict=True)]
            )
        for store in whole:
            n_chunks = len(spread.chunks)
            back = store.chunks.exchange([kernels.SendBack(n_chunks)] * len(store.chunks), n_chunks)
            spread.chunks.join(back, kernels.come_back)
            back.drop()
            store.chunks.drop()
        cells = np.concatenate(self._done_cells, axis=2)
        first, last = (np.concatenate(each, axis=1) for each in zip(*self._extents, strict=True))
        taxonomies = [at for at, axis in enumerate(self.axes) if isinstance(axis, TaxonomyAxis)]
        for at, lowest, highest in zip(taxonomies, first, last, strict=True):
            axis = self.axes[at]
            assert isinstance(axis, TaxonomyAxis)
            node = axis.lowest(lowest, highest)
            cells[at] = axis.lo[node], axis.hi[node]
        return EnginePartition(spread.chunks, cells)


def _chunks(store: GroupStore) -> range:
    return range(len(store.chunks))


def _n(labels: Counts) -> int:
    return int(labels.max(initial=-1)) + 1


def _part_sizes(cuts: Cuts, sizes: Counts) -> Counts:
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
