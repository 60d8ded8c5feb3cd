"""The groups of one QID when some records may be left out of the release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.instruction import Instruction
from masquerade.anonymize.partition import Partition
from masquerade.data.column import Coded
from masquerade.engine.counts import Counts, Rows, weighted_counts
from masquerade.privacy.requirement import GroupRequirement


class TolerantPartition(Partition):
    """The groups of one QID when some records may be left out of the release: those whose group violates.

    The requirements are hereditary: every part of a violating group violates. So a record that is left out
    stays left out, and such records need not be distinguished any more: all of them are in group 0, and
    the other groups satisfy.
    """

    def __init__(
        self,
        qid: Sequence[str],
        requirements: Sequence[GroupRequirement],
        sensitive: Mapping[str, Coded],
        n_rows: int,
        may_suppress: int,
    ) -> None:
        super().__init__(qid, requirements, sensitive, n_rows)
        self.may_suppress = may_suppress
        self.labels = np.ones(n_rows, np.int64)
        self.sizes = np.array([0, n_rows])
        self._judged: tuple[Instruction, _Parts] | None = None  # the last one, which is often asked for again

    def allows(self, carriers: Rows | None, instruction: Instruction) -> bool:
        """Return whether the records in violating groups would stay within the allowance."""
        return int(self.sizes[0]) + self.leaves_out(carriers, instruction) <= self.may_suppress

    def leaves_out(self, carriers: Rows | None, instruction: Instruction) -> int:
        """Return how many more records the instruction would leave out."""
        parts = self._parts(carriers, instruction)
        return int(parts.sizes[parts.violating].sum())

    def split(self, carriers: Rows | None, instruction: Instruction) -> None:
        """Split off the satisfying parts: the first of a group keeps its number, the others get new ones."""
        parts = self._parts(carriers, instruction)
        self._judged = None
        groups = parts.occurring // instruction.n_children
        satisfying = np.flatnonzero((groups > 0) & ~parts.violating)
        further = satisfying[np.diff(groups[satisfying], prepend=0) == 0]
        numbers = np.where(parts.violating, 0, groups)
        numbers[further] = np.arange(self.sizes.size, self.sizes.size + further.size)
        self.relabel(carriers, instruction, parts.occurring, numbers)
        n_groups = self.sizes.size + further.size
        left = np.append(self.sizes, np.zeros(further.size, np.int64))
        left -= weighted_counts(groups, parts.sizes, n_groups).astype(np.int64)
        self.sizes = left + weighted_counts(numbers, parts.sizes, n_groups).astype(np.int64)

    def _parts(self, carriers: Rows | None, instruction: Instruction) -> _Parts:
        if self._judged is not None and self._judged[0] is instruction:
            return self._judged[1]
        found, sizes = self.parts(carriers, instruction)
        violating = np.zeros(found.size, bool)
        for requirement in self.requirements:
            violating |= ~self._satisfied(requirement, carriers, instruction)
        violating &= found >= instruction.n_children  # what is in group 0 was left out before
        parts = _Parts(found, sizes, violating)
        self._judged = instruction, parts
        return parts


@dataclass(frozen=True, eq=False)
class _Parts:
    """The groups after an instruction: the (group, child) pairs that have records."""

    occurring: Counts  # the pairs that some carrier has, in order
    sizes: Counts  # how many have each of them
    violating: NDArray[np.bool_]  # those newly left out
