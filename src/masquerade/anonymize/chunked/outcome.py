"""What a method made of a table in chunks: the released values, and how a chunk finds those of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.outcome import Choice, Step
from masquerade.data.column import Generalised
from masquerade.data.records import Records, ranks_of
from masquerade.engine.chunks import Chunk, Chunks
from masquerade.engine.counts import Ints, Rows


@dataclass(frozen=True, eq=False)
class ReleasedCodes:
    """The code of each row's released value: of its rank where a column is generalised as a whole, else its own."""

    name: str  # of the array that is looked up
    code_of_rank: NDArray[Any] | None = None

    def __call__(self, chunk: Chunk) -> Ints:
        """Return the codes of all rows of a chunk."""
        found = chunk[self.name]
        return found if self.code_of_rank is None else self.code_of_rank.take(found)


@dataclass(frozen=True, eq=False)
class ChunkedOutcome:
    """The released columns of the quasi-identifiers, without their codes, and the steps that led to them."""

    columns: tuple[Generalised, ...]
    codes: Mapping[str, ReleasedCodes]  # by column
    steps: tuple[Step, ...] = ()
    released: str | None = None  # the array in which rows that are left out have a 0; None where none is
    chunks: Chunks | None = None  # the records that it is about; None for all of the table's
    choice: Choice | None = None  # where the method is the best of several

    def rows(self, chunk: Chunk) -> Rows | None:
        """Return the released rows of a chunk; None for all."""
        return None if self.released is None else np.flatnonzero(chunk[self.released])

    def beside(self, table: Records) -> tuple[Records, ChunkedOutcome]:
        """Return the table whose chunks have just the records of this outcome, and an outcome that kernels can take.

        The table still counts all records: those that are not in its chunks are suppressed.
        """
        if self.chunks is None:
            return table, self
        return replace(table, chunks=self.chunks), replace(self, chunks=None)


def by_cut(column: Generalised) -> ReleasedCodes:
    """Return the codes of a column that is generalised as a whole."""
    lengths = column.hi - column.lo
    width = np.min_scalar_type(max(len(column.labels) - 1, 0))
    return ReleasedCodes(ranks_of(column.name), np.repeat(np.arange(lengths.size), lengths).astype(width))
