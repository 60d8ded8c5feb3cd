"""The cuts that a batch's groups may have, the best of them, and the parts that those make.

Along one dimension they follow from one pass over the records, or over the different values of each group, which stand
for all records that have them (`counted_cuts.py`); along all taxonomies at once from a tally (`axes.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.anonymize.mondrian.axes import Axis, AxisView, Batch, Cells, ContinuousAxis, CutSlots, Shares, Tally
from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.engine import Counts, Flags, Ints, Rows, look_up, occurring, renumber, value_counts

# --- parts --------------------------------------------------------------------------------------------------
# The parts that cuts would make, and which cuts are allowed.
#
# A cut is allowed when every part satisfies the requirements. Along a taxonomy one child with few records
# would forbid the whole cut; so, unless the cut must be strict, the children that do not satisfy stay
# together at the parent's value, with the smallest satisfying child if they need it, and the others are cut
# off. Either way equal records stay in one group, and no two groups have equal cells: the values of a group
# are never below a node that was cut off.
#
# With `merge = "small"` the children that stay together are those with too few records. Then the parts of a
# cut, and so its score, follow from sizes alone, and the other requirements only say whether it is allowed,
# as a whole: what parties can ask for in one bit where the sensitive values are at another.


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts that cuts make, in the order of the groups."""

    group: Counts  # of each part
    counts: Histograms
    widths: Shares  # what each covers along the dimension, from 0 to 1

    @property
    def sizes(self) -> Counts:
        """Number of records in each part."""
        sizes: Counts = self.counts[0][:, 0]
        return sizes

    def starts(self, n_groups: int) -> Counts:
        """Return the offset of each group's first part."""
        return np.searchsorted(self.group, np.arange(n_groups))


def judged(parts: Parts, widths: Shares, judge: Judge, strict: bool) -> tuple[Parts, Counts, Flags]:
    """Return the parts that would be made, the new part of each old one, and which groups may be cut.

    `widths` are those of the groups, and so of the parts that stay together.
    """
    if strict:
        return parts, np.arange(parts.group.size), _all_hold(parts, widths.size, judge)
    good = judge.can_be_cut_off(parts.counts)
    bad_parts = value_counts(parts.group[~good], widths.size)
    made, part_of_old, allowed = parts, np.arange(parts.group.size), bad_parts == 0
    if not allowed.all():
        made, part_of_old, allowed = _keep_small(parts, good, bad_parts, widths, judge)
    if judge.by_size:
        allowed = allowed & _all_hold(made, widths.size, judge)
    return made, part_of_old, allowed


def _all_hold(parts: Parts, n_groups: int, judge: Judge) -> Flags:
    all_hold: Flags = value_counts(parts.group[~judge.holds(parts.counts)], n_groups) == 0
    return all_hold


def _keep_small(
    parts: Parts, good: Flags, bad_parts: Counts, widths: Shares, judge: Judge
) -> tuple[Parts, Counts, Flags]:
    """Keep together what cannot be cut off. Return the parts, the new part of each old one, and what is allowed."""
    n_groups = bad_parts.size
    good_parts = value_counts(parts.group[good], n_groups)
    allowed = bad_parts == 0
    stays = ~good & (good_parts[parts.group] > 0)
    mixed = np.flatnonzero(~allowed & (good_parts > 0))
    if not mixed.size:
        return parts, np.arange(parts.group.size), allowed
    staying = np.flatnonzero(stays)
    starts = np.searchsorted(parts.group[staying], mixed)
    rests: Histograms = tuple(np.add.reduceat(counts[staying], starts, axis=0) for counts in parts.counts)
    fine = judge.can_be_cut_off(rests)
    # Where they do not satisfy together either, the smallest satisfying part stays with them.
    needy = np.flatnonzero(~fine & (good_parts[mixed] > 1))
    if needy.size:
        smallest = _smallest_good(parts, good, mixed[needy])
        joined: Histograms = tuple(
            rest[needy] + counts[smallest] for rest, counts in zip(rests, parts.counts, strict=True)
        )
        enough = judge.can_be_cut_off(joined)
        fine[needy] = enough
        stays[smallest[enough]] = True
        for rest, union in zip(rests, joined, strict=True):
            rest[needy[enough]] = union[enough]
    allowed[mixed] = fine
    stays &= allowed[parts.group]
    # A remainder takes the place of its first part.
    staying = np.flatnonzero(stays)
    first = staying[np.diff(parts.group[staying], prepend=-1) > 0]
    where = np.arange(parts.group.size)
    where[staying] = first[np.searchsorted(parts.group[first], parts.group[staying])]
    represents = where == np.arange(where.size)
    number = np.cumsum(represents) - 1
    merged = tuple(counts.copy() for counts in parts.counts)
    covers = parts.widths.copy()
    for counts, rest in zip(merged, rests, strict=True):
        counts[first] = rest[fine]
    covers[first] = widths[parts.group[first]]
    united = Parts(parts.group[represents], tuple(counts[represents] for counts in merged), covers[represents])
    return united, number[where], allowed


