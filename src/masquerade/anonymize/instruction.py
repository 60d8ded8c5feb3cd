"""A specialization: as ranks tell it to whoever holds them, and as it is sent to those who do not.

A `RankSplit` says to which child the ranks of a value go. Applied to the records that carry the value, in order, it is
an `Instruction`, which tells nothing of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Ints, Rows, value_counts
from masquerade.engine.numbering import rows_by_rank

Children = NDArray[np.unsignedinteger[Any]]

_FEW = 8  # up to this many children, searching for each in turn is faster than sorting


def child_numbers(n_children: int) -> Children:
    """Return 0, 1, … for the children of a value, in the narrowest type: they are sent, and sort faster."""
    numbers: Children = np.arange(n_children).astype(np.min_scalar_type(n_children))
    return numbers


def places_by_child(children: Children, n_children: int) -> list[Rows]:
    """Return, for each child, its positions in an instruction, in order."""
    if n_children <= _FEW:
        return [np.flatnonzero(children == child) for child in range(n_children)]
    ends = np.cumsum(value_counts(children, n_children))[:-1]
    return np.split(rows_by_rank(children, n_children), ends)


@dataclass(frozen=True, eq=False)
class RankSplit:
    """How the ranks `[lo, hi)` of one value of the cut go to its children."""

    attribute: str
    value: int  # its number in the cut
    n_children: int  # that records have
    lo: int
    child_of_rank: Children  # for each rank from `lo`

    def children_of(self, ranks: Ints) -> Children:
        """Return the child of each of these ranks, all of which are the value's."""
        return self.child_of_rank.take(ranks - self.lo if self.lo else ranks)


@dataclass(frozen=True, eq=False)
class Instruction:
    """How the records that carry one value of the cut go to its children."""

    attribute: str
    value: int  # its number in the cut
    n_children: int  # that some carrier goes to
    children: Children  # each carrier's child, in the order of the records
