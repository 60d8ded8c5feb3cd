"""Mondrian over several QIDs that share attributes: each requirement is judged on the groups of its own QID.

A cut along an attribute changes the groups of every QID that has it, and no others. So the records that are cut
together along an attribute are those *linked* by it: a chain of groups, of any QIDs with the attribute, that share
records. They have one value there, all get the parts of one cut, and the cut is allowed when the groups that it makes
of each of these QIDs satisfy the requirements on that QID. With one QID the linked records are just its groups.

In each round the best cuts that have no group in common are made. What allows a cut is known from its own groups, so
the others do not disturb it.

An attribute that many QIDs have is soon linked everywhere, and then cut for all records or for none. So the groups
may also begin at a release for the union of the QIDs (see below), in which every group was cut where it suited that
one.

Rounds need nothing but counts. Which groups of different QIDs are linked is known from the pairs of them that share
records; where linked records are cut, and whether they may be, from how many records of each group have each rank and
each counted value (`counted_cuts.py`). So a round is the same on one chunk and on many.

On many chunks every round reads all of them, and its counts are held beside them. Groups that are linked along no
attribute any more, not even through others, are on different **islands**, and cut independently of each other: an
island that is small enough is brought together in one chunk, and the rounds go on there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum

import numpy as np

from masquerade.anonymize.mondrian.axes import Axis, ContinuousAxis, Shares
from masquerade.anonymize.mondrian.counted_cuts import (
    CountedCuts,
    CountedGroups,
    CountRanks,
    GroupTable,
    PartTable,
    Recut,
    Units,
    WeightedRanks,
    count_all,
    count_pairs,
    cuts_along,
    insist_on_pairs,
    keep_arrays,
    recut_all,
    whole_groups,
)
from masquerade.anonymize.mondrian.cuts import Choice
from masquerade.anonymize.mondrian.judge import Judge, Merge
from masquerade.anonymize.mondrian.multidimensional import (
    Dimensions,
    JudgeOf,
    Released,
    cut_qid,
    groups_of_qid,
    judge_of_records,
    number_groups,
    released_by_number,
    rows_together,
)
from masquerade.data import Column, Generalised, Records, codes_of, gathered, packed, placed, ranks_of, sent_back
from masquerade.engine import (
    Arrays,
    Chunk,
    Chunks,
    Counts,
    Engine,
    Flags,
    Here,
    group_rows,
    renumber,
    value_counts,
    weighted_counts,
    which_occur,
)
from masquerade.privacy import GroupRequirement
from masquerade.utility import certainty_penalties

Pairs = tuple[Counts, Counts]  # groups of two QIDs that share records
_NOT_YET = -1
_BYTES_PER_PAIR = 150  # of group and rank, and of what is made of all of them to judge cuts


def cut_linked(
    records: Records,
    dimensions: Dimensions,
    judges: Mapping[frozenset[str], JudgeOf],
    choice: Choice,
    strict: bool,
    begin: tuple[str, GroupTable] | None = None,
) -> Released:
    """Cut along the attributes of QIDs that share some until no cut is allowed; return the released columns.

    `begin` has groups over all attributes that satisfy, and the array with each record's: no cell gets wider than
    theirs. Without it all groups are at the top.
    """
    counted = {name for each in judges.values() for name in each.counted}
    n_arrays = len(dimensions.columns) + len(judges) + len(counted)
    # An island leaves its chunks so that rounds need not read all of them. What is in this memory is read there anyway.
    aside = 0 if isinstance(records.engine, Here) else rows_together(records, n_arrays)
    cutting = _Cutting(dimensions, judges, choice, strict, begin is not None)
    groups = _LinkedGroups(cutting, _at_start(records, cutting, begin), records.chunks, records.engine, aside)
    for way, axes in enumerate(cutting.ways):
        groups.cut(axes, way)
    ends = {at: [cells] for at, cells in groups.numbered().items()}
    if aside:
        arrays = (*dimensions.ranks, *(qid.label for qid in groups.qids), *map(codes_of, sorted(counted)))
        for way in range(len(cutting.ways)):
            _cut_islands(records, groups, way, arrays, ends)
    released = {}
    for at, axis in enumerate(cutting.axes):
        lo, hi = np.concatenate(ends[at], axis=1)
        released[axis.name] = released_by_number(axis.column, lo, hi, cutting.value(at))
    return released


@dataclass(frozen=True, eq=False)
class _Cutting:
    """How linked records are cut, wherever they are. `narrowed` if they begin at a release for the QIDs' union."""

    dimensions: Dimensions
    judges: Mapping[frozenset[str], JudgeOf]
    choice: Choice
    strict: bool
    narrowed: bool

    @property
    def axes(self) -> list[Axis]:
        """The axes along which groups are cut in the end."""
        return self.dimensions.axes()

    @property
    def ways(self) -> list[list[Axis]]:
        """The ways to cut, one after the other: at the predicates of a workload, if there is one, then as usual."""
        first = self.dimensions.first()
        return [first, self.axes] if first else [self.axes]

    def value(self, at: int) -> str:
        """Return under which name a chunk has the number of each record's cell along a dimension.

        Cells that are narrowed from a release for the union of the QIDs stand beside others.
        """
        return f"{'narrowed' if self.narrowed else 'linked'} value {self.dimensions.columns[at].name}"


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
    stuck: dict[int, Flags] = field(default_factory=dict)  # groups that cannot be cut along an attribute as they are
    way: Counts = field(default_factory=lambda: np.empty(0, np.int64))  # in which an island was set aside

    def __post_init__(self) -> None:
        self.way = np.full(self.sizes.size, _NOT_YET)

    @property
    def active(self) -> Flags:
        """The groups with records that are not set aside."""
        active: Flags = (self.sizes > 0) & (self.way == _NOT_YET)
        return active

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

    of_group: Mapping[_Qid, Counts]  # the least group of the first QID; that of groups without records means nothing
    bound: int


