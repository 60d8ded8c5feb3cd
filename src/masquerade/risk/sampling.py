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
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data import Table
from masquerade.engine import Arrays, Chunk, Rows, distinct_values
from masquerade.risk.separation import (
    BYTES_PER_PICKED_CELL,
    CodedRows,
    Extent,
    Measure,
    SeparatedRows,
    Separation,
    code_columns,
    picked_rows,
)

SampleSize = Callable[[int], int]  # of the number of rows; its share of them must not grow with them

HELD_BYTES = 1 << 28  # as long as all rows take no more than this, all are held
_MARGIN = 6.0  # standard deviations


class RowSample:
    """Takes rows as they come, and holds those that the sample may need."""

    def __init__(self, size: SampleSize, seed: int, held_bytes: int = HELD_BYTES, expected: int | None = None) -> None:
        """Prepare to take rows; `expected` is how many will come, if it is known: then nothing is held in vain."""
        self._size, self._held_bytes, self._expected = size, held_bytes, expected or 0
        self._random = np.random.default_rng(seed)
        self._tables: list[pa.Table] = []
        self._numbers: list[NDArray[np.float64]] = []
        self.rows = 0  # that have come
        self._bytes, self.whole = 0, True  # whether all rows that have come are held

    def add(self, batch: pa.Table) -> None:
        """Take the next rows."""
        if not batch.num_rows:
            return
        if not self.rows and self._expected:
            self.whole = batch.nbytes * self._expected <= self._held_bytes * batch.num_rows
        self.rows += batch.num_rows
        if not self.whole:
            kept, numbers = _below(self._bound(), batch, self._random.random(batch.num_rows))
            self._tables.append(kept)
            self._numbers.append(numbers)
            if sum(map(len, self._numbers)) > 2 * self._bound() * self._to_come + 1024:
                self._let_go()
            return
        self._tables.append(batch)
        self._bytes += batch.nbytes
        self.whole = self._bytes <= self._held_bytes
        if not self.whole:
            self._numbers.append(self._random.random(self.rows))
            self._let_go()

    def result(self) -> pa.Table:
        """Return all rows, or the sample alone, when all have come; at least one batch must have been added."""
        table = pa.concat_tables(self._tables)
        if self.whole:
            return table
        order = np.argsort(np.concatenate(self._numbers), kind="stable")[: self._size(self.rows)]
        return table.take(pa.array(order))

    def coded(self, columns: Sequence[str]) -> CodedRows:
        """Return the result as codes of these columns."""
        rows = CodedRows.of(Table(self.result()), columns)
        return rows if self.whole else replace(rows, drawn_from=self.rows)

    @property
    def _to_come(self) -> int:
        """The rows that the sample is of, as far as it is known."""
        return max(self.rows, self._expected)

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


def _below(bound: float, table: pa.Table, numbers: NDArray[np.float64]) -> tuple[pa.Table, NDArray[np.float64]]:
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


# --- sample sizes -------------------------------------------------------------------------------------------
# How many tuples or pairs the sampled algorithms need (Theorems 2.3 to 2.5, 3.1 and 3.2 of the paper).
#
# All of them let the answer be wrong with probability δ over all 2^m sets of m columns, so ln(2^m/δ) is in
# each.


def _sets(columns: int, delta: float) -> float:
    """ln(2^m/δ)."""
    return columns * math.log(2) - math.log(delta)


def pairs_for_key(columns: int, epsilon: float, delta: float) -> int:
    """Pairs for a set that tells all of them apart to have a separation ratio of at least 1 − ε."""
    return math.ceil(_sets(columns, delta) / -math.log1p(-epsilon))


def tuples_for_key(columns: int, rows: int, epsilon: float, delta: float) -> int:
    """Tuples for a key of them to have a distinct ratio of at least 1 − ε."""
    return math.ceil(math.sqrt(2 * (1 - epsilon) / epsilon * rows * _sets(columns, delta)))


def pairs_for_beta(columns: int, beta: float, epsilon: float, delta: float) -> int:
    """Pairs for the greedy β-separation quasi-identifier to have a separation ratio of at least (1 − ε)β."""
    return math.ceil(16 / (beta * epsilon**2) * _sets(columns, delta))


def covered_for_beta(pairs: int, beta: float, epsilon: float) -> float:
    """Return at how many separated pairs that search stops."""
    return (2 - epsilon) * beta * pairs / 2


def masked_beta(columns: int, sample: int, beta: float, delta: float) -> float:
    """β′, which a published set must not exceed in the sample, to be at most β in the table; maybe below 0."""
    return (1 - math.sqrt(2 * _sets(columns, delta) / (beta * sample))) * beta


def least_sample_for_masking(columns: int, beta: float, delta: float) -> int:
    """The smallest sample with which β′ is above 0."""
    return math.floor(2 * _sets(columns, delta) / beta) + 1


# --- sampled pairs ------------------------------------------------------------------------------------------
# Pairs of rows drawn at random: for each column, which of them it tells apart.
#
# Every column covers some of the pairs, and a key is a set cover; so the same greedy search runs on all
# rows and on a sample of pairs.


@dataclass(frozen=True, eq=False)
class SampledPairs:
    """The pairs that no chosen column tells apart yet, and which of those each column does."""

    apart: NDArray[np.bool_]  # columns × pairs
    total: int

    @classmethod
    def of(cls, rows: CodedRows, first: Rows, second: Rows) -> SampledPairs:
        """Compare the rows `first[i]` and `second[i]` of one chunk, for each i."""
        return cls(rows.chunks.only(0, partial(_apart, names=rows.names, first=first, second=second)), int(first.size))

    @property
    def whole(self) -> Extent:
        """All pairs."""
        return Extent(0, self.total)

    @property
    def extent(self) -> Extent:
        """The pairs that the chosen columns tell apart."""
        return Extent(0, self.total - self.apart.shape[1])

    def extent_with(self, column: int) -> Extent:
        """The same with one more column."""
        return Extent(0, self.extent.pairs + int(np.count_nonzero(self.apart[column])))

    def refined(self, column: int) -> SampledPairs:
        """The pairs that are left with one more column."""
        return SampledPairs(self.apart[:, ~self.apart[column]], self.total)


def sample_of(rows: CodedRows, measure: Measure, size: int, seed: int) -> Separation:
    """Return what a sample decides by: `size` tuples, or for the separation ratio pairs of rows."""
    if measure == "distinct":
        return SeparatedRows.of(drawn_rows(rows, size, seed))
    sample = drawn_rows(rows, 2 * size, seed)
    return SampledPairs.of(sample, *draw_pairs(rows.rows_read, size, np.arange(sample.rows), seed))


def _apart(chunk: Chunk, names: Sequence[str], first: Rows, second: Rows) -> NDArray[np.bool_]:
    return np.stack([codes.take(first) != codes.take(second) for codes, _ in code_columns(chunk, names)])


# --- targets ------------------------------------------------------------------------------------------------
# Ratios as counts: how many groups or pairs a ratio asks for, exactly, as its decimals are written.


def at_least(ratio: float, whole: Extent, measure: Measure) -> int:
    """The smallest count whose share is at least the ratio."""
    return math.ceil(Fraction(str(ratio)) * whole.of(measure))


def at_most(ratio: float, whole: Extent, measure: Measure) -> int:
    """The largest count whose share is at most the ratio; below 0 for none: one row alone is told apart by anything."""
    if not whole.of(measure):
        return 0 if ratio >= 1 else -1
    return math.floor(Fraction(str(ratio)) * whole.of(measure))
