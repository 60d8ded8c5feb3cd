"""The algorithm that both modes share: Mondrian whose every decision follows from a few answers about parts.

Groups are cut along public axes (`axes`), the widest first. Questions about a part go to a `Judge`, which either
counts records (a trusted third party has them) or evaluates circuits on shares (nobody has them). Its answers
are all that is used: for each part whether it is empty, refused, private, or private and large enough that two private
parts of it are possible; and at the end which values a cell may be narrowed to. So the two modes give
the same groups, and a participant in the second learns these answers and nothing else. No count is ever asked for:
the difference of two could be one provider's own.

A cut is allowed when every part is empty or private. Unless cuts must be strict, children that are not private stay
together at the parent's value, with the rarest private child if they need it. The rarest child is
the one whose answers in all groups so far have the lowest sum. An axis that is refused for a group is not tried again
for the parts of that group.

A group may also be cut between its providers, each on its own and the others together: with fewer of them a part
withstands more easily, and all axes may be tried again. First, providers are set apart by size alone
(`providers_apart`); later such cuts are tried where nothing else is left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from masquerade.engine.counts import Flags, Rows
from masquerade.net.script import Script
from masquerade.protocol.collaborate.axes import PublicAxis, Range, Ranks

OnRound = Callable[[int, int], None]  # attempts so far, groups being cut


@dataclass(frozen=True, eq=False)
class Answers:
    """Verdicts on parts, in order; a part that is neither empty nor private is refused."""

    empty: Flags
    private: Flags
    divisible: Flags  # private, and might be cut into two private parts


class Judge(Protocol):
    """Answers questions about parts; each part is given as the rows that this holder has of it."""

    def whole(self, rows: Rows) -> Script[Answers]:
        """Judge the group of all records; raise `RequirementUnreachable` unless it is private."""

    def verdicts(self, parts: Sequence[Rows]) -> Script[Answers]:
        """Judge each part."""

    def lone_verdicts(self, parts: Sequence[tuple[int, Rows]]) -> Script[Answers]:
        """Judge parts of one provider each, whose number comes first: it can answer without the others.

        Whether such a part is divisible stays private to its provider.
        """

    def sole(self, families: Sequence[Sequence[Rows]]) -> Script[list[int]]:
        """Return, for each family of parts, the index of the only non-empty one; −1 when there are several."""


@dataclass(frozen=True, eq=False)
class Group:
    """Records in one cell. All but `rows`, which are this holder's own, is public."""

    cells: tuple[Range, ...]
    rows: Rows
    divisible: bool  # unknown for a group of one provider: its holder counts the rows
    live: frozenset[int]  # the axes that may be tried


@dataclass(frozen=True)
class Settings:
    """How cuts are made: a private part has `least` records or more; the last axis is that of the providers.

    `apart` are the providers to set apart first, by their places on that axis.
    """

    axes: tuple[PublicAxis, ...]
    ranks: tuple[Ranks, ...]  # of this holder's rows along each axis
    least: int
    strict: bool = False
    providers_last: bool = True  # whether groups are cut between providers
    apart: tuple[int, ...] = ()

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
        return group.rows.size >= 2 * self.least


def partition(
    settings: Settings,
    judge: Judge,
    own: Judge,
    me: int | None,
    on_round: OnRound | None = None,
    on_own_round: OnRound | None = None,
) -> Script[list[Group]]:
    """Return the finished groups that have records of this holder.

    Groups of one provider alone are finished by that provider, with its `own` judge and no message to the
    others; only `on_own_round` is notified. `me` is the provider's number; None for a third party, which does it for
    all.
    """
    everything = np.arange(settings.ranks[0].size, dtype=np.intp)
    told = yield from judge.whole(everything)
    axes = frozenset(range(len(settings.axes)))
    whole = Group(tuple(axis.root for axis in settings.axes), everything, bool(told.divisible[0]), axes)
    waiting = [whole]
    heard = _Heard()
    if settings.providers_last and settings.apart:
        first = _Attempt(settings, whole, len(axes) - 1, settings.apart)
        yield from _decide([first], judge, heard, strict=False)
        waiting = first.outcome() if first.allowed else waiting
    done, alone = yield from _cut(settings, judge, heard, waiting, on_round)
    done = yield from _narrow(settings, judge, done)
    mine = [group for group in alone if me is None or settings.provider_of(group) == me]
    by_themselves = replace(settings, providers_last=False)
    finished, _ = yield from _cut(by_themselves, own, _Heard(), mine, on_own_round)
    finished = yield from _narrow(settings, own, finished)
    return [*done, *finished]