def _smallest_good(parts: Parts, good: Flags, groups: Counts) -> Counts:
    """Return the smallest satisfying part of each of these groups, the first on a tie."""
    asked = np.zeros(int(parts.group[-1]) + 1, bool)
    asked[groups] = True
    candidates = np.flatnonzero(good & asked[parts.group])
    sizes = parts.sizes[candidates]
    starts = np.searchsorted(parts.group[candidates], groups)
    least = np.minimum.reduceat(sizes, starts)
    which = np.repeat(least, np.diff(np.append(starts, candidates.size))) == sizes
    smallest: Counts = candidates[which]
    first: Counts = smallest[np.diff(parts.group[smallest], prepend=-1) > 0]
    return first


# --- candidates ---------------------------------------------------------------------------------------------


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
CountsOfParts = Callable[[Rows, Callable[[], Ints], Counts], Histograms]


@dataclass(frozen=True, eq=False)
class Made:
    """The parts of the cuts that are made along a dimension, or along all taxonomies."""

    chosen: Flags  # which of the candidates are made
    numbers: Counts  # of the part of each candidate, where it is made
    sizes: Counts
    parents: Counts  # the group of each part
    cells: Cells
    part_of: Counts


@dataclass(frozen=True, eq=False)
class CandidateCuts(Cuts, ABC):
    """Some cuts, each of one group along one dimension, in the order of the groups."""

    groups: Counts  # which group of the batch it would cut
    allowed: Flags

    def made(self, best: Counts, first: int, cells: Cells, part_of: Counts, hidden: CutGroups | None) -> Made | None:
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
            names = part_of[parents]
        else:
            cut = self.groups[chosen]
            names = hidden.add(cells[:, :, cut], part_of[cut])
        return Made(chosen, numbers, self.parts.sizes[made], parents, own, names)

    @abstractmethod
    def narrow(self, cells: Cells, cuts: Counts) -> None:
        """Narrow the cells of parts in place; `cuts` has the index of each part's cut."""

    @abstractmethod
    def labels(self, chosen: Flags, cut: Batch, numbers: Counts) -> Counts:
        """Return the number of each row's part; `cut` has the groups whose cuts are chosen (at most one per group)."""


@dataclass(frozen=True, eq=False)
class AxisCandidates(CandidateCuts):
    """The cuts along one dimension of the groups that can be cut there."""

    axis: Axis
    batch: Batch  # of just these
    slots: CutSlots
    found: Counts  # the slots that have rows, in order
    part_of_slot: Counts  # the part of each of those slots
    cut_at: Counts  # the node of each group, or the first rank of its upper half

    @property
    def released(self) -> bool:
        """Whether the dimension is released."""
        return self.axis.released

    def narrow(self, cells: Cells, cuts: Counts) -> None:
        """Narrow the cells of numbers cut in two; those along taxonomies are narrowed at the end."""
        if isinstance(self.axis, ContinuousAxis):
            upper = np.diff(cuts, prepend=-1) == 0  # the second part of its group
            self.axis.narrow(cells[int(self.axes[0])], self.cut_at[cuts], upper)

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
    at: int, axis: Axis, batch: Batch, view: AxisView, records: Counts, count: CountsOfParts, judge: Judge, strict: bool
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


