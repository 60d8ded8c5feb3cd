"""Mondrian on chunks over QIDs that share attributes: rounds by counts, then whole islands in one memory each.

As `mondrian/linked_qids.py` has it for one table. Which groups of different QIDs are linked is known from the pairs of
them that share records. Groups that are linked along no attribute any more, not even through others, are on different
**islands**, and cut independently of each other: an island that is small enough is brought together in one chunk, and
cut there by the loop of one table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from masquerade.anonymize.chunked.linked_counts import CountedCuts, CountedGroups, Units, cuts_along
from masquerade.anonymize.chunked.linked_kernels import (
    CountAll,
    CountPairs,
    CutIslands,
    IslandCells,
    KeepArrays,
    NumberGroups,
    RecutAll,
    value_label,
)
from masquerade.anonymize.chunked.multidimensional import (
    Dimensions,
    JudgeOf,
    released_by_number,
    rows_together,
)
from masquerade.anonymize.chunked.top_cuts import (
    CountRanks,
    PartTable,
    Recut,
    TopGroups,
    WeightedRanks,
    insist_on_pairs,
    whole_groups,
)
from masquerade.anonymize.mondrian.axes import Axis, ContinuousAxis, Shares
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.anonymize.mondrian.partition import Choice
from masquerade.anonymize.outcome import ReleasedCodes
from masquerade.data.column import Column, Generalised
from masquerade.data.records import Records, codes_of, gathered, packed, placed, ranks_of, sent_back
from masquerade.engine.counts import Counts, Flags, weighted_counts, which_occur
from masquerade.engine.numbering import group_rows, renumber

Pairs = tuple[Counts, Counts]  # groups of two QIDs that share records
_NOT_YET = -1
_BYTES_PER_PAIR = 150  # of group and rank, and of what is made of all of them to judge cuts


def cut_linked_chunks(
    table: Records,
    dimensions: Dimensions,
    judges: Mapping[frozenset[str], JudgeOf],
    choice: Choice,
    strict: bool,
    begin: tuple[str, TopGroups] | None = None,
) -> dict[str, tuple[Generalised, ReleasedCodes]]:
    """Cut along the attributes of QIDs that share some until no cut is allowed; return the released columns.

    `begin` has groups over all attributes that satisfy, and the array with each record's; without, all are at the top.
    """
    groups = _LinkedChunks(table, dimensions, judges, choice, strict, begin)
    axes, first = dimensions.axes(), dimensions.first()
    ways = [first, axes] if first else [axes]
    for way, along in enumerate(ways):
        groups.cut(along, way)
    return groups.released(axes, len(ways))


@dataclass(eq=False)
class _Qid:
    """The groups of one QID; each record's is in the array `label` of its chunk.

    A group that was cut is still in its place, without records.
    """

    names: frozenset[str]
    judge: Judge
    label: str
    sizes: Counts
    cells: dict[int, Counts]  # of each group along the attributes whose cells are kept here
    stuck: dict[int, Flags] = field(
        default_factory=dict
    )  # groups that cannot be cut along an attribute as they are
    way: Counts = field(default_factory=lambda: np.empty(0, np.int64))  # in which an island was set aside

    def __post_init__(self) -> None:
        self.way = np.full(self.sizes.size, _NOT_YET)

    @property
    def active(self) -> Flags:
        """The groups with records that are not set aside."""
        active: Flags = (self.sizes > 0) & (self.way == _NOT_YET)
        return active

    @property
    def counted(self) -> tuple[tuple[str, int], ...]:
        """The arrays of codes that the judge counts, and the number of codes of each."""
        return tuple((codes_of(each.name), len(each.labels)) for each in self.judge.counted)

    def split(self, parents: Counts, sizes: Counts) -> None:
        """Put groups of these sizes in place of their parents, whose cells they inherit."""
        self.sizes = np.append(self.sizes, sizes)
        self.sizes[parents] = 0
        self.cells = {at: np.append(each, each[:, parents], axis=1) for at, each in self.cells.items()}
        self.stuck = {at: np.append(each, np.zeros(parents.size, bool)) for at, each in self.stuck.items()}
        self.way = np.append(self.way, np.full(parents.size, _NOT_YET))


@dataclass(frozen=True, eq=False)
class _Links:
    """What is linked: a number for each group of some QIDs, the same for groups that are linked."""

    of_group: Mapping[
        _Qid, Counts
    ]  # the least group of the first QID; that of groups without records means nothing
    bound: int


class _LinkedChunks:
    """The groups of all QIDs, and how they are cut."""

    def __init__(
        self,
        table: Records,
        dimensions: Dimensions,
        judges: Mapping[frozenset[str], JudgeOf],
        choice: Choice,
        strict: bool,
        begin: tuple[str, TopGroups] | None,
    ) -> None:
        self._table, self._dimensions, self._judges = table, dimensions, judges
        self._choice, self._strict, self._narrowed = choice, strict, begin is not None
        self._qids: list[_Qid] = []
        kept: set[int] = set()
        for names, judge in judges.items():
            own = [(at, each) for at, each in enumerate(dimensions.columns) if each.name in names]
            label = f"linked {' '.join(each.name for _, each in own)}"
            if begin is None:
                start = whole_groups(table, [each for _, each in own], label)
            else:
                start = _alike(table, *begin, [at for at, _ in own], [each for _, each in own], label)
            cells = {at: start.cells[place] for place, (at, _) in enumerate(own) if at not in kept}
            kept |= cells.keys()
            self._qids.append(_Qid(names, judge.made(), label, start.sizes, cells))
        self._of_axis = [[qid for qid in self._qids if each.name in qid.names] for each in dimensions.columns]
        counted = {name for each in judges.values() for name in each.counted}
        self._arrays = (
            *dimensions.ranks,
            *(qid.label for qid in self._qids),
            *map(codes_of, sorted(counted)),
        )
        self._most_rows = rows_together(table, len(self._arrays))

    # --- rounds by counts ---

    def cut(self, axes: Sequence[Axis], way: int) -> None:
        """Cut along these until no cut is allowed, or the islands are small: those are set aside for later."""
        for qid in self._qids:
            qid.stuck = {
                at: np.zeros(qid.sizes.size, bool) for at, own in enumerate(self._of_axis) if qid in own
            }
        while True:
            pairs = self._pairs()
            self._set_aside(self._linked(self._qids, pairs), way)
            cuts = self._cuts(axes, pairs)
            made = self._settled(cuts)
            if not made:
                return
            self._make(axes, {at: (cuts[at], flags) for at, flags in made.items()})

    def _pairs(self) -> dict[tuple[_Qid, _Qid], Pairs]:
        """Find which groups share records: of each attribute's first QID and its others, and of the first and all."""
        asked = dict.fromkeys((own[0], other) for own in (self._qids, *self._of_axis) for other in own[1:])
        first = self._qids[0]
        kernel = CountPairs(
            first.label,
            first.active,
            tuple((one.label, one.sizes.size, other.label, other.sizes.size) for one, other in asked),
        )
        counted = self._table.chunks.total(kernel)
        return {
            both: (each.keys // both[1].sizes.size, each.keys % both[1].sizes.size)
            for both, each in zip(asked, counted, strict=True)
        }

    def _linked(self, qids: Sequence[_Qid], pairs: Mapping[tuple[_Qid, _Qid], Pairs]) -> _Links:
        """Number the groups of these QIDs that are linked by common records."""
        first, *others = qids
        linked = np.arange(first.sizes.size)
        least = {each: np.zeros(each.sizes.size, np.int64) for each in others}
        while True:
            before = linked.copy()
            for other in others:
                ones, others_ = pairs[first, other]
                least[other][:] = linked.size
                np.minimum.at(least[other], others_, linked[ones])
                np.minimum.at(linked, ones, least[other][others_])
            linked = linked[linked]  # a link of a link
            if np.array_equal(before, linked):
                return _Links({first: linked, **least}, linked.size)

    def _set_aside(self, islands: _Links, way: int) -> None:
        """Leave islands with few records to one memory."""
        first = self._qids[0]
        own = islands.of_group[first]
        sizes = weighted_counts(own[first.active], first.sizes[first.active], islands.bound)
        small = np.append(sizes <= self._most_rows, False)
        for qid in self._qids:
            qid.way[qid.active & small[islands.of_group[qid]]] = way

    def _cuts(self, axes: Sequence[Axis], pairs: Mapping[tuple[_Qid, _Qid], Pairs]) -> dict[int, CountedCuts]:
        """Return the cuts along every dimension; groups that are in no allowed one are stuck from now on."""
        asked = {}
        for at, own in enumerate(self._of_axis):
            links = self._linked(own, pairs)
            may = np.zeros(links.bound, bool)
            for qid in own:
                may[links.of_group[qid][qid.active & ~qid.stuck[at]]] = True
            if may.any():
                asked[at] = self._asked(at, own, links, may)
        found = {}
        for at, counted in self._counted(asked, axes).items():
            cuts = cuts_along(at, axes[at], counted, asked[at].n_linked, self._choice, self._strict)
            for qid, each in zip(self._of_axis[at], counted, strict=True):
                qid.stuck[at][each.groups] = cuts is None or ~(cuts.scores[each.linked] > -np.inf)
            if cuts is not None:
                found[at] = cuts
        return found

    def _asked(self, at: int, qids: Sequence[_Qid], links: _Links, may: Flags) -> _Asked:
        number = np.full(links.bound + 1, -1, np.int64)
        number[:-1][may] = np.arange(np.count_nonzero(may))
        groups, linked = [], []
        for qid in qids:
            of_group = np.where(qid.active, number[links.of_group[qid]], -1)
            groups.append(np.flatnonzero(of_group >= 0))
            linked.append(of_group[groups[-1]])
        return _Asked(at, int(np.count_nonzero(may)), tuple(groups), tuple(linked))

    def _counted(
        self, asked: Mapping[int, _Asked], axes: Sequence[Axis], *, codes: bool = True
    ) -> dict[int, list[CountedGroups]]:
        """Count the records of groups by rank along dimensions, and unless told otherwise by what judges count."""
        kernels, pairs = [], 0
        for at, each in asked.items():
            ranks = self._ranks_of_linked(at, each)
            for qid, groups, linked in zip(self._of_axis[at], each.groups, each.linked, strict=False):
                index = np.full(qid.sizes.size, -1, np.int32)
                index[groups] = np.arange(groups.size)
                size = max(axes[at].column.domain.size, 1)
                counted = qid.counted if codes else ()
                kernels.append(CountRanks(qid.label, index, (ranks_of(axes[at].name),), (size,), counted))
                records = int(qid.sizes[groups].sum())
                most = kernels[-1].most_pairs(records, max(groups.size, records // self._most_rows))
                if self._narrowed:  # many groups, each with few of the ranks
                    there = qid.sizes[groups]
                    each_code = [n_codes for _, n_codes in counted] or [1]
                    most = min(most, sum(int(np.minimum(there, ranks[linked] * n).sum()) for n in each_code))
                pairs += most
        if not kernels:
            return {}
        insist_on_pairs(self._table, pairs, _BYTES_PER_PAIR)
        counts = iter(self._table.chunks.total(CountAll(tuple(kernels))))
        nobody = Judge((), {}, 1)
        return {
            at: [
                CountedGroups(
                    qid.judge if codes else nobody,
                    groups,
                    linked,
                    WeightedRanks.of(
                        axes[at],
                        max(axes[at].column.domain.size, 1),
                        next(counts)[0],
                        qid.judge if codes else nobody,
                        qid.sizes[groups],
                    ),
                )
                for qid, groups, linked in zip(self._of_axis[at], each.groups, each.linked, strict=False)
            ]
            for at, each in asked.items()
        }

    def _ranks_of_linked(self, at: int, asked: _Asked) -> Counts:
        """Return how many ranks the cell of each group that may be cut along a dimension has, by what is linked."""
        cells = self._of_axis[at][0].cells[at]  # the first QID with a dimension keeps its cells
        ranks = np.zeros(asked.n_linked, np.int64)
        ranks[asked.linked[0]] = cells[1, asked.groups[0]] - cells[0, asked.groups[0]]
        return ranks

    def _settled(self, cuts: Mapping[int, CountedCuts]) -> dict[int, Flags]:
        """Return which linked records are cut along which dimension: where it is the best of all their groups."""
        scores: dict[_Qid, Shares] = {qid: np.full(qid.sizes.size, -np.inf) for qid in self._qids}
        best: dict[_Qid, Counts] = {qid: np.full(qid.sizes.size, -1) for qid in self._qids}
        for at, each in cuts.items():
            for qid, counted in zip(self._of_axis[at], each.counted, strict=True):
                own = each.scores[counted.linked]
                better = counted.groups[own > scores[qid][counted.groups]]
                scores[qid][counted.groups] = np.maximum(own, scores[qid][counted.groups])
                best[qid][better] = at  # along the first dimension on a tie
        found = {}
        for at, each in cuts.items():
            made = each.scores > -np.inf
            for qid, counted in zip(self._of_axis[at], each.counted, strict=True):
                made[counted.linked[best[qid][counted.groups] != at]] = False
            if made.any():
                found[at] = made
        return found

    def _make(self, axes: Sequence[Axis], made: Mapping[int, tuple[CountedCuts, Flags]]) -> None:
        """Make cuts: in the chunks, and in what is known of the groups."""
        axis_of_group = {qid: np.full(qid.sizes.size, -1) for qid in self._qids}
        tables: dict[_Qid, list[PartTable]] = {qid: [] for qid in self._qids}
        for at, (cuts, flags) in made.items():
            for place, (qid, counted) in enumerate(zip(self._of_axis[at], cuts.counted, strict=True)):
                pairs, part = cuts.parts_of_pairs(place, flags)
                group, rank = np.divmod(counted.pairs.keys[pairs], counted.pairs.size)
                numbers, found = renumber(
                    part * counted.n_groups + group, cuts.slots.n_slots * counted.n_groups
                )
                part, parents = found // counted.n_groups, counted.groups[found % counted.n_groups]
                first = qid.sizes.size
                tables[qid].append(
                    PartTable(
                        at,
                        ranks_of(axes[at].name),
                        counted.pairs.size,
                        counted.groups[group] * counted.pairs.size + rank,
                        first + numbers.astype(np.int64),
                    )
                )
                axis_of_group[qid][parents] = at
                sizes = weighted_counts(numbers, counted.pairs.weights[pairs], found.size)
                qid.split(parents, sizes.astype(np.int64))
                if at in qid.cells and isinstance(axis := axes[at], ContinuousAxis):
                    _narrow(
                        axis, qid.cells[at][:, first:], cuts.cut_at[cuts.slots.groups[part]], part % 2 == 1
                    )
        kernels = [
            Recut(axis_of_group[qid], tuple(tables[qid]), qid.label) for qid in self._qids if tables[qid]
        ]
        self._table.chunks.change(RecutAll(tuple(kernels)))

    # --- islands, and what is released ---

    def released(self, axes: Sequence[Axis], n_ways: int) -> dict[str, tuple[Generalised, ReleasedCodes]]:
        """Cut the islands that were set aside; return the released columns."""
        owner = {at: qid for qid in self._qids for at in qid.cells}
        ends: dict[int, list[Counts]] = {}
        numbers = []
        for at, cells in self._finished(axes).items():
            active = owner[at].active
            number = np.zeros(active.size, np.int64)
            number[active] = np.arange(np.count_nonzero(active))
            numbers.append((owner[at].label, self._value(axes[at]), number))
            ends[at] = [cells[:, active]]
        self._table.chunks.change(NumberGroups(tuple(numbers)))
        for way in range(n_ways):
            if (self._qids[0].way == way).any():
                self._cut_islands(axes, way, ends)
        released = {}
        for at, axis in enumerate(axes):
            lo, hi = np.concatenate(ends[at], axis=1)
            released[axis.name] = released_by_number(axis.column, lo, hi, self._value(axis))
        return released

    def _finished(self, axes: Sequence[Axis]) -> dict[int, Counts]:
        """Return the cells of groups that are done, as narrow as their values along taxonomies, and between edges."""
        cells = {at: each for qid in self._qids for at, each in qid.cells.items()}
        if not any(qid.active.any() for qid in self._qids):
            return cells
        pairs = self._pairs()
        asked = {}
        for at, own in enumerate(self._of_axis):
            axis = axes[at]
            if isinstance(axis, ContinuousAxis) and not axis.edges.size:
                continue
            links = self._linked(own, pairs)
            asked[at] = self._asked(
                at, own[:1], links, which_occur(links.of_group[own[0]][own[0].active], links.bound)
            )
        for at, (counted,) in self._counted(asked, axes, codes=False).items():
            axis, view = axes[at], Units.of(axes[at], counted, asked[at].n_linked).look()
            lo, hi = view.lo[counted.linked], view.hi[counted.linked]
            if isinstance(axis, ContinuousAxis):
                members = np.zeros(asked[at].n_linked, np.int64)
                members[counted.linked] = counted.groups  # one of each: all have the same cell
                lo, hi = axis.between_edges(cells[at][0, members], cells[at][1, members], view)
                lo, hi = lo[counted.linked], hi[counted.linked]
            cells[at] = cells[at].copy()
            cells[at][:, counted.groups] = lo, hi
        return cells

    def _cut_islands(self, axes: Sequence[Axis], way: int, ends: dict[int, list[Counts]]) -> None:
        """Cut the islands that were set aside in one of the ways to cut; add the cells that they get to `ends`."""
        first = self._qids[0]
        islands = self._linked(self._qids, self._pairs_of(way)).of_group[first]
        waiting = np.flatnonzero(first.way == way)
        numbers, found = renumber(islands[waiting], first.sizes.size)
        sizes = weighted_counts(numbers, first.sizes[waiting], found.size).astype(np.int64)
        bins = np.full(first.sizes.size, -1, np.int64)
        bins[waiting] = packed(sizes, self._most_rows)[numbers]
        together = gathered(self._table, first.label, bins, self._arrays)
        qids = tuple((qid.names, qid.label, qid.cells, qid.sizes.size) for qid in self._qids)
        together.change(
            CutIslands(
                self._dimensions, qids, dict(self._judges), self._choice, self._strict, way, self._narrowed
            )
        )
        labels = [self._value(axis) for axis in axes]
        made = together.each(IslandCells(len(axes)))
        counts = [[each[at].shape[1] for at in range(len(axes))] for each in made]
        start = [sum(each.shape[1] for each in ends[at]) for at in range(len(axes))]
        firsts = np.cumsum([start, *counts], axis=0)[:-1].tolist()
        for each in made:
            for at in range(len(axes)):
                ends[at].append(each[at])
        placed(self._table, sent_back(self._table, together, firsts, labels), KeepArrays(tuple(labels)))

    def _value(self, axis: Axis) -> str:
        return value_label(axis, narrowed=self._narrowed)

    def _pairs_of(self, way: int) -> dict[tuple[_Qid, _Qid], Pairs]:
        """Find which groups of the first QID that were set aside share records with groups of the others."""
        first, *others = self._qids
        asked = tuple((first.label, first.sizes.size, each.label, each.sizes.size) for each in others)
        counted = self._table.chunks.total(CountPairs(first.label, first.way == way, asked))
        return {
            (first, other): (each.keys // other.sizes.size, each.keys % other.sizes.size)
            for other, each in zip(others, counted, strict=True)
        }


def _alike(
    table: Records, of: str, groups: TopGroups, at: Sequence[int], columns: Sequence[Column], label: str
) -> TopGroups:
    """Put groups with equal cells along some dimensions into one; array `of` has each record's, `label` gets it."""
    numbered = [
        renumber(lo * (column.domain.size + 1) + hi, (column.domain.size + 1) ** 2)
        for column, (lo, hi) in zip(columns, groups.cells[at], strict=True)
    ]
    number, n_groups = group_rows([(numbers, found.size) for numbers, found in numbered], groups.sizes.size)
    table.chunks.change(NumberGroups(((of, label, number),)))
    cells = np.zeros((len(at), 2, n_groups), np.int64)
    cells[:, :, number] = groups.cells[at]
    return TopGroups.start(weighted_counts(number, groups.sizes, n_groups).astype(np.int64), cells)


def _narrow(axis: ContinuousAxis, cells: Counts, cut_at: Counts, upper: Flags) -> None:
    """Narrow the cells of numbers that were cut in two, in place."""
    cells[0, upper] = cut_at[upper]
    cells[1, ~upper] = cut_at[~upper]
    cells[0, ~upper] = axis.lower_start(cells[0, ~upper], cut_at[~upper])


@dataclass(frozen=True, eq=False)
class _Asked:
    """The linked records that may be cut along a dimension: of each QID the groups, and the number of each."""

    at: int
    n_linked: int
    groups: tuple[Counts, ...]
    linked: tuple[Counts, ...]
