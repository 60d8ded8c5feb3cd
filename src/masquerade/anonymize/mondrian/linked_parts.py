"""Which cuts of linked records are allowed, and which of their slots stay together: `cuts.py` for several QIDs.

A part is judged by all groups that it makes, of each QID with the attribute; what they are is known to whoever has the
records, or their counts. So here parts are labels of slots, and `Satisfied` says which labels are good.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from masquerade.anonymize.mondrian.axes import Slots
from masquerade.anonymize.mondrian.judge import Histograms, Judge
from masquerade.engine.counts import Counts, Flags, value_counts

Test = Callable[[Judge, Histograms], Flags]
# Of the label of each slot (-1 for none), how many labels there are, and a test: the labels all of whose groups pass.
Satisfied = Callable[[Counts, int, Test], Flags]


def judged_slots(
    slots: Slots, sizes: Counts, satisfied: Satisfied, *, by_size: bool, strict: bool
) -> tuple[Counts, Flags]:
    """Return the part that each slot would become, and which linked records may be cut; `sizes` are the slots'."""
    every = np.arange(slots.n_slots)
    if strict:
        return every, _all_hold(slots, every, satisfied)
    part, allowed = _keep_together(slots, sizes, satisfied)
    if by_size:
        allowed = allowed & _all_hold(slots, part, satisfied)
    return part, allowed


def _all_hold(slots: Slots, part_of_slot: Counts, satisfied: Satisfied) -> Flags:
    """Return of which linked records all parts satisfy; parts are numbered as the slots."""
    good = satisfied(part_of_slot, slots.n_slots, Judge.holds)
    all_hold: Flags = value_counts(slots.groups[~good], slots.n_groups) == 0
    return all_hold


def _keep_together(slots: Slots, sizes: Counts, satisfied: Satisfied) -> tuple[Counts, Flags]:
    """Return the part of each slot when those that cannot be cut off stay together, and where that is enough."""
    n_slots, n_groups, group = slots.n_slots, slots.n_groups, slots.groups
    part = np.arange(n_slots)
    good = satisfied(part, n_slots, Judge.can_be_cut_off)
    good_slots = np.flatnonzero(good & (sizes > 0))
    n_good = value_counts(group[good_slots], n_groups)
    allowed = value_counts(group[~good], n_groups) == 0
    mixed = ~allowed & (n_good > 0)
    if not mixed.any():
        return part, allowed
    stays = ~good & mixed[group]

    def rests_hold() -> Flags:
        return satisfied(np.where(stays, group, -1), n_groups, Judge.can_be_cut_off)

    fine = rests_hold()
    needy = mixed & ~fine & (n_good > 1)
    if needy.any():
        ordered = good_slots[np.lexsort((good_slots, sizes[good_slots], group[good_slots]))]
        smallest = ordered[np.diff(group[ordered], prepend=-1) > 0]
        stays[smallest[needy[group[smallest]]]] = True
        fine = rests_hold()
    allowed |= mixed & fine
    staying = np.flatnonzero(stays & allowed[group])
    first = np.zeros(n_groups, np.int64)
    first[group[staying][::-1]] = staying[::-1]
    part[staying] = first[group[staying]]
    return part, allowed
