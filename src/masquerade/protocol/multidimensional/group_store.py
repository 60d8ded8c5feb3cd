"""Where the records of a party's groups are on its engine, and which labels of a chunk are which groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masquerade.engine.chunks import Chunks, Kernel
from masquerade.engine.counts import Counts, Ints, Rows
from masquerade.protocol.multidimensional.group_kernels import places


@dataclass(eq=False)
class GroupStore:
    """Chunks with labelled groups. Those of whole groups have labels of their own each, others all the same."""

    chunks: Chunks
    whole: bool
    groups: list[Counts]  # of each chunk: the number of each label's group among the open ones, or -1
    final: list[Counts]  # of each chunk: the number of each label's group among those that are done, or -1
    before: list[Counts]  # of each chunk: how many records of each label's group come before its own
    sizes: list[Counts]  # of each chunk: its records with each label

    def run(self, made: Sequence[Kernel[Ints]]) -> list[Ints]:
        """Run a kernel on each chunk."""
        return self.chunks.each(made)

    def records(self, at: int, starts: Counts) -> Rows:
        """Return where a chunk's records go in a list of groups that start at these places; -1: not in the list."""
        groups = self.groups[at]
        there = np.append(starts, -1).take(groups)
        here = (there >= 0) & (self.sizes[at] > 0)
        return places(there[here] + self.before[at][here], self.sizes[at][here])

    def by_label(self, at: int, of_group: Counts, otherwise: int = -1) -> Counts:
        """Return for each label of a chunk what its group has."""
        found: Counts = np.append(of_group, otherwise).take(self.groups[at])
        return found
