"""Bring the records of whole groups together in chunks of their own, and send back what comes of each record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from masquerade.data.chunked_table import ChunkedTable
from masquerade.engine.chunks import Arrays, Chunk, Chunks
from masquerade.engine.counts import Counts, value_counts
from masquerade.engine.numbering import renumber

_ROW, _CHUNK = "row", "chunk"  # where each record came from


def packed(sizes: Counts, most_rows: int) -> Counts:
    """Put groups, one after the other, into bins of about `most_rows` rows; none is empty."""
    before = np.cumsum(sizes) - sizes
    bins, _ = renumber(before // max(most_rows, 1), int(before[-1]) + 1)
    return bins.astype(np.int64)


def gathered(table: ChunkedTable, label: str, bin_of_group: Counts, names: Sequence[str]) -> Chunks:
    """Return a chunk for each bin, with these arrays of the records of its groups; records in bin -1 stay out.

    `label` is the array with each record's group.
    """
    n_bins = int(bin_of_group.max()) + 1
    kernels = [_Send(at, label, bin_of_group, n_bins, tuple(names)) for at in range(len(table.chunks))]
    return table.chunks.exchange(kernels, n_bins)


def sent_back(
    table: ChunkedTable, groups: Chunks, firsts: Sequence[Sequence[int]], names: Sequence[str]
) -> Chunks:
    """Return the numbers that gathered records got, as arrays of these names, chunk by chunk of the table.

    `firsts` has for each gathered chunk, by name, what is added to its numbers.
    """
    kernels = [_SendBack(dict(zip(names, each, strict=True)), len(table.chunks)) for each in firsts]
    return groups.exchange(kernels, len(table.chunks))


def placed(table: ChunkedTable, back: Chunks, others: Callable[[Chunk], Arrays]) -> None:
    """Put the numbers that came back beside their records; `others` gives the arrays for all other records."""
    table.chunks.join(back, _Place(others))


@dataclass(frozen=True, eq=False)
class _Send:
    """Sends the records of each group to the chunk that will hold all of it."""

    at: int
    label: str
    bin_of_group: Counts
    n_bins: int
    names: tuple[str, ...]

    def __call__(self, chunk: Chunk) -> list[Arrays]:
        bins = self.bin_of_group.take(chunk[self.label])
        order = np.argsort(bins, kind="stable")
        ends = np.cumsum(value_counts(bins + 1, self.n_bins + 1))
        pieces = []
        for first, last in pairwise(ends):
            rows = order[first:last]
            piece = {name: chunk[name].take(rows) for name in self.names}
            piece[_ROW] = rows.astype(np.int32)
            piece[_CHUNK] = np.full(rows.size, self.at, np.int32)
            pieces.append(piece)
        return pieces


@dataclass(frozen=True)
class _SendBack:
    """Sends the numbers of each record to where the record came from."""

    firsts: dict[str, int]
    n_chunks: int

    def __call__(self, chunk: Chunk) -> list[Arrays]:
        source = chunk[_CHUNK]
        order = np.argsort(source, kind="stable")
        ends = np.concatenate([[0], np.cumsum(value_counts(source, self.n_chunks))])
        numbers = {name: chunk[name] + np.int32(first) for name, first in self.firsts.items()}
        return [
            {
                _ROW: chunk[_ROW].take(order[first:last]),
                **{name: each.take(order[first:last]) for name, each in numbers.items()},
            }
            for first, last in pairwise(ends)
        ]


@dataclass(frozen=True, eq=False)
class _Place:
    others: Callable[[Chunk], Arrays]

    def __call__(self, chunk: Chunk, back: Chunk) -> Arrays:
        arrays = self.others(chunk)
        for name, numbers in arrays.items():
            numbers[back[_ROW]] = back[name]
        return arrays
