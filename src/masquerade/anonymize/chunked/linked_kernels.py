"""What `linked_cuts.py` asks of chunks: which groups share records, their new groups, and to cut whole islands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.chunked.multidimensional import Dimensions, JudgeOf
from masquerade.anonymize.chunked.top_cuts import CountRanks, Recut
from masquerade.anonymize.mondrian.axes import Axis
from masquerade.anonymize.mondrian.linked_qids import LinkedGroups, cut_all
from masquerade.anonymize.mondrian.partition import Choice
from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import Counts, Flags
from masquerade.engine.numbering import renumber
from masquerade.engine.sparse import SparseCounts


def value_label(axis: Axis, *, narrowed: bool) -> str:
    """Return under which name a chunk has the number of each record's cell along an axis.

    Cells that are `narrowed` from a release for the union of the QIDs stand beside others.
    """
    return f"{'narrowed' if narrowed else 'linked'} value {axis.name}"


@dataclass(frozen=True, eq=False)
class CountPairs:
    """Counts the records that groups of two QIDs share, of those whose group of the first QID is flagged."""

    first: str
    flagged: Flags
    pairs: tuple[tuple[str, int, str, int], ...]  # two arrays with groups, and how many groups there are

    def __call__(self, chunk: Chunk) -> tuple[SparseCounts, ...]:
        """Return the counts of each two QIDs."""
        rows = np.flatnonzero(self.flagged.take(chunk[self.first]))
        return tuple(
            SparseCounts.of(
                chunk[one].take(rows).astype(np.int64) * n_others + chunk[other].take(rows), n_ones * n_others
            )
            for one, n_ones, other, n_others in self.pairs
        )


@dataclass(frozen=True, eq=False)
class CountAll:
    """Counts several things at once."""

    kernels: tuple[CountRanks, ...]

    def __call__(self, chunk: Chunk) -> tuple[tuple[tuple[SparseCounts, ...], ...], ...]:
        """Return all counts."""
        return tuple(kernel(chunk) for kernel in self.kernels)


@dataclass(frozen=True, eq=False)
class RecutAll:
    """Cuts the groups of several QIDs at once."""

    kernels: tuple[Recut, ...]

    def __call__(self, chunk: Chunk) -> Arrays:
        """Return the new groups of a chunk's records."""
        return {name: array for kernel in self.kernels for name, array in kernel(chunk).items()}


@dataclass(frozen=True, eq=False)
class NumberGroups:
    """Gives each record numbers by its groups: the array with those, the array to make, the number of each group."""

    tables: tuple[tuple[str, str, Counts], ...]

    def __call__(self, chunk: Chunk) -> Arrays:
        """Return the numbers of a chunk's records."""
        return {name: number.take(chunk[label]).astype(np.int32) for label, name, number in self.tables}


@dataclass(frozen=True)
class KeepArrays:
    """The arrays of these names, to be changed."""

    names: tuple[str, ...]

    def __call__(self, chunk: Chunk) -> Arrays:
        """Return copies of the arrays."""
        return {name: np.array(chunk[name]) for name in self.names}


@dataclass(frozen=True, eq=False)
class CutIslands:
    """Cuts whole islands as on one table; a chunk then has the number of each record's cells, and the cells."""

    dimensions: Dimensions
    qids: tuple[tuple[frozenset[str], str, dict[int, Counts], int], ...]
    judges: dict[frozenset[str], JudgeOf]
    choice: Choice
    strict: bool
    way: int
    narrowed: bool

    def __call__(self, chunk: Chunk) -> Arrays:
        """Cut a chunk's records."""
        dimensions = self.dimensions.here(chunk)
        axes, first = dimensions.axes(), dimensions.first()
        starts, cells = {}, {}
        for names, label, own, n_groups in self.qids:
            numbers, found = renumber(chunk[label], n_groups)
            starts[names] = numbers.astype(np.int64), found.size
            cells.update({at: each[:, chunk[label]] for at, each in own.items()})
        groups = LinkedGroups(
            [axis.name for axis in axes],
            dict(enumerate(axes)),
            {names: judge.made(chunk) for names, judge in self.judges.items()},
            self.choice,
            int(chunk[self.qids[0][1]].size),
            self.strict,
            starts,
            cells,
        )
        for way in ([first, axes] if first else [axes])[self.way :]:
            cut_all(groups, way)
        made: dict[str, NDArray[np.int64] | NDArray[np.int32]] = {}
        for at, column in enumerate(groups.released()):
            made[value_label(axes[at], narrowed=self.narrowed)] = column.codes
            made[_cells(at)] = np.stack([column.lo, column.hi])
        return made


def _cells(at: int) -> str:
    return f"linked cells {at}"


@dataclass(frozen=True)
class IslandCells:
    """The cells that were made along each dimension."""

    n_axes: int

    def __call__(self, chunk: Chunk) -> list[Counts]:
        """Return the cells, as two rows for each dimension."""
        return [np.array(chunk[_cells(at)]) for at in range(self.n_axes)]
