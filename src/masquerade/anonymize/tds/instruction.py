"""A specialization: as ranks tell it to whoever holds them, and as it is sent to those who do not.

A `RankSplit` says to which child the ranks of a value go. Applied to the records that carry the value, in order, it is
an `Instruction`, which tells nothing of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from masquerade.data import ranks_of
from masquerade.engine import Chunk, Ints, Rows

Children = NDArray[np.unsignedinteger[Any]]


def child_numbers(n_children: int) -> Children:
    """Return 0, 1, … for the children of a value, in the narrowest type: they are sent, and sort faster."""
    numbers: Children = np.arange(n_children).astype(np.min_scalar_type(n_children))
    return numbers


class Split(Protocol):
    """Which records of a chunk carry a value that is specialised, and the child that each goes to."""

    @property
    def attribute(self) -> str:
        """Whose value it is."""

    @property
    def value(self) -> int:
        """Its number in the cut."""

    @property
    def n_children(self) -> int:
        """The number of children that some record goes to."""

    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        """Return the rows, None for all, and their children."""


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

    def __call__(self, chunk: Chunk) -> tuple[Rows | None, Ints]:
        """Return the rows with ranks of the value, None for all, and their children."""
        ranks, hi = chunk[ranks_of(self.attribute)], self.lo + self.child_of_rank.size
        inside = ranks < hi if self.lo == 0 else (ranks >= self.lo) & (ranks < hi)
        if inside.all():
            return None, self.children_of(ranks)
        rows = np.flatnonzero(inside)
        return rows, self.children_of(ranks.take(rows))


@dataclass(frozen=True, eq=False)
class Instruction:
    """How the records that carry one value of the cut go to its children."""

    attribute: str
    value: int  # its number in the cut
    n_children: int  # that some carrier goes to
    children: Children  # each carrier's child, in the order of the records