def _cut(
    settings: Settings, judge: Judge, heard: _Heard, waiting: Sequence[Group], on_round: OnRound | None
) -> Script[tuple[list[Group], list[Group]]]:
    """Cut until no cut is allowed. Return the finished groups, and those that belong to one provider."""
    done: list[Group] = []
    alone: list[Group] = []
    attempted = 0
    while waiting:
        attempts = []
        for group in waiting:
            at = _next_axis(settings, group)
            if settings.providers_last and settings.provider_of(group) is not None:
                alone.append(group)
            elif at is None or not settings.is_divisible(group):
                done.append(group)
            else:
                attempts.append(_Attempt(settings, group, at))
        waiting = []
        if attempts:
            yield from _decide(attempts, judge, heard, settings.strict)
            waiting = [group for attempt in attempts for group in attempt.outcome()]
            attempted += len(attempts)
            if on_round is not None:
                on_round(attempted, len(waiting))
    return done, alone


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


def _next_axis(settings: Settings, group: Group) -> int | None:
    """Return the widest axis that may be tried, the first on a tie; that of the providers when no other is left."""
    best, widest = None, 0.0
    for at, axis in enumerate(settings.released):
        width = axis.width(group.cells[at]) if at in group.live else 0.0
        if width > widest:
            best, widest = at, width
    last = len(settings.axes) - 1
    if best is None and settings.providers_last and last in group.live:
        return last if settings.axes[last].children(group.cells[last]) else None
    return best


class _Heard:
    """How common each range of each axis is, judging by the answers so far; public, as they are."""

    def __init__(self) -> None:
        self._common: Counter[tuple[int, Range]] = Counter()

    def note(self, at: int, part: Range, answer: int) -> None:
        """Record an answer: 0 for empty, then 1 for refused, up to 3 for divisible."""
        self._common[at, part] += answer

    def common(self, at: int, part: Range) -> int:
        """Return the sum of the answers. Children of one range are asked about together, so their sums compare."""
        return self._common[at, part]


@dataclass
class _Attempt:
    """One group, cut along one axis; `only` some of the children are cut off, the others stay."""

    settings: Settings
    group: Group
    at: int
    only: tuple[int, ...] | None = None
    ranges: tuple[Range, ...] = ()
    parts: list[Rows] = field(default_factory=list)
    good: list[int] = field(default_factory=list)  # the private parts
    bad: list[int] = field(default_factory=list)
    divisible: set[int] = field(default_factory=set)
    asked: Sequence[int] = ()
    allowed: bool = False
    rest_divisible: bool = False

    def __post_init__(self) -> None:
        self.ranges = self.settings.axes[self.at].children(self.group.cells[self.at])
        self.parts = split(self.settings.ranks[self.at], self.group.rows, self.ranges)
        self.asked = range(len(self.parts)) if self.only is None else self.only
        self.bad = [each for each in range(len(self.parts)) if each not in self.asked]

    @property
    def cuts_providers(self) -> bool:
        return self.settings.providers_last and self.at == len(self.settings.axes) - 1

    def rest(self) -> Rows:
        """Return the rows that would stay at the parent's value."""
        return np.concatenate([self.parts[each] for each in self.bad])

    def join_rarest(self, heard: _Heard) -> None:
        """Keep the rarest private part, the narrowest on a tie, with the rest."""
        is_own = self.settings.provider_of(self.group) is not None  # its holder has all rows, and counts them

        def rarity(each: int) -> tuple[int, int]:
            lo, hi = self.ranges[each]
            common = self.parts[each].size if is_own else heard.common(self.at, self.ranges[each])
            return common, hi - lo

        rarest = min(self.good, key=rarity)  # on a tie the first that was asked about
        self.good.remove(rarest)
        self.bad.append(rarest)

    def outcome(self) -> list[Group]:
        """Return the groups that the cut makes."""
        group = self.group
        if not self.allowed:
            return [replace(group, live=group.live - {self.at})]
        parted = len(self.good) + bool(self.bad) > 1
        live = frozenset(range(len(group.cells))) if self.cuts_providers and parted else group.live
        made = []
        for each in self.good:
            cells = (*group.cells[: self.at], self.ranges[each], *group.cells[self.at + 1 :])
            made.append(Group(cells, self.parts[each], each in self.divisible, live))
        if self.bad:
            made.append(Group(group.cells, self.rest(), self.rest_divisible, live - {self.at}))
        return made


