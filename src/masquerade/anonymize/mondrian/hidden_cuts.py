"""Cuts that the release does not show: groups that are cut apart between providers may look alike there, and be one.

Of a requirement that only gains from more records nothing is lost: a coalition that takes a whole part out leaves
another, which satisfies alone. Of any other the union may violate, though each part satisfies. Then the cut that split
them is undone: the group that it cut is cut anew, along released dimensions alone, whose parts never look alike. That
can make new unions with groups that an earlier hidden cut set apart; so this is repeated until every union
satisfies. Each time there are fewer hidden cuts, and without any there are no unions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.anonymize.mondrian.axes import Axis, Cells, Shares
from masquerade.anonymize.mondrian.cuts import Choice, Cuts
from masquerade.engine import Counts, Flags, renumber, value_counts


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
