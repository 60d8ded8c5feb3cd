"""Groups of records with their cells: those that may be cut further, those that are done, and their release."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.mondrian.axes import Axis, Batch, ContinuousAxis, TaxonomyAxis
from masquerade.anonymize.mondrian.tally import Tally
from masquerade.data.column import Column, Generalised
from masquerade.engine.counts import Counts, Flags, renumber

Cells = NDArray[np.int64]  # dimension × (lo, hi) × group


@dataclass(frozen=True, eq=False)
class Open:
    """Groups that may be cut further, and their tally while it saves work.

    Cells along taxonomies are not updated on a cut; they are narrowed at the end. `parted` says which part of which
    cut along a dimension that is not released each group is in (`hidden_cuts`); 0 is none.
    """

    batch: Batch
    cells: Cells
    parted: Counts
    tally: Tally | None = None

    def only(self, groups: Flags) -> Open:
        """Return the flagged groups."""
        if groups.all():
            return self
        tally = None if self.tally is None else self.tally.only(groups)
        return Open(self.batch.only(groups), self.cells[:, :, groups], self.parted[groups], tally)

    def halves(self) -> list[Open]:
        """Split into two batches with about equally many rows, each with at least one group."""
        batch, tally = self.batch, self.tally
        ends = np.cumsum(batch.sizes)
        middle = int(np.clip(np.searchsorted(ends, batch.rows.size // 2), 1, batch.n_groups - 1))
        return [
            Open(
                Batch(batch.rows[rows], batch.sizes[groups]),
                self.cells[:, :, groups],
                self.parted[groups],
                None if tally is None else tally.only(groups),
            )
            for rows, groups in (
                (slice(int(ends[middle - 1])), slice(middle)),
                (slice(int(ends[middle - 1]), None), slice(middle, None)),
            )
        ]


class Done:
    """Groups that cannot be cut any further."""

    def __init__(self, n_rows: int, groups: Sequence[Open] = ()) -> None:
        self._n_rows = n_rows
        self._groups = list(groups)

    def add(self, groups: Open) -> None:
        """Append these groups."""
        self._groups.append(replace(groups, tally=None))

    def only(self, groups: Flags) -> Done:
        """Return the flagged groups, in the order in which they were added."""
        kept, first = [], 0
        for each in self._groups:
            flags = groups[first : first + each.batch.n_groups]
            first += each.batch.n_groups
            kept += [each.only(flags)] if flags.any() else []
        return Done(self._n_rows, kept)

    @property
    def groups(self) -> list[Open]:
        """The groups, to be cut further in another way."""
        return list(self._groups)

    @property
    def sizes(self) -> Counts:
        """The records of each group."""
        return np.concatenate([each.batch.sizes for each in self._groups])

    @property
    def parted(self) -> Counts:
        """Which part of which hidden cut each group is in."""
        return np.concatenate([each.parted for each in self._groups])

    def partition(self, axes: Sequence[Axis]) -> Partition:
        """Return all groups, with cells along taxonomies as narrow as the groups' values allow, and between edges."""
        batches = [each.batch for each in self._groups]
        batch = Batch(
            np.concatenate([each.rows for each in batches]), np.concatenate([each.sizes for each in batches])
        )
        cells = np.concatenate([each.cells for each in self._groups], axis=2)
        for axis, cell in zip(axes, cells, strict=True):
            if isinstance(axis, TaxonomyAxis):
                view = axis.look(batch)
                cell[:] = view.lo, view.hi
            elif isinstance(axis, ContinuousAxis) and axis.edges.size:
                cell[:] = axis.between_edges(cell[0], cell[1], axis.look(batch))
        labels = np.empty(self._n_rows, np.int64)
        labels[batch.rows] = np.repeat(np.arange(batch.n_groups), batch.sizes)
        return Partition(labels, cells)


@dataclass(frozen=True, eq=False)
class Partition:
    """The finished groups: each row's group, and each group's ranks `[lo, hi)` along each dimension."""

    labels: Counts
    cells: Cells

    def each_label(self) -> Iterator[Counts]:
        """Yield each row's group, some rows at a time."""
        yield self.labels

    def released(self, axes: Sequence[Axis]) -> tuple[Generalised, ...]:
        """Return the released columns."""
        return tuple(
            released_column(axis.column, lo, hi, self.labels)
            for axis, (lo, hi) in zip(axes, self.cells, strict=True)
            if axis.released
        )


def released_column(column: Column, lo: Counts, hi: Counts, labels: Counts) -> Generalised:
    """Return a released column: each row's label is the index of its cell in `lo` and `hi`."""
    domain = column.domain
    width = domain.size + 1
    codes, found = renumber(lo * width + hi, width * width)
    starts, ends = found // width, found % width
    names = tuple(domain.label(int(lo), int(hi)) for lo, hi in zip(starts, ends, strict=True))
    return Generalised(column.name, codes.astype(np.int32).take(labels), names, starts, ends, domain)