class _LinkedGroups:
    """The groups of all QIDs, whose records are in some chunks, and how they are cut.

    Islands of at most `aside` records are set aside as soon as there are some, to be cut in another memory.
    """

    def __init__(self, cutting: _Cutting, qids: Sequence[_Qid], chunks: Chunks, engine: Engine, aside: int = 0) -> None:
        self.cutting, self.qids, self._chunks, self._engine = cutting, qids, chunks, engine
        self.aside = aside
        columns = cutting.dimensions.columns
        self._of_axis = [[qid for qid in qids if each.name in qid.names] for each in columns]

    def cut(self, axes: Sequence[Axis], way: int) -> None:
        """Cut along these until no cut is allowed; take note of the way in which islands were set aside."""
        for qid in self.qids:
            qid.stuck = {at: np.zeros(qid.sizes.size, bool) for at, own in enumerate(self._of_axis) if qid in own}
        while True:
            pairs = self._pairs()
            if self.aside:  # islands with few records are left to one memory
                islands, first = self.linked(self.qids, pairs), self.qids[0]
                own = islands.of_group[first][first.active]
                small = weighted_counts(own, first.sizes[first.active], islands.bound) <= self.aside
                for qid in self.qids:
                    qid.way[qid.active & np.append(small, False)[islands.of_group[qid]]] = way
            cuts = self._cuts(axes, pairs)
            made = self._settled(cuts)
            if not made:
                return
            self._make(axes, {at: (cuts[at], flags) for at, flags in made.items()})

    def _pairs(self) -> dict[tuple[_Qid, _Qid], Pairs]:
        """Find which groups share records: of each attribute's first QID and its others, and of the first and all."""
        asked = dict.fromkeys((own[0], other) for own in (self.qids, *self._of_axis) for other in own[1:])
        return self.pairs_of(self.qids[0].active, list(asked))

    def pairs_of(self, flagged: Flags, asked: Sequence[tuple[_Qid, _Qid]]) -> dict[tuple[_Qid, _Qid], Pairs]:
        """Find which groups share records, of these QIDs and among records of these groups of the first."""
        kernel = partial(
            count_pairs,
            first=self.qids[0].label,
            flagged=flagged,
            pairs=tuple((one.label, one.sizes.size, other.label, other.sizes.size) for one, other in asked),
        )
        counted = self._chunks.total(kernel)
        return {
            both: (each.keys // both[1].sizes.size, each.keys % both[1].sizes.size)
            for both, each in zip(asked, counted, strict=True)
        }

    def linked(self, qids: Sequence[_Qid], pairs: Mapping[tuple[_Qid, _Qid], Pairs]) -> _Links:
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

    def _cuts(self, axes: Sequence[Axis], pairs: Mapping[tuple[_Qid, _Qid], Pairs]) -> dict[int, CountedCuts]:
        """Return the cuts along every dimension; groups that are in no allowed one are stuck from now on."""
        asked = {}
        for at, own in enumerate(self._of_axis):
            links = self.linked(own, pairs)
            may = np.zeros(links.bound, bool)
            for qid in own:
                may[links.of_group[qid][qid.active & ~qid.stuck[at]]] = True
            if may.any():
                asked[at] = self._asked(own, links, may)
        found = {}
        for at, counted in self._counted(asked, axes).items():
            cuts = cuts_along(at, axes[at], counted, asked[at].n_linked, self.cutting.choice, self.cutting.strict)
            for qid, each in zip(self._of_axis[at], counted, strict=True):
                qid.stuck[at][each.groups] = cuts is None or ~(cuts.scores[each.linked] > -np.inf)
            if cuts is not None:
                found[at] = cuts
        return found

    def _asked(self, qids: Sequence[_Qid], links: _Links, may: Flags) -> _Asked:
        number = np.full(links.bound + 1, -1, np.int64)
        number[:-1][may] = np.arange(np.count_nonzero(may))
        groups, linked = [], []
        for qid in qids:
            of_group = np.where(qid.active, number[links.of_group[qid]], -1)
            groups.append(np.flatnonzero(of_group >= 0))
            linked.append(of_group[groups[-1]])
        return _Asked(int(np.count_nonzero(may)), tuple(groups), tuple(linked))

    def _counted(
        self, asked: Mapping[int, _Asked], axes: Sequence[Axis], *, codes: bool = True
    ) -> dict[int, list[CountedGroups]]:
        """Count the records of groups by rank along dimensions, and unless told otherwise by what judges count."""
        kernels, pairs, nobody = [], 0, Judge((), {}, 1)
        for at, each in asked.items():
            # How many ranks the cell of each group has, by what is linked; the first QID keeps the cells.
            cells, ranks = self._of_axis[at][0].cells[at], np.zeros(each.n_linked, np.int64)
            ranks[each.linked[0]] = cells[1, each.groups[0]] - cells[0, each.groups[0]]
            for qid, groups, linked in zip(self._of_axis[at], each.groups, each.linked, strict=False):
                index = np.full(qid.sizes.size, -1, np.int32)
                index[groups] = np.arange(groups.size)
                kernels.append(CountRanks.along([axes[at]], qid.judge if codes else nobody, qid.label, index))
                records = int(qid.sizes[groups].sum())
                most = kernels[-1].most_pairs(records, max(groups.size, records // max(self.aside, 1)))
                if self.cutting.narrowed:  # many groups, each with few of the ranks
                    there = qid.sizes[groups]
                    each_code = [n_codes for _, n_codes in kernels[-1].counted] or [1]
                    most = min(most, sum(int(np.minimum(there, ranks[linked] * n).sum()) for n in each_code))
                pairs += most
        if not kernels:
            return {}
        insist_on_pairs(self._engine, pairs, _BYTES_PER_PAIR)
        counts = iter(self._chunks.total(partial(count_all, kernels=tuple(kernels))))
        return {
            at: [
                CountedGroups(
                    qid.judge if codes else nobody,
                    groups,
                    linked,
                    WeightedRanks.of(axes[at], next(counts)[0], qid.judge if codes else nobody, qid.sizes[groups]),
                )
                for qid, groups, linked in zip(self._of_axis[at], each.groups, each.linked, strict=False)
            ]
            for at, each in asked.items()
        }

    def _settled(self, cuts: Mapping[int, CountedCuts]) -> dict[int, Flags]:
        """Return which linked records are cut along which dimension: where it is the best of all their groups."""
        scores: dict[_Qid, Shares] = {qid: np.full(qid.sizes.size, -np.inf) for qid in self.qids}
        best: dict[_Qid, Counts] = {qid: np.full(qid.sizes.size, -1) for qid in self.qids}
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
        axis_of_group = {qid: np.full(qid.sizes.size, -1) for qid in self.qids}
        tables: dict[_Qid, list[PartTable]] = {qid: [] for qid in self.qids}
        for at, (cuts, flags) in made.items():
            for place, (qid, counted) in enumerate(zip(self._of_axis[at], cuts.counted, strict=True)):
                pairs, part = cuts.parts_of_pairs(place, flags)
                group, rank = np.divmod(counted.pairs.keys[pairs], counted.pairs.axis.n_ranks)
                numbers, found = renumber(part * counted.n_groups + group, cuts.slots.n_slots * counted.n_groups)
                part, parents = found // counted.n_groups, counted.groups[found % counted.n_groups]
                first = qid.sizes.size
                tables[qid].append(
                    PartTable(
                        at,
                        ranks_of(axes[at].name),
                        counted.pairs.axis.n_ranks,
                        counted.groups[group] * counted.pairs.axis.n_ranks + rank,
                        first + numbers.astype(np.int64),
                    )
                )
                axis_of_group[qid][parents] = at
                sizes = weighted_counts(numbers, counted.pairs.weights[pairs], found.size)
                qid.split(parents, sizes.astype(np.int64))
                if at in qid.cells and isinstance(axis := axes[at], ContinuousAxis):
                    axis.narrow(qid.cells[at][:, first:], cuts.cut_at[cuts.slots.groups[part]], part % 2 == 1)
        kernels = [Recut(axis_of_group[qid], tuple(tables[qid]), qid.label) for qid in self.qids if tables[qid]]
        self._chunks.change(partial(recut_all, kernels=tuple(kernels)))

    def numbered(self) -> dict[int, Counts]:
        """Give each record, along each dimension, the number of its cell; return the cells, as two rows.

        Groups on islands that were set aside have none.
        """
        axes = self.cutting.axes
        owner = {at: qid for qid in self.qids for at in qid.cells}
        ends: dict[int, Counts] = {}
        numbers = []
        for at, cells in self._finished(axes).items():
            active = owner[at].active
            number = np.zeros(active.size, np.int64)
            number[active] = np.arange(np.count_nonzero(active))
            numbers.append((owner[at].label, self.cutting.value(at), number))
            ends[at] = cells[:, active]
        self._chunks.change(partial(number_groups, tables=tuple(numbers)))
        return ends

    def _finished(self, axes: Sequence[Axis]) -> dict[int, Counts]:
        """Return the cells of groups that are done, as narrow as their values along taxonomies, and between edges."""
        cells = {at: each for qid in self.qids for at, each in qid.cells.items()}
        if not any(qid.active.any() for qid in self.qids):
            return cells
        pairs = self._pairs()
        asked = {}
        for at, own in enumerate(self._of_axis):
            axis = axes[at]
            if isinstance(axis, ContinuousAxis) and not axis.edges.size:
                continue
            links = self.linked(own, pairs)
            asked[at] = self._asked(own[:1], links, which_occur(links.of_group[own[0]][own[0].active], links.bound))
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


def _at_start(records: Records, cutting: _Cutting, begin: tuple[str, GroupTable] | None) -> list[_Qid]:
    """Return the groups of each QID at the start; the first QID with an attribute keeps the cells along it."""
    qids: list[_Qid] = []
    kept: set[int] = set()
    for names, judge in cutting.judges.items():
        own = [(at, each) for at, each in enumerate(cutting.dimensions.columns) if each.name in names]
        label = f"linked {' '.join(each.name for _, each in own)}"
        if begin is None:
            start = whole_groups(records, [each for _, each in own], label)
        else:
            start = _alike(records, *begin, [at for at, _ in own], [each for _, each in own], label)
        cells = {at: start.cells[place] for place, (at, _) in enumerate(own) if at not in kept}
        kept |= cells.keys()
        qids.append(_Qid(names, judge.made(), label, start.sizes, cells))
    return qids


def _cut_islands(
    records: Records, groups: _LinkedGroups, way: int, arrays: Sequence[str], ends: dict[int, list[Counts]]
) -> None:
    """Cut the islands that were set aside in one of the ways to cut; add the cells that they get to `ends`."""
    first, *others = groups.qids
    waiting = np.flatnonzero(first.way == way)
    if not waiting.size:
        return
    cutting, n_axes = groups.cutting, len(ends)
    pairs = groups.pairs_of(first.way == way, [(first, other) for other in others])
    islands = groups.linked(groups.qids, pairs).of_group[first]
    numbers, found = renumber(islands[waiting], first.sizes.size)
    sizes = weighted_counts(numbers, first.sizes[waiting], found.size).astype(np.int64)
    bins = np.full(first.sizes.size, -1, np.int64)
    bins[waiting] = packed(sizes, groups.aside)[numbers]
    together = gathered(records, first.label, bins, arrays)
    qids = tuple((qid.names, qid.label, qid.cells, qid.sizes.size) for qid in groups.qids)
    together.change(partial(_cut_islands_of_chunk, cutting=cutting, qids=qids, way=way))
    made = together.each(partial(_island_cells, n_axes=n_axes))
    counts = [[each[at].shape[1] for at in range(n_axes)] for each in made]
    start = [sum(each.shape[1] for each in ends[at]) for at in range(n_axes)]
    firsts = np.cumsum([start, *counts], axis=0)[:-1].tolist()
    for each in made:
        for at in range(n_axes):
            ends[at].append(each[at])
    labels = tuple(cutting.value(at) for at in range(n_axes))
    placed(records, sent_back(records, together, firsts, labels), partial(keep_arrays, names=labels))


def _cut_islands_of_chunk(
    chunk: Chunk,
    *,
    cutting: _Cutting,
    qids: tuple[tuple[frozenset[str], str, dict[int, Counts], int], ...],  # names, label, cells, number of groups
    way: int,
) -> Arrays:
    """Cut whole islands in one memory; a chunk then has the number of each record's cells, and the cells."""
    engine, arrays, here = Here(), dict(chunk), []
    for names, label, cells, n_groups in qids:
        numbers, found = renumber(arrays[label], n_groups)
        arrays[label] = numbers
        own = {at: each[:, found] for at, each in cells.items()}
        here.append(_Qid(names, cutting.judges[names].made(), label, value_counts(numbers, found.size), own))
    chunks = engine.hold(arrays)
    groups = _LinkedGroups(cutting, here, chunks, engine)
    for axes in cutting.ways[way:]:
        groups.cut(axes, way)
    ends = groups.numbered()
    labels = tuple(cutting.value(at) for at in ends)
    made: Arrays = chunks.only(0, partial(keep_arrays, names=labels))
    return {**made, **{_cells(at): cells for at, cells in ends.items()}}


def _cells(at: int) -> str:
    return f"linked cells {at}"


def _island_cells(chunk: Chunk, *, n_axes: int) -> list[Counts]:
    """The cells that were made along each dimension."""
    return [np.array(chunk[_cells(at)]) for at in range(n_axes)]


def _alike(
    records: Records, of: str, groups: GroupTable, at: Sequence[int], columns: Sequence[Column], label: str
) -> GroupTable:
    """Put groups with equal cells along some dimensions into one; array `of` has each record's, `label` gets it."""
    numbered = [
        renumber(lo * (column.domain.size + 1) + hi, (column.domain.size + 1) ** 2)
        for column, (lo, hi) in zip(columns, groups.cells[at], strict=True)
    ]
    number, n_groups = group_rows([(numbers, found.size) for numbers, found in numbered], groups.sizes.size)
    records.chunks.change(partial(number_groups, tables=((of, label, number),)))
    cells = np.zeros((len(at), 2, n_groups), np.int64)
    cells[:, :, number] = groups.cells[at]
    return GroupTable.start(weighted_counts(number, groups.sizes, n_groups).astype(np.int64), cells)


@dataclass(frozen=True, eq=False)
class _Asked:
    """The linked records that may be cut along a dimension: of each QID the groups, and the number of each."""

    n_linked: int
    groups: tuple[Counts, ...]
    linked: tuple[Counts, ...]


# --- several QIDs -----------------------------------------------------------------------------------------
# Several QIDs: those that share attributes are cut together, all others apart from each other.
#
# A release for the union of QIDs satisfies each of them, but keeps people apart who need not be: groups that look
# alike over a QID are one group there, and may be cut further. So those that share attributes are cut as their union
# first, and then together (see above): every cell is as narrow as in the release for the union, or narrower. Where
# they share little, cutting them together from the start loses less, as each is cut along fewer attributes. Whoever
# has all records therefore cuts them both ways and keeps what lost less; parties cut the first way alone, as the
# other would show them cuts of no release.


def linked(parts: Sequence[GroupRequirement]) -> list[list[GroupRequirement]]:
    """Return the requirements whose QIDs are linked by common attributes, together."""
    linked: list[list[GroupRequirement]] = []
    for part in parts:
        near = [each for each in linked if any(set(part.qid) & set(other.qid) for other in each)]
        linked = [each for each in linked if each not in near]
        linked.append([*(other for each in near for other in each), part])
    return linked


def by_qid(parts: Sequence[GroupRequirement]) -> dict[frozenset[str], list[GroupRequirement]]:
    """Return the requirements on each QID."""
    found: dict[frozenset[str], list[GroupRequirement]] = {}
    for part in parts:
        found.setdefault(frozenset(part.qid), []).append(part)
    return found


def begins_with_union(parts: Sequence[GroupRequirement], sizes: Counts) -> bool:
    """Return whether QIDs that share attributes are cut as their union first; `sizes` has its groups at the start.

    Groups that satisfy over the union must satisfy together. Where there are boundaries, the groups at those of all
    attributes may violate although no QID's do; parties can tell so of sizes alone.
    """
    if not all(part.monotone for part in parts):
        return False
    if sizes.size <= 1:
        return True
    return all(part.only_sizes and part.implied_size <= sizes.min() for part in parts)


def certainty_lost(released: Iterable[tuple[Generalised, Counts]]) -> float:
    """Add up the certainty penalty of all cells; `released` has columns, and how many records have each value."""
    return fsum(lost for column, records in released for lost in (records * certainty_penalties(column)).tolist())


def cut_by_value(
    records: Records,
    dimensions: Dimensions,
    parts: Sequence[GroupRequirement],
    choice: Choice,
    strict: bool,
    classes: str | None,
    merge: Merge,
    both_ways: bool = True,
) -> Released:
    """Cut the attributes of requirements whose QIDs are linked by common attributes; return the released columns.

    Without `both_ways` several QIDs are cut from the release for their union alone, wherever they can be.
    """
    qids = by_qid(parts)
    whole = judge_of_records(records, parts, classes, merge)
    if len(qids) == 1:
        return cut_qid(records, dimensions, whole, choice, strict)
    judges = {qid: judge_of_records(records, own, classes, merge) for qid, own in qids.items()}
    from_union = begins_with_union(parts, whole_groups(records, dimensions.columns, "linked").sizes)
    made = []
    if both_ways or not from_union:
        # From the top first, while nothing else is beside the records: it needs most room for counts.
        made.append(cut_linked(records, dimensions, judges, choice, strict))
    if from_union:
        union = groups_of_qid(records, dimensions, whole, choice, strict)
        made.insert(0, cut_linked(records, dimensions, judges, choice, strict, union))
    if len(made) == 1:
        return made[0]
    counted = records.chunks.total(partial(_count_values, ways=tuple(made)))
    lost = [
        certainty_lost(zip((column for column, _ in released.values()), counts, strict=True))
        for released, counts in zip(made, counted, strict=True)
    ]
    return made[lost.index(min(lost))]


def _count_values(chunk: Chunk, *, ways: tuple[Released, ...]) -> tuple[tuple[Counts, ...], ...]:
    """Count the records with each released value, of several ways to release the same columns."""
    return tuple(
        tuple(value_counts(codes(chunk), len(column.labels)) for column, codes in released.values())
        for released in ways
    )