def best_axes(offered: Sequence[CandidateCuts], choice: Choice, n_axes: int, n_groups: int) -> Counts:
    """Return the dimension of each group's best cut, the first on a tie; -1 where none is allowed."""
    scores = np.full((n_axes, n_groups), -np.inf)
    for candidates in offered:
        if candidates.allowed.any():
            score = choice(candidates)[candidates.allowed]
            scores[candidates.axes[candidates.allowed], candidates.groups[candidates.allowed]] = score
    best: Counts = scores.argmax(axis=0)
    best[scores[best, np.arange(n_groups)] == -np.inf] = -1
    return best


# --- taxonomy candidates ------------------------------------------------------------------------------------
# Candidate cuts of a batch's groups along all taxonomies, from a tally instead of the records.


@dataclass(frozen=True, eq=False)
class TaxonomyCandidates(CandidateCuts):
    """The cuts of each group along every taxonomy, into the children of the lowest node that covers it."""

    tally: Tally
    trees: Counts  # of each cut
    children: Counts  # those that have records, in order
    cut_of_child: Counts
    part_of_child: Counts

    def narrow(self, cells: Cells, cuts: Counts) -> None:
        """Do nothing: cells along taxonomies are narrowed at the end."""

    def labels(self, chosen: Flags, cut: Batch, numbers: Counts) -> Counts:
        """Look the part up in a table by group and column."""
        known, width = self.tally.trees, self.tally.trees.n_columns
        made = np.flatnonzero(chosen[self.cut_of_child])
        lo, hi = known.lo[self.children[made]], known.hi[self.children[made]]
        lengths = hi - lo
        group = (np.cumsum(chosen) - 1)[self.cut_of_child[made]]
        first = group * width + lo - np.cumsum(lengths) + lengths
        places = np.repeat(first, lengths) + np.arange(lengths.sum())
        part = np.empty(cut.n_groups * width, np.int64)  # only entries that rows use are filled, and read
        part[places] = np.repeat(numbers[self.part_of_child[made]], lengths)
        of_row = cut.rows * known.n_trees
        of_row += np.repeat(self.trees[chosen], cut.sizes)
        column = known.columns.ravel().take(of_row)
        return part.take(np.repeat(np.arange(0, part.size, width), cut.sizes) + column)


def taxonomy_candidates(batch: Batch, tally: Tally, judge: Judge, strict: bool) -> TaxonomyCandidates | None:
    """Return the cuts along all taxonomies, judged by record counts alone; None when no group can be cut."""
    known = tally.trees
    nodes = tally.nodes.ravel()
    pairs = np.flatnonzero(known.n_children[nodes])
    if not pairs.size:
        return None
    groups, trees = np.divmod(pairs, known.n_trees)
    nodes = nodes[pairs]
    children, cut = known.children(nodes)
    records = tally.records(groups[cut], children)
    found = np.flatnonzero(records)
    children, cut, records = children[found], cut[found], records[found]
    widths = known.widths[nodes]
    parts = Parts(cut, (records.reshape(-1, 1),), known.widths[children])
    parts, part_of_child, allowed = judged(parts, widths, judge, strict)
    return TaxonomyCandidates(
        batch.sizes[groups],
        widths,
        parts,
        known.axes[trees],
        groups,
        allowed,
        tally,
        trees,
        children,
        cut,
        part_of_child,
    )


# --- hidden cuts ------------------------------------------------------------------------------------------
# Cuts that the release does not show: groups that are cut apart between providers may look alike there, and be one.
#
# Of a requirement that only gains from more records nothing is lost: a coalition that takes a whole part out leaves
# another, which satisfies alone. Of any other the union may violate, though each part satisfies. Then the cut that
# split them is undone: the group that it cut is cut anew, along released dimensions alone, whose parts never look
# alike. That can make new unions with groups that an earlier hidden cut set apart; so this is repeated until every
# union satisfies. Each time there are fewer hidden cuts, and without any there are no unions.


