"""The algorithm that both modes share: Mondrian whose every decision follows from a few answers about parts.

Groups are cut along public axes (`axes`), the widest first. Questions about a part go to a `PartJudge`, which either
counts records (a trusted third party has them) or evaluates circuits on shares (nobody has them). Its answers
are all that is used: for each part whether it is empty, refused, private, or private and large enough that two private
parts of it are possible; and at the end which values a cell may be narrowed to. So the two modes give
the same groups, and a participant in the second learns these answers and nothing else. No count is ever asked for:
the difference of two could be one provider's own.

A cut is allowed when every part is empty or private. Unless cuts must be strict, children that are not private stay
together at the parent's value, with the rarest private child if they need it. The rarest child is
the one whose answers in all groups so far have the lowest sum. An axis that is refused for a group is not tried again
for the parts of that group.

Where the fittest cut is asked for (Algorithm 2 of the m-privacy paper, at public places), a group is cut along the
axis whose least fit part has the highest privacy fitness score, of those along which every part is empty or private;
where there is none, along the widest. Only which axis it is becomes known.

Each QID has groups of its own, judged by the requirements on it. QIDs without a common attribute are cut apart from
each other. Those with one share its cuts: all groups of any QID that may hold the same records are cut together
(`linked`), and a cut that one of them refuses is made by none. When the one that refused has been cut off from the
others, along another axis, these try again.

A group may also be cut between its providers, each on its own and the others together: with fewer of them a part
withstands more easily, and all axes may be tried again. First, providers are set apart by size alone
(`providers_apart`); later such cuts are tried where nothing else is left. QIDs that share attributes are not cut
between providers.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Protocol

import numpy as np

from masquerade.engine import Flags, Rows
from masquerade.net import Script
from masquerade.protocol.providers.axes import PublicAxis, Range, Ranks

# --- groups -------------------------------------------------------------------------------------------------
# Groups of records on public cells, the questions that are asked about their parts, and how cuts are made.


@dataclass(frozen=True, eq=False)
class Answers:
    """Verdicts on parts, in order; a part that is neither empty nor private is refused."""

    empty: Flags
    private: Flags
    divisible: Flags  # private, and might be cut into two private parts


class PartJudge(Protocol):
    """Answers questions about parts of groups of one QID; each part is given as the rows that this holder has of it."""

    def of_rows(self, rows: Rows) -> PartJudge:
        """Return a judge of these of this holder's rows alone, numbered anew: the others are left out everywhere."""

    def whole(self, rows: Rows) -> Script[Answers]:
        """Judge the group of all records; raise `RequirementUnreachable` unless it is private."""

    def verdicts(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part."""

    def acceptable(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part, without showing which of the unacceptable ones are empty: all of them count as such."""

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
    mixed: bool = False  # known to have no cut of which all parts are private: the fittest need not be asked for


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
    by_fitness: bool = False  # a group is cut where its least fit part is fittest, and not along the widest axis

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


# --- attempts -----------------------------------------------------------------------------------------------
# Attempts to cut: groups that are linked along an axis, what is answered about their parts, and what comes of it.

Judges = Sequence[PartJudge]  # one for each QID


# How common each range of each axis is: the sum of the answers so far (0 for empty, 1 for refused, up to 3 for
# divisible); public, as they are. Children of one range are asked about together, so their sums compare.
RangeFrequencies = Counter[tuple[int, Range]]


@dataclass
class Attempt:
    """Linked groups, cut along one axis; `only` some of the children are cut off, the others stay."""

    settings: Settings
    groups: Sequence[Group]
    at: int
    only: tuple[int, ...] | None = None
    ranges: tuple[Range, ...] = ()
    parts: list[list[Rows]] = field(default_factory=list)  # by group, then by child
    good: list[int] = field(default_factory=list)  # the children of which every group's part is private or empty
    bad: list[int] = field(default_factory=list)
    answers: dict[tuple[int, int], tuple[bool, bool]] = field(
        default_factory=dict
    )  # of parts with records, by group and child: private, divisible
    rests: dict[int, tuple[bool, bool]] = field(default_factory=dict)  # the same of what stays of each group
    asked: Sequence[int] = ()
    allowed: bool = False

    def __post_init__(self) -> None:
        self.ranges = self.settings.axes[self.at].children(self.groups[0].cells[self.at])
        ranks = self.settings.ranks[self.at]
        self.parts = [split(ranks, group.rows, self.ranges) for group in self.groups]
        self.asked = range(len(self.ranges)) if self.only is None else self.only
        self.bad = [each for each in range(len(self.ranges)) if each not in self.asked]

    @property
    def cuts_providers(self) -> bool:
        """Whether this would cut groups between their providers."""
        return self.settings.providers_last and self.at == len(self.settings.axes) - 1

    def note(self) -> None:
        """Tell good children from bad ones, when all answers are there."""
        for child in self.asked:
            told = [self.answers[each, child] for each in range(len(self.groups)) if (each, child) in self.answers]
            if told:
                (self.good if all(private for private, _ in told) else self.bad).append(child)
        self.allowed = not self.bad

    def rest(self, group: int) -> Rows:
        """Return the rows of a group that would stay at the parent's value."""
        return np.concatenate([self.parts[group][each] for each in self.bad])

    def join_rarest(self, heard: RangeFrequencies) -> None:
        """Keep the rarest private child, the narrowest on a tie, with the rest."""
        is_own = self.settings.provider_of(self.groups[0]) is not None  # its holder has all rows, and counts them

        def rarity(each: int) -> tuple[int, int]:
            lo, hi = self.ranges[each]
            common = self.parts[0][each].size if is_own else heard[self.at, self.ranges[each]]
            return common, hi - lo

        rarest = min(self.good, key=rarity)  # on a tie the first that was asked about
        self.good.remove(rarest)
        self.bad.append(rarest)

    def outcome(self) -> list[Group]:
        """Return the groups that the cut makes; where it is refused, those that it failed of do not try it again."""
        if not self.allowed:
            told = [(group, private) for group, (private, _) in self.rests.items()] or [
                (group, private) for (group, _), (private, _) in self.answers.items()
            ]
            failed = {group for group, private in told if not private}
            return [
                replace(group, live=group.live - {self.at}) if each in failed else group
                for each, group in enumerate(self.groups)
            ]
        return [made for each, group in enumerate(self.groups) for made in self._made(each, group)]

    def _made(self, number: int, group: Group) -> list[Group]:
        split = len(self.good) + bool(self.bad) > 1
        live = frozenset(range(len(group.cells))) if self.cuts_providers and split else group.live
        made = []
        for each in self.good:
            if (number, each) in self.answers:
                cells = (*group.cells[: self.at], self.ranges[each], *group.cells[self.at + 1 :])
                _, divisible = self.answers[number, each]
                made.append(Group(cells, self.parts[number][each], divisible, live, group.qid))
        if number in self.rests:
            _, divisible = self.rests[number]
            made.append(Group(group.cells, self.rest(number), divisible, live - {self.at}, group.qid))
        return made


def decide(attempts: Sequence[Attempt], judges: Judges, heard: RangeFrequencies, strict: bool) -> Script[None]:
    """Find out which attempts are allowed, and what stays together."""
    asked = [
        (attempt, group, child)
        for attempt in attempts
        for child in attempt.asked
        for group in range(len(attempt.groups))
    ]
    between = [each for each in asked if each[0].cuts_providers]
    if between:
        parts = [(child, attempt.parts[group][child]) for attempt, group, child in between]
        _note(between, (yield from judges[0].lone_verdicts(parts)), heard)
    for qid, judge in enumerate(judges):
        within = [
            (attempt, group, child)
            for attempt, group, child in asked
            if attempt.groups[group].qid == qid and not attempt.cuts_providers
        ]
        if within:
            parts_within = [attempt.parts[group][child] for attempt, group, child in within]
            _note(within, (yield from judge.verdicts(parts_within)), heard)
    for attempt in attempts:
        attempt.note()
    if strict:
        return
    mixed = [attempt for attempt in attempts if attempt.bad and attempt.good]
    yield from _allow(mixed, judges)
    needy = [attempt for attempt in mixed if not attempt.allowed and len(attempt.good) > 1]
    for attempt in needy:
        attempt.join_rarest(heard)
    yield from _allow(needy, judges)


def _note(asked: Sequence[tuple[Attempt, int, int]], told: Answers, heard: RangeFrequencies) -> None:
    flags = zip(told.empty.tolist(), told.private.tolist(), told.divisible.tolist(), strict=True)
    for (attempt, group, child), (is_empty, is_private, is_divisible) in zip(asked, flags, strict=True):
        if not is_empty:
            attempt.answers[group, child] = is_private, is_divisible
        heard[attempt.at, attempt.ranges[child]] += (not is_empty) + is_private + is_divisible


def _allow(attempts: Sequence[Attempt], judges: Judges) -> Script[None]:
    """Allow the attempts of which all that stays is private."""
    for attempt in attempts:
        attempt.rests = {}
    for qid, judge in enumerate(judges):
        staying = [
            (attempt, each) for attempt in attempts for each, group in enumerate(attempt.groups) if group.qid == qid
        ]
        if staying:
            told = yield from judge.verdicts([attempt.rest(each) for attempt, each in staying])
            flags = zip(told.empty.tolist(), told.private.tolist(), told.divisible.tolist(), strict=True)
            for (attempt, each), (is_empty, is_private, is_divisible) in zip(staying, flags, strict=True):
                if not is_empty:
                    attempt.rests[each] = is_private, is_divisible
    for attempt in attempts:
        attempt.allowed = bool(attempt.rests) and all(private for private, _ in attempt.rests.values())


# --- tree ---------------------------------------------------------------------------------------------------

OnRound = Callable[[int, int], None]  # attempts so far, groups being cut


def partition(
    settings: Settings,
    judges: Judges,
    own: Judges,
    me: int | None,
    on_round: OnRound | None = None,
    on_own_round: OnRound | None = None,
    start: Sequence[Group] | None = None,
) -> Script[list[Group]]:
    """Return the finished groups of all QIDs that have records of this holder.

    The cutting begins with the group of all records, which must be private, or with those of `start`, which are.

    Groups of one provider alone are finished by that provider, with its `own` judges and no message to the
    others; only `on_own_round` is notified. `me` is the provider's number; None for a third party, which does it for
    all.
    """
    providers = len(settings.axes) - 1
    waiting = [*start] if start is not None else (yield from _whole(settings, judges))
    heard = RangeFrequencies()
    if settings.providers_last and settings.apart:
        first = [Attempt(settings, [group], providers, settings.apart) for group in waiting]
        yield from decide(first, judges, heard, strict=False)
        waiting = [made for each in first for made in (each.outcome() if each.allowed else each.groups)]
    done, alone = yield from _cut(settings, judges, heard, waiting, on_round)
    done = yield from _narrow(settings, judges, done)
    mine = [group for group in alone if me is None or settings.provider_of(group) == me]
    by_themselves = replace(settings, providers_last=False)
    finished, _ = yield from _cut(by_themselves, own, RangeFrequencies(), mine, on_own_round)
    finished = yield from _narrow(settings, own, finished)
    return [*done, *finished]


def _whole(settings: Settings, judges: Judges) -> Script[list[Group]]:
    """Return the group of all records, once for each QID."""
    everything = np.arange(settings.ranks[0].size, dtype=np.intp)
    root, providers = tuple(axis.root for axis in settings.axes), len(settings.axes) - 1
    groups = []
    for number, (qid, judge) in enumerate(zip(settings.qids, judges, strict=True)):
        told = yield from judge.whole(everything)
        groups.append(Group(root, everything, bool(told.divisible[0]), qid | {providers}, number))
    return groups


def _cut(
    settings: Settings, judges: Judges, heard: RangeFrequencies, waiting: Sequence[Group], on_round: OnRound | None
) -> Script[tuple[list[Group], list[Group]]]:
    """Cut until no cut is allowed. Return the finished groups, and those that belong to one provider."""
    alone: list[Group] = []
    done: list[Group] = []
    attempted = 0
    while True:
        if settings.providers_last:
            alone += [group for group in waiting if settings.provider_of(group) is not None]
            waiting = [group for group in waiting if settings.provider_of(group) is None]
        waiting, preferred = yield from _preferred(settings, judges, waiting)
        attempts = list(_attempts(settings, waiting, preferred))
        tried = {id(group) for attempt in attempts for group in attempt.groups}
        left = [group for group in waiting if id(group) not in tried]
        if not attempts:
            return [*done, *left], alone
        if len(settings.qids) == 1:  # otherwise others may be cut off, and let it be tried
            done, left = [*done, *left], []
        yield from decide(attempts, judges, heard, settings.strict)
        waiting = [*left, *(group for attempt in attempts for group in attempt.outcome())]
        attempted += len(attempts)
        if on_round is not None:
            on_round(attempted, len(waiting))


def _preferred(
    settings: Settings, judges: Judges, groups: Sequence[Group]
) -> Script[tuple[Sequence[Group], dict[int, int]]]:
    """Return the axis of the fittest cut of each group that has one, by its place; and the groups, with what was found.

    There is a single QID.
    """
    if not settings.by_fitness:
        return groups, {}
    axes: dict[int, list[int]] = {}
    for _, at, places in sorted(_possible(settings, groups), key=lambda each: each[1]):
        axes.setdefault(places[0], []).append(at)
    asked = [place for place in sorted(axes) if len(axes[place]) > 1 and not groups[place].mixed]
    if not asked:
        return groups, {}
    choices = [
        [
            split(settings.ranks[at], groups[place].rows, settings.axes[at].children(groups[place].cells[at]))
            for at in axes[place]
        ]
        for place in asked
    ]
    found = yield from judges[0].fittest(choices)
    none = {place for place, best in zip(asked, found, strict=True) if best < 0}
    noted = [replace(group, mixed=True) if place in none else group for place, group in enumerate(groups)]
    return noted, {place: axes[place][best] for place, best in zip(asked, found, strict=True) if best >= 0}


def _possible(settings: Settings, groups: Sequence[Group]) -> Iterator[tuple[float, int, list[int]]]:
    """Yield what could be cut: the width, negative so that the widest sorts first, the axis, and the linked groups."""
    for at, axis in enumerate(settings.released):
        for places in linked(settings, at, groups):
            width = axis.width(groups[places[0]].cells[at])
            may = all(at in groups[place].live for place in places)
            if may and width > 0 and any(settings.is_divisible(groups[place]) for place in places):
                yield -width, at, places


def _attempts(settings: Settings, groups: Sequence[Group], preferred: Mapping[int, int]) -> Iterator[Attempt]:
    """Yield the cuts to be tried next, none of which touches a group of another: as preferred, or the widest first."""
    taken = set(preferred)
    chosen = {place: Attempt(settings, [groups[place]], at) for place, at in preferred.items()}
    for _, at, places in sorted(_possible(settings, groups)):
        if taken.isdisjoint(places):
            taken.update(places)
            chosen[places[0]] = Attempt(settings, [groups[place] for place in places], at)
    last = len(settings.axes) - 1
    if settings.providers_last:
        for place, group in enumerate(groups):
            may = last in group.live and settings.is_divisible(group)
            if place not in taken and may and settings.axes[last].children(group.cells[last]):
                chosen[place] = Attempt(settings, [group], last)
    for place in sorted(chosen):
        yield chosen[place]


def providers_apart(sizes: Sequence[int], m: int) -> tuple[int, ...]:
    """Return the largest providers to set apart, the smallest first, given about how many records each has.

    What a coalition of m leaves of a part is what can be cut further, repeatedly: so it counts by its
    logarithm, in the mean over the records. A part of one provider is left whole.
    """
    order = sorted(range(len(sizes)), key=lambda each: -sizes[each])

    def fitness(alone: int) -> float:
        others = sorted(sizes[each] for each in order[alone:])
        left = sum(others[: max(len(others) - m, 1)])
        total = sum(sizes[each] * math.log2(max(sizes[each], 1)) for each in order[:alone])
        return round(total + sum(others) * math.log2(max(left, 1)), 6)

    best = max(range(len(sizes)), key=fitness)  # the fewest on a tie
    return tuple(reversed(order[:best]))


def _narrow(settings: Settings, judges: Judges, groups: Sequence[Group]) -> Script[list[Group]]:
    """Make every cell as narrow as the records in it allow, so that the release is more precise."""
    cells = [list(group.cells) for group in groups]
    waiting = sorted(
        (places[0], at, places) for at in range(len(settings.released)) for places in linked(settings, at, groups)
    )
    while True:
        families, whose = [], []
        for first, at, places in waiting:
            ranges = settings.axes[at].children(cells[first][at])
            if ranges:
                same = settings.along(at, [groups[place] for place in places])
                rows = np.concatenate([group.rows for group in same])
                families.append(split(settings.ranks[at], rows, ranges))
                whose.append((first, at, places, ranges))
        if not families:
            break
        found = yield from judges[0].sole(families)
        waiting = []
        for (first, at, places, ranges), only in zip(whose, found, strict=True):
            if only >= 0:
                for place in places:
                    cells[place][at] = ranges[only]
                waiting.append((first, at, places))
    return [replace(group, cells=tuple(cell)) for group, cell in zip(groups, cells, strict=True)]
