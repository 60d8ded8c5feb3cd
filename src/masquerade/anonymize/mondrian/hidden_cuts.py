"""Cuts that the release does not show: groups that are cut apart between providers may look alike there, and be one.

Of a requirement that only gains from more records nothing is lost: a coalition that takes a whole part out leaves
another, which satisfies alone. Of any other the union may violate, though each part satisfies. Then the cut that parted
them is undone: the group that it cut is cut anew, along released dimensions alone, whose parts never look alike. That
can make new unions with groups that an earlier hidden cut set apart; so this is repeated until every union
satisfies. Each time there are fewer hidden cuts, and without any there are no unions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from masquerade.anonymize.mondrian.axes import Axis, Shares
from masquerade.anonymize.mondrian.candidates import Cuts
from masquerade.anonymize.mondrian.groups import Done, Open, Partition
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.anonymize.mondrian.partition import Choice, Cutter
from masquerade.engine.counts import Counts, value_counts
from masquerade.engine.numbering import renumber


class _CutGroups:
    """The groups that hidden cuts cut in two. The parts of group number c are named 2c + 1 and 2c + 2."""

    def __init__(self) -> None:
        self.groups: list[Open] = []

    def made(self, groups: Open) -> Counts:
        """Keep these groups, and name their parts."""
        first = len(self.groups)
        for at in range(groups.batch.n_groups):
            this = np.zeros(groups.batch.n_groups, bool)
            this[at] = True
            self.groups.append(groups.only(this))
        return np.arange(2 * first + 1, 2 * len(self.groups) + 1)

    def path(self, part: int) -> list[int]:
        """Return the parts that contain this one, the largest first, and itself last."""
        path = []
        while part:
            path.append(part)
            part = int(self.groups[(part - 1) // 2].parted[0])
        return path[::-1]

    def first_that_parted(self, parts: Sequence[int]) -> int:
        """Return the number of the cut group of which these are in different parts."""
        paths = [self.path(part) for part in parts]
        for level in zip(*paths, strict=False):
            if any(part != level[0] for part in level):
                parted: int = (level[0] - 1) // 2
                return parted
        raise AssertionError("groups that no hidden cut parted never look alike")

    def inside(self, part: int, cuts: set[int]) -> bool:
        """Return whether a part is in one of these cut groups."""
        return any((each - 1) // 2 in cuts for each in self.path(part))


def partition_with_unions(
    axes: Sequence[Axis], judge: Judge, choice: Choice, n_rows: int, strict: bool
) -> Partition:
    """Cut until no cut is allowed, and undo hidden cuts whose parts look alike and violate as one group."""
    hidden, done = _CutGroups(), Done(n_rows)
    cutter = Cutter(axes, judge, choice, strict, hidden)
    cutter.cut([cutter.start(n_rows)], done)
    openly = replace(cutter, choice=_only_released(choice))
    while True:
        made, parted = done.partition(axes), done.parted.tolist()
        undone = {hidden.first_that_parted(parts) for parts in _violating(axes, judge, made, parted)}
        if not undone:
            return made
        undone -= {cut for cut in undone if hidden.inside(int(hidden.groups[cut].parted[0]), undone)}
        stays = [not hidden.inside(part, undone) for part in parted]
        done = done.only(np.array(stays))
        openly.cut([hidden.groups[cut] for cut in sorted(undone)], done)


def _violating(axes: Sequence[Axis], judge: Judge, made: Partition, parted: Sequence[int]) -> list[list[int]]:
    """Return, of each union of groups that violates, the hidden cuts' parts that its groups are in."""
    alike = np.zeros(len(parted), np.int64)
    for axis, (lo, hi) in zip(axes, made.cells, strict=True):
        if axis.released:
            width = axis.column.domain.size + 1
            for ends in (lo, hi):
                numbers, _ = renumber(alike * width + ends, int(alike.max() + 1) * width)
                alike = numbers.astype(np.int64)
    members: dict[int, list[int]] = defaultdict(list)
    for part, number in zip(parted, alike.tolist(), strict=True):
        members[number].append(part)
    if len(members) == alike.size:
        return []
    of_row = alike[made.labels]
    rows = np.arange(of_row.size)
    holds = judge.holds(judge.count(lambda: of_row, rows, value_counts(of_row, len(members))))
    return [parts for number, parts in members.items() if len(parts) > 1 and not holds[number]]


def _only_released(choice: Choice) -> Choice:
    def released(cuts: Cuts) -> Shares:
        return choice(cuts) if cuts.released else np.full(cuts.sizes.size, -np.inf)

    return released
