"""The parts that cuts would make, and which cuts are allowed.

A cut is allowed when every part satisfies the requirements. Along a taxonomy one child with few records would forbid
the whole cut; so, unless the cut must be strict, the children that do not satisfy stay together at the parent's
value, with the smallest satisfying child if they need it, and the others are cut off. Either way equal records stay
in one group, and no two groups have equal cells: the values of a group are never below a node that was cut off.

With `merge = "small"` the children that stay together are those with too few records. Then the parts of a cut, and so
its score, follow from sizes alone, and the other requirements only say whether it is allowed, as a whole: what parties
can ask for in one bit where the sensitive values are at another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade.anonymize.mondrian.axes import Shares
from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.engine.counts import Counts, Flags, value_counts


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
    united = Parts(
        parts.group[represents], tuple(counts[represents] for counts in merged), covers[represents]
    )
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
