"""Attempts to cut: groups that are linked along an axis, what is answered about their parts, and what comes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from masquerade.engine.counts import Rows
from masquerade.net.script import Script
from masquerade.protocol.collaborate.axes import Range
from masquerade.protocol.collaborate.groups import Answers, Group, Judge, Settings, split

Judges = Sequence[Judge]  # one for each QID


class Heard:
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
class Attempt:
    """Linked groups, cut along one axis; `only` some of the children are cut off, the others stay."""

    settings: Settings
    groups: Sequence[Group]
    at: int
    only: tuple[int, ...] | None = None
    ranges: tuple[Range, ...] = ()
    parts: list[list[Rows]] = field(default_factory=list)  # by group, then by child
    good: list[int] = field(
        default_factory=list
    )  # the children of which every group's part is private or empty
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
            told = [
                self.answers[each, child] for each in range(len(self.groups)) if (each, child) in self.answers
            ]
            if told:
                (self.good if all(private for private, _ in told) else self.bad).append(child)
        self.allowed = not self.bad

    def rest(self, group: int) -> Rows:
        """Return the rows of a group that would stay at the parent's value."""
        return np.concatenate([self.parts[group][each] for each in self.bad])

    def join_rarest(self, heard: Heard) -> None:
        """Keep the rarest private child, the narrowest on a tie, with the rest."""
        is_own = (
            self.settings.provider_of(self.groups[0]) is not None
        )  # its holder has all rows, and counts them

        def rarity(each: int) -> tuple[int, int]:
            lo, hi = self.ranges[each]
            common = self.parts[0][each].size if is_own else heard.common(self.at, self.ranges[each])
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
        parted = len(self.good) + bool(self.bad) > 1
        live = frozenset(range(len(group.cells))) if self.cuts_providers and parted else group.live
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


def decide(attempts: Sequence[Attempt], judges: Judges, heard: Heard, strict: bool) -> Script[None]:
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


def _note(asked: Sequence[tuple[Attempt, int, int]], told: Answers, heard: Heard) -> None:
    flags = zip(told.empty.tolist(), told.private.tolist(), told.divisible.tolist(), strict=True)
    for (attempt, group, child), (is_empty, is_private, is_divisible) in zip(asked, flags, strict=True):
        if not is_empty:
            attempt.answers[group, child] = is_private, is_divisible
        heard.note(attempt.at, attempt.ranges[child], (not is_empty) + is_private + is_divisible)


def _allow(attempts: Sequence[Attempt], judges: Judges) -> Script[None]:
    """Allow the attempts of which all that stays is private."""
    for attempt in attempts:
        attempt.rests = {}
    for qid, judge in enumerate(judges):
        staying = [
            (attempt, each)
            for attempt in attempts
            for each, group in enumerate(attempt.groups)
            if group.qid == qid
        ]
        if staying:
            told = yield from judge.verdicts([attempt.rest(each) for attempt, each in staying])
            flags = zip(told.empty.tolist(), told.private.tolist(), told.divisible.tolist(), strict=True)
            for (attempt, each), (is_empty, is_private, is_divisible) in zip(staying, flags, strict=True):
                if not is_empty:
                    attempt.rests[each] = is_private, is_divisible
    for attempt in attempts:
        attempt.allowed = bool(attempt.rests) and all(private for private, _ in attempt.rests.values())
