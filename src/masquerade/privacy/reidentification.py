"""The chance of finding a person's record in a release, for somebody who knows that person's quasi-identifiers.

All records of a group look alike, so it is 1 / size of the group (the prosecutor's risk of disclosure control).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from masquerade.engine.counts import Counts


@dataclass(frozen=True)
class ReidentificationRisk:
    """The chance of finding a record: of those in the smallest group, and the mean over all; 0 of an empty release."""

    highest: float
    mean: float  # the share of its records that somebody who guesses one in each group finds
    unique: int  # records that are alone in their group

    def summary(self) -> dict[str, float | int]:
        """Return the entry of a JSON summary."""
        return asdict(self)


def reidentification_risk(group_sizes: Counts) -> ReidentificationRisk:
    """Return the risk of a release with groups of these sizes, over the attributes of all QIDs together."""
    if not group_sizes.size:
        return ReidentificationRisk(0.0, 0.0, 0)
    return ReidentificationRisk(
        1 / int(group_sizes.min()),
        group_sizes.size / int(group_sizes.sum()),
        int(np.count_nonzero(group_sizes == 1)),
    )
