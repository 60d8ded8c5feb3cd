"""One party's own work in DkA, between two tests: what the rounds ask of it, and the framework's two forms of it.

    side            a test opens                                 after it
    `DataflySide`   for each record whether its group is good    who passed leaves; the others climb (`datafly_side.py`)
    `BottomUpSide`  whether all records' groups are              if not, everybody goes one step further (Algorithm 4)
    `TopDownSide`   the same                                     as long as they are, one step down; else back (§7)

What was opened is all that a side ever hears, so that hearing the same again leads to where it was.
"""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from masquerade.data.column import Generalised
from masquerade.engine.counts import Rows
from masquerade.errors import Bug
from masquerade.protocol.dka.anonymizers import LocalAnonymizer, TopDownAnonymizer
from masquerade.protocol.dka.groups import Labels, labels_of, most_groups

Opened = NDArray[np.bool_]
Opening = Literal["each", "all", "end"]  # a bit a record; whether all pass; whether nobody has a further step


class Tested(Protocol):
    """One party's groups of the common records, as a joint test looks at them."""

    @property
    def k(self) -> int:
        """The least size of a joint group."""

    @property
    def bound(self) -> int:
        """The public bound on the number of own groups, and the label of records that cannot pass."""

    @property
    def left(self) -> Rows:
        """The records that are still tested."""

    def labels(self) -> Labels:
        """Return the own groups of the remaining records."""


class Side(Tested, Protocol):
    """One party's columns over the common records, as general as the rounds so far have made them."""

    @property
    def round(self) -> int:
        """How many rounds are over; top-down, how many have passed."""

    @property
    def over(self) -> bool:
        """Whether no more rounds are played."""

    @property
    def opens(self) -> Opening:
        """What is opened next."""

    @property
    def stuck(self) -> bool:
        """Whether this party had no further step."""

    def hear(self, opened: Opened) -> None:
        """Take in what was opened: one bit, or where `opens` is "each" one a remaining record."""

    @property
    def passed(self) -> Rows:
        """The records that are released, in the common order."""

    def released(self) -> tuple[Generalised, ...]:
        """Return the columns of the released records."""


class _FrameworkSide:
    """Base of both directions: all records are tested in every round, and all are released."""

    def __init__(self, own: LocalAnonymizer, n_records: int, k: int) -> None:
        self.k, self.bound = k, most_groups(n_records, k)
        self.left: Rows = np.arange(n_records)
        self.round, self.over, self.stuck = 0, False, False
        self.opens: Opening = "all"
        self._anonymizer = own
        own.start()

    def labels(self) -> Labels:
        """Return the own groups of all records."""
        return labels_of(self._anonymizer, self.left, self.k, self.bound)

    @property
    def passed(self) -> Rows:
        """All records."""
        return self.left

    def released(self) -> tuple[Generalised, ...]:
        """Return all records' columns, as general as they are now."""
        return self._anonymizer.released(self.left)


class BottomUpSide(_FrameworkSide):
    """More general from round to round, until all pass; at the top of all taxonomies they do."""

    def hear(self, opened: Opened) -> None:
        """Go one step further unless all records passed."""
        self.round += 1
        self.over = _only(opened)
        if not self.over:
            self._anonymizer.further()


class TopDownSide(_FrameworkSide):
    """More specific from round to round, until a test fails or nobody has a finer step."""

    def __init__(self, own: TopDownAnonymizer, n_records: int, k: int) -> None:
        super().__init__(own, n_records, k)
        self._own = own

    def hear(self, opened: Opened) -> None:
        """Go one step down after a test that passed; undo the step that a failed one was about."""
        if self.opens == "end":
            self.over, self.opens = _only(opened), "all"
        elif _only(opened):
            self.round += 1
            self.stuck, self.opens = not self._own.further(), "end"
        else:
            if not self.stuck and self.round:
                self._own.back()
            self.over = True


def _only(opened: Opened) -> bool:
    if opened.shape != (1,):
        raise Bug(f"{opened.size} answers to one question")
    return bool(opened[0])
