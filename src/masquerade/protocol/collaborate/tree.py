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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from masquerade.net.script import Script
from masquerade.protocol.collaborate.attempts import Attempt, Heard, Judges, decide
from masquerade.protocol.collaborate.groups import Group, Settings, linked, split

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
    heard = Heard()
    if settings.providers_last and settings.apart:
        first = [Attempt(settings, [group], providers, settings.apart) for group in waiting]
        yield from decide(first, judges, heard, strict=False)
        waiting = [made for each in first for made in (each.outcome() if each.allowed else each.groups)]
    done, alone = yield from _cut(settings, judges, heard, waiting, on_round)
    done = yield from _narrow(settings, judges, done)
    mine = [group for group in alone if me is None or settings.provider_of(group) == me]
    by_themselves = replace(settings, providers_last=False)
    finished, _ = yield from _cut(by_themselves, own, Heard(), mine, on_own_round)
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
    settings: Settings, judges: Judges, heard: Heard, waiting: Sequence[Group], on_round: OnRound | None
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
        (places[0], at, places)
        for at in range(len(settings.released))
        for places in linked(settings, at, groups)
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
