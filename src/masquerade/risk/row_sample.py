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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.engine.counts import Rows
from masquerade.engine.numbering import distinct_values

SampleSize = Callable[[int], int]  # of the number of rows; its share of them must not grow with them

HELD_BYTES = 1 << 28  # as long as all rows take no more than this, all are held
_MARGIN = 6.0  # standard deviations


@dataclass(frozen=True, eq=False)
class Sampled:
    """What was held at the end: all rows, or the sample alone."""

    table: pa.Table
    rows: int  # that were read
    sample: Rows  # rows of `table` that are the sample, in random order

    @property
    def whole(self) -> bool:
        """Whether `table` has all rows."""
        return int(self.table.num_rows) == self.rows


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
        self._rows, self._bytes, self._whole = 0, 0, True

    def add(self, batch: pa.Table) -> None:
        """Take the next rows."""
        if not batch.num_rows:
            return
        numbers = self._random.random(batch.num_rows)
        if not self._rows and self._expected:
            self._whole = batch.nbytes * self._expected <= self._held_bytes * batch.num_rows
        self._rows += batch.num_rows
        self._tables.append(batch)
        self._numbers.append(numbers)
        if self._whole:
            self._bytes += batch.nbytes
            self._whole = self._bytes <= self._held_bytes
            if not self._whole:
                self._let_go()
        else:
            self._tables[-1], self._numbers[-1] = _below(self._bound(), batch, numbers)
            if sum(map(len, self._numbers)) > 2 * self._needed() + 1024:
                self._let_go()

    def result(self) -> Sampled:
        """Return what was held, when all rows have come; at least one batch must have been added."""
        table, numbers = pa.concat_tables(self._tables), np.concatenate(self._numbers)
        sample = np.argsort(numbers, kind="stable")[: min(self._size(self._rows), self._rows)]
        if self._whole:
            return Sampled(table, self._rows, sample)
        return Sampled(table.take(pa.array(sample)), self._rows, np.arange(sample.size))

    @property
    def _to_come(self) -> int:
        """The rows that the sample is of, as far as it is known."""
        return max(self._rows, self._expected)

    def _needed(self) -> float:
        return self._bound() * self._to_come

    def _bound(self) -> float:
        return share_below(self._size(self._to_come), self._to_come)

    def _let_go(self) -> None:
        table, numbers = pa.concat_tables(self._tables), np.concatenate(self._numbers)
        kept, its_numbers = _below(self._bound(), table, numbers)
        # Copied, so that the batches themselves are freed.
        self._tables, self._numbers = [kept.combine_chunks()], [its_numbers]


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