def _decide(attempts: Sequence[_Attempt], judge: Judge, heard: _Heard, strict: bool) -> Script[None]:
    """Find out which attempts are allowed, and what stays together."""
    asked = [(attempt, each) for attempt in attempts for each in attempt.asked]
    between = [(attempt, each) for attempt, each in asked if attempt.cuts_providers]
    within = [(attempt, each) for attempt, each in asked if not attempt.cuts_providers]
    if between:
        told = yield from judge.lone_verdicts([(each, attempt.parts[each]) for attempt, each in between])
        _note(between, told, heard)
    if within:
        told = yield from judge.verdicts([attempt.parts[each] for attempt, each in within])
        _note(within, told, heard)
    for attempt in attempts:
        attempt.allowed = not attempt.bad
    if strict:
        return
    mixed = [attempt for attempt in attempts if attempt.bad and attempt.good]
    yield from _allow(mixed, judge)
    needy = [attempt for attempt in mixed if not attempt.allowed and len(attempt.good) > 1]
    for attempt in needy:
        attempt.join_rarest(heard)
    yield from _allow(needy, judge)


def _note(asked: Sequence[tuple[_Attempt, int]], told: Answers, heard: _Heard) -> None:
    flags = zip(told.empty.tolist(), told.private.tolist(), told.divisible.tolist(), strict=True)
    for (attempt, each), (is_empty, is_private, is_divisible) in zip(asked, flags, strict=True):
        if is_private:
            attempt.good.append(each)
        elif not is_empty:
            attempt.bad.append(each)
        if is_divisible:
            attempt.divisible.add(each)
        heard.note(attempt.at, attempt.ranges[each], (not is_empty) + is_private + is_divisible)


def _allow(attempts: Sequence[_Attempt], judge: Judge) -> Script[None]:
    """Allow the attempts whose rest is private."""
    if attempts:
        told = yield from judge.verdicts([attempt.rest() for attempt in attempts])
        for attempt, fine, divisible in zip(attempts, told.private, told.divisible, strict=True):
            attempt.allowed, attempt.rest_divisible = bool(fine), bool(divisible)


def _narrow(settings: Settings, judge: Judge, groups: Sequence[Group]) -> Script[list[Group]]:
    """Make every cell as narrow as the group's records allow, so that the release is more precise."""
    cells = [list(group.cells) for group in groups]
    waiting = [(number, at) for number in range(len(groups)) for at in range(len(settings.released))]
    while True:
        families, whose = [], []
        for number, at in waiting:
            ranges = settings.axes[at].children(cells[number][at])
            if ranges:
                families.append(split(settings.ranks[at], groups[number].rows, ranges))
                whose.append((number, at, ranges))
        if not families:
            break
        found = yield from judge.sole(families)
        waiting = []
        for (number, at, ranges), only in zip(whose, found, strict=True):
            if only >= 0:
                cells[number][at] = ranges[only]
                waiting.append((number, at))
    return [replace(group, cells=tuple(cell)) for group, cell in zip(groups, cells, strict=True)]


def split(ranks: Ranks, rows: Rows, ranges: Sequence[Range]) -> list[Rows]:
    """Return the rows within each of these ranges, which are adjacent and in order."""
    starts = np.array([lo for lo, _ in ranges], np.int64)
    child = np.searchsorted(starts, ranks[rows], "right") - 1
    order = np.argsort(child, kind="stable")
    ends = np.searchsorted(child[order], np.arange(len(ranges) + 1))
    return [rows[order[ends[each] : ends[each + 1]]] for each in range(len(ranges))]
