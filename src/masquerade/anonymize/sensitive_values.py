"""How often each sensitive value occurred before rows were suppressed.

The difference from the release is what the suppressed rows have. So it is shown only where those rows, taken as one
group, satisfy every requirement themselves: then it shows no more of them than a group of the release shows of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from masquerade.data.column import Coded
from masquerade.data.records import Records, with_products
from masquerade.engine.counts import Counts
from masquerade.privacy.requirement import GroupRequirement, Requirement
from masquerade.utility.comparison import Comparison

CountsBefore = Mapping[str, Mapping[str, int]]  # by column and value


def counts_before(
    records: Records, comparison: Comparison, requirement: Requirement, names: Iterable[str]
) -> CountsBefore:
    """Count the values of these columns over all complete rows; nothing where they may not be shown or add nothing."""
    if not comparison.suppressed:
        return {}
    # Products are numbered as when the method ran.
    records = with_products(records, (part.sensitive for part in requirement.parts))
    if not all(_satisfied(records, comparison, part) for part in requirement.parts):
        return {}
    return {
        name: dict(zip(records.coded[name].labels, records.whole[name][0].tolist(), strict=True))
        for name in names
    }


def _satisfied(records: Records, comparison: Comparison, part: GroupRequirement) -> bool:
    """Return whether the suppressed rows satisfy the requirement as a group of their own."""
    if part.sensitive is None:
        rest: Counts = np.array([[comparison.suppressed]], np.int64)
        return bool(part.holds(rest, np.array([[len(records)]], np.int64))[0])
    coded = _with_codes(records, part.sensitive)
    whole = records.whole[part.sensitive]
    rest = whole - comparison.value_counts([coded])[0].reshape(1, -1)
    return bool(part.holds(rest, whole, coded.labels)[0])


def _with_codes(records: Records, name: str) -> Coded:
    return records.coded[name] if records.table is None else records.table.coded(name)
