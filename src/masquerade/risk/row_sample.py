"""A uniform sample of rows in one pass, and pairs of rows drawn from it.

Every row gets a random number, and the rows with the smallest numbers are the sample, in the order of their numbers:
uniform, without replacement, in random order. How many are needed may depend on the number of rows, which a stream
tells only at its end; so a row is held while its number is below what the sample of the rows so far needs, and a little
more. The share needed only falls as rows come, hence no row is let go that would be needed later (but for a chance of
less than one in a million that the margin is too small; then the sample is one or a few rows short).

**Pairs** of different rows, independent of each other, need rows drawn again and again. Which of these draws coincide
does not depend on which rows they are: draw positions, and give each position that occurs one row of the sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.table import Table
from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import Rows
from masquerade.engine.numbering import distinct_values
from masquerade.risk.separation import BYTES_PER_PICKED_CELL, CodedRows, picked_rows

SampleSize = Callable[[int], int]  # of the number of rows; its share of them must not grow with them

HELD_BYTES = 1 << 28  # as long as all rows take no more than this, all are held
_MARGIN = 6.0  # standard deviations


class RowSample:
    """Takes rows as they come, and holds those that the sample may need."""

    def __init__(
        self, size: SampleSize, seed: int, held_bytes: int = HELD_BYTES, expected: int | None = None
    ) -> None:
        """Prepare to take rows; `expected` is how many will come, if it is known: then nothing is held in vain."""
        self._size, self._held_bytes, self._expected = size, held_bytes, expected or 0
        self._random = np.random.default_rng(seed)
        self._tables: list[pa.Table] = []
        self._numbers: list[NDArray[np.float64]] = []
        self.rows = 0  # that have come
        self._bytes, self._whole = 0, True

    def add(self, batch: pa.Table) -> None:
        """Take the next rows."""
        if not batch.num_rows:
            return
        if not self.rows and self._expected:
            self._whole = batch.nbytes * self._expected <= self._held_bytes * batch.num_rows
        self.rows += batch.num_rows
        if not self._whole:
            kept, numbers = _below(self._bound(), batch, self._random.random(batch.num_rows))
            self._tables.append(kept)
            self._numbers.append(numbers)
            if sum(map(len, self._numbers)) > 2 * self._needed() + 1024:
                self._let_go()
            return
        self._tables.append(batch)
        self._bytes += batch.nbytes
        self._whole = self._bytes <= self._held_bytes
        if not self._whole:
            self._numbers.append(self._random.random(self.rows))
            self._let_go()

    @property
    def whole(self) -> bool:
        """Whether all rows that have come are held."""
        return self._whole

    def result(self) -> pa.Table:
        """Return all rows, or the sample alone, when all have come; at least one batch must have been added."""
        table = pa.concat_tables(self._tables)
        if self._whole:
            return table
        order = np.argsort(np.concatenate(self._numbers), kind="stable")[: self._size(self.rows)]
        return table.take(pa.array(order))

    def coded(self, columns: Sequence[str]) -> CodedRows:
        """Return the result as codes of these columns."""
        rows = CodedRows.of(Table(self.result()), columns)
        return rows if self._whole else replace(rows, drawn_from=self.rows)

    @property
    def _to_come(self) -> int:
        """The rows that the sample is of, as far as it is known."""
        return max(self.rows, self._expected)

    def _needed(self) -> float:
        return self._bound() * self._to_come

    def _bound(self) -> float:
        return share_below(self._size(self._to_come), self._to_come)

    def _let_go(self) -> None:
        table, numbers = pa.concat_tables(self._tables), np.concatenate(self._numbers)
        kept, its_numbers = _below(self._bound(), table, numbers)
        # Copied, so that the batches themselves are freed.
        self._tables, self._numbers = [kept.combine_chunks()], [its_numbers]


def drawn_rows(rows: CodedRows, size: int, seed: int) -> CodedRows:
    """Return a uniform sample of the rows of a table, in random order: that of `RowSample` with the same seed.

    A row's random number depends on its place in the table alone, so every chunk draws by itself.
    """
    if rows.drawn_from is not None:
        return rows if size >= rows.rows else rows.take(np.arange(size))
    size, bound = min(size, rows.rows), share_below(size, rows.rows)
    needed = size * BYTES_PER_PICKED_CELL * rows.width
    rows.engine.insist_on_summing(needed, f"{size:,} rows of {rows.width} columns")
    starts = np.cumsum([0, *rows.sizes]).tolist()
    while True:
        drawn = rows.chunks.each(
            [
                partial(_draw, names=rows.names, start=start, rows=own, bound=bound, seed=seed)
                for start, own in zip(starts, rows.sizes, strict=False)
            ]
        )
        numbers = np.concatenate([each for each, _ in drawn])
        if numbers.size >= size:
            break
        bound = 2 * bound  # but for a chance of less than one in a million it was enough
    order = np.argsort(numbers, kind="stable")[:size]
    return replace(rows.together([cells for _, cells in drawn]).take(order), drawn_from=rows.rows)


def _draw(
    chunk: Chunk, names: Sequence[str], start: int, rows: int, bound: float, seed: int
) -> tuple[NDArray[np.float64], Arrays]:
    """Pick the rows of a chunk whose random numbers are below a bound; tell the numbers and the cells."""
    random = np.random.default_rng(seed)
    random.bit_generator.advance(start)  # type: ignore[attr-defined] # one step for each number
    numbers = random.random(rows)
    drawn = np.flatnonzero(numbers < bound)
    return numbers[drawn], picked_rows(chunk, names, drawn)


def share_below(size: int, rows: int) -> float:
    """Return a bound below which at least `size` of the rows' random numbers lie, but for a very small chance."""
    size = min(size, rows)
    return (size + _MARGIN * math.sqrt(size) + _MARGIN) / rows


def _below(
    bound: float, table: pa.Table, numbers: NDArray[np.float64]
) -> tuple[pa.Table, NDArray[np.float64]]:
    kept = np.flatnonzero(numbers < bound)
    return table.take(pa.array(kept)), numbers.take(kept)


def draw_pairs(rows: int, count: int, sample: Rows, seed: int) -> tuple[Rows, Rows]:
    """Draw pairs of different rows, uniform and independent, of `rows` from which `sample` was drawn.

    The sample must have 2 · `count` rows, or all; the result holds entries of it.
    """
    random = np.random.default_rng([seed, 1])  # not the numbers that chose the sample
    first = random.integers(rows, size=count)
    second = random.integers(rows - 1, size=count)
    second += second >= first
    _, numbers = distinct_values(np.concatenate([first, second]))
    drawn = sample.take(numbers)
    return drawn[:count], drawn[count:]
