"""Groups of records on public cells, the questions that are asked about their parts, and how cuts are made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Protocol

import numpy as np

from masquerade.engine.counts import Flags, Rows
from masquerade.net.script import Script
from masquerade.protocol.collaborate.axes import PublicAxis, Range, Ranks


@dataclass(frozen=True, eq=False)
class Answers:
    """Verdicts on parts, in order; a part that is neither empty nor private is refused."""

    empty: Flags
    private: Flags
    divisible: Flags  # private, and might be cut into two private parts


class Judge(Protocol):
    """Answers questions about parts of groups of one QID; each part is given as the rows that this holder has of it."""

    def of_rows(self, rows: Rows) -> Judge:
        """Return a judge of these of this holder's rows alone, numbered anew: the others are left out everywhere."""

    def whole(self, rows: Rows) -> Script[Answers]:
        """Judge the group of all records; raise `RequirementUnreachable` unless it is private."""

    def verdicts(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part."""

    def standing(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part, without telling which of those that may not stand are empty: all of them count as such."""

    def lone_verdicts(self, parts: Sequence[tuple[int, Rows]]) -> Script[Answers]:
        """Judge parts of one provider each, whose number comes first: it can answer without the others.

        Whether such a part is divisible stays private to its provider.
        """

    def sole(self, families: Sequence[Sequence[Rows]]) -> Script[list[int]]:
        """Return, for each family of parts, the index of the only non-empty one; −1 when there are several."""

    def fittest(self, choices: Sequence[Sequence[Sequence[Rows]]]) -> Script[list[int]]:
        """Return, for each choice between cuts, the index of the one whose least fit part is fittest.

        A cut is given as its parts, and counts if each is empty or private; −1 when none does. Of equals the first.
        """


@dataclass(frozen=True, eq=False)
class Group:
    """Records in one cell. All but `rows`, which are this holder's own, is public."""

    cells: tuple[Range, ...]  # along the axes of its QID; along others they mean nothing
    rows: Rows
    divisible: bool  # unknown for a group of one provider: its holder counts the rows
    live: frozenset[int]  # the axes that may be tried
    qid: int = 0  # the number of its QID
    mixed: bool = (
        False  # known to have no cut of which all parts are private: the fittest need not be asked for
    )


@dataclass(frozen=True)
class Settings:
    """How cuts are made; the last axis is that of the providers.

    `qids` are sets of axes, each with the least number of records of its private parts. They are linked by common axes;
    only where there is a single one, groups are cut between providers. `apart` are the providers to set apart first, by
    their places on that axis.
    """

    axes: tuple[PublicAxis, ...]
    ranks: tuple[Ranks, ...]  # of this holder's rows along each axis
    qids: tuple[frozenset[int], ...]
    least: tuple[int, ...]  # of each QID
    strict: bool = False
    providers_last: bool = True  # whether groups are cut between providers
    apart: tuple[int, ...] = ()
    by_fitness: bool = (
        False  # a group is cut where its least fit part is fittest, and not along the widest axis
    )

    def of_rows(self, rows: Rows) -> Settings:
        """Return the same for these of this holder's rows alone."""
        return replace(self, ranks=tuple(each[rows] for each in self.ranks))

    @property
    def released(self) -> tuple[PublicAxis, ...]:
        """The axes that are columns of the release: all but that of the providers."""
        return self.axes[:-1]

    def provider_of(self, group: Group) -> int | None:
        """Return the only provider of a group; None when it may have several."""
        lo, hi = group.cells[-1]
        return lo if hi - lo == 1 else None

    def is_divisible(self, group: Group) -> bool:
        """Return whether a group might be cut into two private parts."""
        if self.provider_of(group) is None:
            return group.divisible
        return group.rows.size >= 2 * self.least[group.qid]

    def along(self, at: int, groups: Sequence[Group]) -> list[Group]:
        """Return the groups of the first QID that has this axis: each record is in one of them."""
        first = next(number for number, qid in enumerate(self.qids) if at in qid)
        return [group for group in groups if group.qid == first]


def linked(settings: Settings, at: int, groups: Sequence[Group]) -> list[list[int]]:
    """Return which groups must be cut together along an axis, by their places, in order.

    A record is in one group of each QID, and has one cell. So groups of two QIDs may share records only if they have
    the same cell along every common axis; those that may are linked, in chains. This tells nothing of the records.
    """
    with_axis = [number for number, qid in enumerate(settings.qids) if at in qid]
    places = [place for place, group in enumerate(groups) if group.qid in with_axis]
    chain = {place: place for place in places}

    def head(place: int) -> int:
        while chain[place] != place:
            chain[place] = place = chain[chain[place]]
        return place

    for pair in combinations(with_axis, 2):
        common = sorted(settings.qids[pair[0]] & settings.qids[pair[1]])
        alike: dict[tuple[Range, ...], list[list[int]]] = defaultdict(lambda: [[], []])
        for place in places:
            if groups[place].qid in pair:
                cells = tuple(groups[place].cells[each] for each in common)
                alike[cells][groups[place].qid == pair[1]].append(place)
        for ones, others in alike.values():
            if ones and others:
                for place in (*ones, *others):
                    one, other = sorted((head(place), head(ones[0])))
                    chain[other] = one
    together: dict[int, list[int]] = defaultdict(list)
    for place in places:
        together[head(place)].append(place)
    return list(together.values())


def split(ranks: Ranks, rows: Rows, ranges: Sequence[Range]) -> list[Rows]:
    """Return the rows within each of these ranges, which are adjacent and in order."""
    starts = np.array([lo for lo, _ in ranges], np.int64)
    child = np.searchsorted(starts, ranks[rows], "right") - 1
    order = np.argsort(child, kind="stable")
    ends = np.searchsorted(child[order], np.arange(len(ranges) + 1))
    return [rows[order[ends[each] : ends[each + 1]]] for each in range(len(ranges))]
