"""A specialization as it is sent: for each record that carries the value, in order, the number of its child."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.counts import Rows, value_counts
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
class Instruction:
    """How the records that carry one value of the cut go to its children."""

    attribute: str
    value: int  # its number in the cut
    n_children: int  # that some carrier goes to
    children: Children  # each carrier's child, in the order of the records
