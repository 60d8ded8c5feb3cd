"""What `linked_cuts.py` asks of chunks: which groups share records, and their new groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from masquerade.anonymize.chunked.top_cuts import CountRanks, Recut
from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import Counts, Flags
from masquerade.engine.sparse import SparseCounts


def value_label(name: str, *, narrowed: bool) -> str:
    """Return under which name a chunk has the number of each record's cell along the axis of this name.

    Cells that are `narrowed` from a release for the union of the QIDs stand beside others.
    """
    return f"{'narrowed' if narrowed else 'linked'} value {name}"


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
