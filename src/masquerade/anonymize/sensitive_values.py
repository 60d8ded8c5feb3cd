"""How often each sensitive value occurred before rows were suppressed.

The difference from the release is what the suppressed rows have. So it is shown only where those rows, taken as one
group, satisfy every requirement themselves: then it shows no more of them than a group of the release shows of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Coded
from masquerade.data.table import Table
from masquerade.engine.counts import Counts, value_counts
from masquerade.privacy.requirement import GroupRequirement, Requirement

CountsBefore = Mapping[str, Mapping[str, int]]  # by column and value


def counts_before(
    table: Table, kept: NDArray[np.intp] | None, requirement: Requirement, names: Iterable[str]
) -> CountsBefore:
    """Count the values of these columns over all complete rows; nothing where they may not be shown or add nothing."""
    if kept is None or kept.size == len(table) or not _may_be_told(table, kept, requirement):
        return {}
    return {name: _counted(table.coded(name)) for name in names}


def _may_be_told(table: Table, kept: NDArray[np.intp], requirement: Requirement) -> bool:
    return all(_satisfied(table, kept, part) for part in requirement.parts)


def _satisfied(table: Table, kept: NDArray[np.intp], part: GroupRequirement) -> bool:
    """Return whether the suppressed rows satisfy the requirement as a group of their own."""
    if part.sensitive is None:
        rest: Counts = np.array([[len(table) - kept.size]], np.int64)
        return bool(part.holds(rest, np.array([[len(table)]], np.int64))[0])
    coded = table.coded(part.sensitive)
    whole = coded.histogram()
    rest = whole - value_counts(coded.codes.take(kept), len(coded.labels)).reshape(1, -1)
    return bool(part.holds(rest, whole, coded.labels)[0])


def _counted(coded: Coded) -> dict[str, int]:
    return dict(zip(coded.labels, coded.histogram()[0].tolist(), strict=True))
