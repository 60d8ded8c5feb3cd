"""Mondrian's finished groups where each record's group stays on a party's engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from masquerade.anonymize.mondrian.axes import Axis
from masquerade.anonymize.mondrian.groups import Cells, released_column
from masquerade.data.column import Generalised
from masquerade.engine.chunks import Chunks
from masquerade.engine.counts import Counts, Ints
from masquerade.protocol.multidimensional import group_kernels as kernels


@dataclass(frozen=True, eq=False)
class EnginePartition:
    """The finished groups, each record's on the engine."""

    chunks: Chunks
    cells: Cells

    def partition(self, _axes: Sequence[Axis]) -> EnginePartition:
        """Return the groups, which have all that they need: of groups in one memory the axes make them."""
        return self

    def each_label(self) -> Iterator[Counts]:
        """Yield each record's group, chunk by chunk."""
        for at in range(len(self.chunks)):
            yield self.chunks.only(at, kernels.final_groups)

    def released(self, axes: Sequence[Axis]) -> tuple[Generalised, ...]:
        """Return the released columns: four bytes a cell here."""
        everybody = np.arange(self.cells.shape[2])
        columns = [
            released_column(axis.column, lo, hi, everybody)
            for axis, (lo, hi) in zip(axes, self.cells, strict=True)
        ]
        codes: list[list[Ints]] = [[] for _ in columns]
        for labels in self.each_label() if columns else ():
            for column, found in zip(columns, codes, strict=True):
                found.append(column.codes.take(labels))
        return tuple(
            replace(column, codes=np.concatenate(found)) for column, found in zip(columns, codes, strict=True)
        )
