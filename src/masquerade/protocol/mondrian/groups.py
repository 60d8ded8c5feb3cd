"""Where the records of a party's groups are, and which labels of a chunk are which groups; and the finished groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from masquerade.anonymize import Axis, Cells, released_column
from masquerade.data import Generalised
from masquerade.engine import Chunks, Counts, Ints, Rows
from masquerade.protocol.mondrian import kernels
from masquerade.protocol.mondrian.kernels import places


@dataclass(eq=False)
class GroupStore:
    """Chunks with labelled groups. Those of whole groups have labels of their own each, others all the same."""

    chunks: Chunks
    whole: bool
    everything: bool = False  # one chunk has all groups, in order
    groups: list[Counts] = field(default_factory=list)  # of each chunk: each label's open group, or -1
    final: list[Counts] = field(default_factory=list)  # of each chunk: each label's finished group, or -1
    before: list[Counts] = field(default_factory=list)  # of each chunk: records of each label's group in chunks before
    sizes: list[Counts] = field(default_factory=list)  # of each chunk: its records with each label

    @property
    def places(self) -> range:
        """The places of its chunks."""
        return range(len(self.chunks))

    @property
    def spread(self) -> Counts:
        """The open groups of which no chunk has all records."""
        if self.whole:
            return np.zeros(0, np.int64)
        return self.groups[0][self.groups[0] >= 0]

    def records(self, at: int, starts: Counts) -> Rows | slice:
        """Return where a chunk's records go in a list of groups that start at these places; -1: not in the list."""
        if self.everything:
            return slice(None)
        groups = self.groups[at]
        there = np.append(starts, -1).take(groups)
        here = (there >= 0) & (self.sizes[at] > 0)
        return places(there[here] + self.before[at][here], self.sizes[at][here])

    def by_label(self, at: int, of_group: Counts, otherwise: int = -1) -> Counts:
        """Return for each label of a chunk what its group has."""
        found: Counts = np.append(of_group, otherwise).take(self.groups[at])
        return found


@dataclass(frozen=True, eq=False)
class FinishedGroups:
    """A party's groups once none may be cut: each record's in the chunks, and each group's own cells."""

    chunks: Chunks
    axes: Sequence[Axis]
    cells: Cells

    def each_label(self) -> Iterator[Counts]:
        """Yield each record's group, chunk by chunk."""
        for at in range(len(self.chunks)):
            yield self.chunks.only(at, kernels.final_groups)

    @property
    def labels(self) -> Counts:
        """Each record's group."""
        return np.concatenate([*self.each_label()])

    def released(self) -> tuple[Generalised, ...]:
        """Return the released columns: four bytes a cell here."""
        everybody = np.arange(self.cells.shape[2])
        columns = [
            released_column(axis.column, lo, hi, everybody)
            for axis, (lo, hi) in zip(self.axes, self.cells, strict=True)
        ]
        codes: list[list[Ints]] = [[] for _ in columns]
        for labels in self.each_label() if columns else ():
            for column, found in zip(columns, codes, strict=True):
                found.append(column.codes.take(labels))
        return tuple(replace(column, codes=np.concatenate(found)) for column, found in zip(columns, codes, strict=True))