class CutGroups:
    """The groups that hidden cuts cut in two: their cells, and the part of an earlier cut that each was in.

    The parts of group number c are named 2c + 1 and 2c + 2; 0 is no part. `first` is the number of the first group.
    """

    def __init__(self, first: int = 0) -> None:
        self._first, self._n = first, first
        self._cells: list[Cells] = []
        self._part_of: list[Counts] = []

    def __len__(self) -> int:
        return self._n

    def add(self, cells: Cells, part_of: Counts) -> Counts:
        """Note groups by their cells and parts; return the names of their own parts, two for each in order."""
        first = self._n
        self._cells.append(cells)
        self._part_of.append(part_of)
        self._n += part_of.size
        return np.arange(2 * first + 1, 2 * self._n + 1)

    def cells(self, n_axes: int) -> Cells:
        """Return the cells of all groups along `n_axes` dimensions."""
        return np.concatenate([np.empty((n_axes, 2, 0), np.int64), *self._cells], axis=2)

    @property
    def part_of(self) -> Counts:
        """The part that each group was in."""
        return np.concatenate([np.empty(0, np.int64), *self._part_of])

    def undone(self, unions: Sequence[Counts]) -> Counts:
        """Return the groups, in order, whose cuts split these unions, given the parts that each consists of.

        Of groups inside each other the outer one is enough.
        """
        parents = self.part_of.tolist()
        found = {self._first_that_split([_path(parents, part) for part in parts]) for parts in unions}
        outer = {cut for cut in found if not any((part - 1) // 2 in found for part in _path(parents, parents[cut]))}
        return np.array(sorted(outer), np.int64)

    def inside(self, parts: Counts, cuts: Counts) -> Counts:
        """Return for each part the place of the group in `cuts` that it is inside of; -1 where there is none."""
        parents, place = self.part_of.tolist(), {cut: at for at, cut in enumerate(cuts.tolist())}
        number_of_part, found = renumber(parts, 2 * self._n + 1)
        places = [
            next((place[(each - 1) // 2] for each in _path(parents, part) if (each - 1) // 2 in place), -1)
            for part in found.tolist()
        ]
        return np.array(places, np.int64).take(number_of_part)

    @staticmethod
    def _first_that_split(paths: Sequence[Sequence[int]]) -> int:
        """Return the number of the group of which parts with these paths are in different parts."""
        for level in zip(*paths, strict=False):
            if any(part != level[0] for part in level):
                split: int = (level[0] - 1) // 2
                return split
        raise AssertionError("groups that no hidden cut split never look alike")


def _path(parents: Sequence[int], part: int) -> list[int]:
    """Return the parts that contain this one, the largest first, and itself last."""
    path = []
    while part:
        path.append(part)
        part = parents[(part - 1) // 2]
    return path[::-1]


def lookalikes(axes: Sequence[Axis], cells: Cells) -> tuple[Counts, Counts]:
    """Number the groups that the release tells apart: each group's number, and how many groups have each."""
    alike = np.zeros(cells.shape[2], np.int64)
    for axis, (lo, hi) in zip(axes, cells, strict=True):
        if axis.released:
            width = axis.column.domain.size + 1
            for ends in (lo, hi):
                numbers, _ = renumber(alike * width + ends, int(alike.max(initial=0) + 1) * width)
                alike = numbers.astype(np.int64)
    return alike, value_counts(alike, int(alike.max(initial=-1)) + 1)


def parts_of_unions(alike: Counts, violating: Flags, part_of: Counts) -> list[Counts]:
    """Return the parts that each violating union consists of, given each group's union and part."""
    groups = np.flatnonzero(violating[alike])
    groups = groups[np.argsort(alike[groups], kind="stable")]
    starts = np.flatnonzero(np.diff(alike[groups], prepend=-1))
    return np.split(part_of[groups], starts[1:]) if groups.size else []


def only_released(choice: Choice) -> Choice:
    """Return the choice that makes no hidden cut."""

    def released(cuts: Cuts) -> Shares:
        return choice(cuts) if cuts.released else np.full(cuts.sizes.size, -np.inf)

    return released
