"""Mondrian as a local anonymizer: its groups, merged into larger and larger ones.

A step must make a party's table more general everywhere: its new groups are unions of those before. Mondrian run
again with a larger k does not do that, as it cuts elsewhere from the start. So Mondrian runs once, for k; and a step
makes every group at least twice as large as before:

    lowest      Mondrian for k
    above       groups of fewer than 2·k, then 4·k, 8·k, … records join the group with which both lose least
    top         everybody is one group

Merging up to 2^j·k loses about as much as Mondrian for 2^j·k from the start, on Adult sometimes less. Two other ways
are monotone too. Undoing Mondrian's own cuts unites all parts of a cut for the sake of its smallest. Cutting one tree
downwards, first for a large k and then inside each group for half of it, loses several times as much at the end:
cuts that halve all records are seldom the good ones.

Sizes double, so there are at most log₂(n / k) + 2 levels, for every round costs a joint histogram. A level at which
nothing merges is left out: every step but those at the top changes the party's table, and the number of rounds follows
from its release (Algorithm 5).

Bottom-up (`ByMondrian`) starts at the lowest level, top-down (`MondrianDescent`, §7 of the paper) at one group.
Attributes may have taxonomies or be numbers without one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.anonymize.mondrian.axes import axes_of
from masquerade.anonymize.mondrian.choices import CHOICES
from masquerade.anonymize.mondrian.groups import Partition
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.anonymize.mondrian.partition import partition
from masquerade.data.column import Column, Generalised
from masquerade.engine.counts import Counts, Rows
from masquerade.engine.numbering import renumber
from masquerade.errors import ParameterError
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.protocol.dka.anonymizers import refuse_few
from masquerade.protocol.dka.merged_groups import MergedGroups


class _OnLevels:
    """Base of both directions."""

    def __init__(self, columns: Sequence[Column], n_records: int, k: int) -> None:
        refuse_few(n_records, k)
        if not columns:
            raise ParameterError("Mondrian takes at least one attribute of each party")
        self._axes = axes_of(columns)
        self._levels = levels_of(columns, n_records, k)
        self._at = 0

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, and the number of groups."""
        level = self._levels[self._at]
        numbers, found = renumber(level.labels[rows], level.cells.shape[2])
        return numbers.astype(np.int64), found.size

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""
        return tuple(column.of_rows(rows) for column in self._levels[self._at].released(self._axes))

    def _move(self, to: int) -> bool:
        if not 0 <= to < len(self._levels):
            return False
        self._at = to
        return True


class ByMondrian(_OnLevels):
    """Bottom-up: Mondrian for k, then larger groups."""

    def start(self) -> None:
        """Start at the lowest level."""
        self._at = 0

    def further(self) -> bool:
        """Go one level up. Return False at the top."""
        return self._move(self._at + 1)


class MondrianDescent(_OnLevels):
    """Top-down: from one group down to those of Mondrian for k."""

    def start(self) -> None:
        """Put all records in one group."""
        self._at = len(self._levels) - 1

    def further(self) -> bool:
        """Go one level down. Return False at the lowest."""
        return self._move(self._at - 1)

    def back(self) -> None:
        """Undo the last step."""
        self._move(self._at + 1)


def levels_of(columns: Sequence[Column], n_records: int, k: int) -> list[Partition]:
    """Return all levels, the lowest first; the groups of each are unions of those of the one before."""
    judge = Judge([KAnonymity([column.name for column in columns], k)], {}, n_records)
    lowest = partition(axes_of(columns), judge, CHOICES["certainty"], n_records, strict=False)
    levels, groups, least = [lowest], MergedGroups(columns, lowest), k
    while groups.n_groups > 1:
        least *= 2
        if groups.merge_below(least):
            levels.append(groups.partition())
    return levels
