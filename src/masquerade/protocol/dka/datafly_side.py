"""One party's own work in DkA-Datafly (Algorithm 6): everything between two tests, without the other parties.

The remaining records get more general from round to round; those that passed keep their values. Fewer than k that are
left at the end are suppressed, and so is a last group that fails though nobody can generalise it further, as may happen
where more than its size matters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.anonymize.bottom_up import BottomUpColumns
from masquerade.data.column import Column, Generalised
from masquerade.engine.counts import Rows
from masquerade.errors import Bug
from masquerade.protocol.dka.anonymizers import refuse_few
from masquerade.protocol.dka.groups import Labels, labels_of, most_groups
from masquerade.protocol.dka.side import Opened, Opening


class DataflySide:
    """The columns of one party over the common records, as general as the rounds so far have made them."""

    def __init__(self, columns: Sequence[Column], n_records: int, k: int, *, only_sizes: bool = True) -> None:
        refuse_few(n_records, k)
        self.k, self.n_records = k, n_records
        self.bound = most_groups(n_records, k)  # of the first round, in every round
        self.round = 0
        self.generalised = BottomUpColumns(columns)
        self.left: Rows = np.arange(n_records)
        self._passed = np.zeros(n_records, bool)
        self.opens: Opening = "each"
        self.stuck = self._ended = False
        self._only_sizes = only_sizes
        self._generalise_locally()

    def _generalise_locally(self) -> None:
        """Run Datafly on the own columns alone: records in a group of k are not generalised further (step 1)."""
        rest = self.left
        while rest.size >= self.k:
            rest = rest[labels_of(self.generalised, rest, self.k, self.bound) == self.bound]
            if rest.size < self.k or self.generalised.climb(rest) is None:
                break

    @property
    def over(self) -> bool:
        """Whether too few records are left for another round (step 12), or none that can still pass."""
        return self._ended or self.left.size < self.k

    def labels(self) -> Labels:
        """Return the own groups of the remaining records (step 6)."""
        return labels_of(self.generalised, self.left, self.k, self.bound)

    def hear(self, opened: Opened) -> None:
        """Remove the records that pass (step 10), and generalise the others one step (step 11).

        Records that one k cannot be reached for are fewer than k. Where more matters, the parties ask for the end.
        """
        if self.opens == "end":
            self._ended, self.opens = bool(opened.all()), "each"
            return
        if opened.shape != self.left.shape:
            raise Bug(f"{opened.size} answers for {self.left.size} records")
        self.round += 1
        self._passed[self.left[opened]] = True
        self.left = self.left[~opened]
        if not self.over:
            self.stuck = self.generalised.climb(self.left) is None
            self.opens = "each" if self._only_sizes else "end"

    @property
    def passed(self) -> Rows:
        """The records that are released, in the common order."""
        return np.flatnonzero(self._passed)

    def released(self) -> tuple[Generalised, ...]:
        """Return the columns of the released records."""
        return self.generalised.released(self.passed)
