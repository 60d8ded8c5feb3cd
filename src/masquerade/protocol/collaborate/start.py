"""Where providers of the same columns start that keep to boundaries: every value as general as is allowed.

The most general allowed values of each attribute are public: nodes of a taxonomy, or the first intervals of repeated
halving that are no wider than allowed. So are the groups that they make, of which most may be empty. Each is judged
once, over the records of all providers; of those that may not stand, everybody leaves its own records out, and the
cutting (`tree`) starts from the others. With several QIDs, or where groups are compared with all records, records that
leave are missing elsewhere: what stood is judged again, until nothing falls, as on one table
(`anonymize/boundaries.py`).

    who              learns
    every provider   of each group at the boundaries whether it may stand, and if so whether it may be divided; with
                     several QIDs, or t-closeness, also in which round a group fell. Not which of the others are empty
    assembler        how many records each provider left out

A group that may stand is one or several groups of the release, whose cells lie in it: its verdict follows from the
release. That another may not is told to those without records in it, too, who cannot tell it from one without any.
Cost: one evaluation of the circuit of a verdict for each group, and one more in each further round if it stood so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from masquerade.engine.counts import Counts, Flags, Rows
from masquerade.engine.numbering import rows_by_rank
from masquerade.errors import ParameterError, RequirementUnreachable
from masquerade.net.script import Script
from masquerade.privacy.requirement import Requirement
from masquerade.protocol.collaborate.axes import Range, Ranks
from masquerade.protocol.collaborate.groups import Group, Judge, Settings

MOST_GROUPS = 1 << 17  # at the boundaries of a QID: each is tested, also those without records

Side = tuple[Settings, Sequence[Judge]]  # linked QIDs: how they are cut, and a judge for each


@dataclass(frozen=True, eq=False)
class Start:
    """The records of this holder that can be released, and the groups in which each set of linked QIDs starts.

    The rows of the groups are places among `rows`.
    """

    rows: Rows
    groups: Sequence[Sequence[Group]]  # in the order of the sets


def start_within_boundaries(
    sides: Sequence[Side], requirement: Requirement, *, alone: bool
) -> Script[Start | None]:
    """Find out who can be released within the boundaries; None without boundaries, and so without a question.

    With `alone` nothing changes for those who stay when others leave: there is one QID, and no group is compared with
    all records.
    """
    if not any(axis.limits for settings, _ in sides for axis in settings.released):
        return None
    everything = np.arange(sides[0][0].ranks[0].size, dtype=np.intp)
    for _, judges in sides:
        for judge in judges:
            yield from judge.whole(everything)
    qids = [
        _Qid(settings, number, judge) for settings, judges in sides for number, judge in enumerate(judges)
    ]
    left = everything
    while True:
        stays = np.ones(left.size, bool)
        fell = False
        for qid in qids:
            fell |= yield from qid.judge_again(left)
            stays &= qid.stands[qid.cells[left]]
        if not all(qid.stands.any() for qid in qids):
            raise RequirementUnreachable(
                f"collaborate: {requirement} cannot be reached within max_generalization and max_width: every group "
                "violates even at them; allow more, or ask for less",
                public=True,
            )
        left = left[stays]
        if alone or not fell:
            break
    waiting = iter(qids)
    return Start(
        left, [[group for _ in judges for group in next(waiting).groups(left)] for _, judges in sides]
    )


class _Qid:
    """The groups of one QID at the boundaries: which of them stand, and which of these may be divided."""

    def __init__(self, settings: Settings, number: int, judge: Judge) -> None:
        self._settings, self._number, self._judge = settings, number, judge
        limited = sorted(at for at in settings.qids[number] if settings.axes[at].limits)
        self._shape = [len(settings.axes[at].limits) for at in limited]
        self._limited = limited
        n_groups = prod(self._shape)
        if n_groups > MOST_GROUPS:
            names = ", ".join(settings.axes[at].name for at in limited)
            raise ParameterError(
                f"the boundaries of {names} make {n_groups} groups, each of which must be tested, and at most "
                f'{MOST_GROUPS} can be; allow more, or use third_party = "trusted" with choose = "certainty"'
            )
        self.cells: Ranks = np.zeros(
            settings.ranks[0].size, np.int64
        )  # the group of each of this holder's rows
        for at in limited:
            axis = settings.axes[at]
            self.cells = self.cells * len(axis.limits) + axis.limit_of(settings.ranks[at])
        self.stands: Flags = np.ones(n_groups, bool)
        self._divisible: Flags = np.zeros(n_groups, bool)

    def judge_again(self, left: Rows) -> Script[bool]:
        """Judge what has stood so far, with these records; return whether anything fell."""
        asked = np.flatnonzero(self.stands)
        places = self._places(left, asked)
        told = yield from self._judge.of_rows(left).standing(places)
        self.stands[asked] = told.private
        self._divisible[asked] = told.divisible
        return not bool(told.private.all())

    def groups(self, left: Rows) -> list[Group]:
        """Return the groups that stand, with the places of their records among those that are left."""
        asked, settings = np.flatnonzero(self.stands), self._settings
        live = settings.qids[self._number] | {len(settings.axes) - 1}
        return [
            Group(self._cell(int(number)), rows, bool(self._divisible[number]), live, self._number)
            for number, rows in zip(asked, self._places(left, asked), strict=True)
        ]

    def _cell(self, number: int) -> tuple[Range, ...]:
        cells = [axis.root for axis in self._settings.axes]
        if self._shape:
            for at, place in zip(self._limited, np.unravel_index(number, self._shape), strict=True):
                cells[at] = self._settings.axes[at].limits[int(place)]
        return tuple(cells)

    def _places(self, left: Rows, asked: Counts) -> list[Rows]:
        """Return, for each of these groups, the places of its records among those that are left."""
        cells = self.cells[left]
        order = rows_by_rank(cells, self.stands.size)
        ends = np.searchsorted(cells[order], [asked, asked + 1])
        return [order[first:last] for first, last in ends.T.tolist()]
