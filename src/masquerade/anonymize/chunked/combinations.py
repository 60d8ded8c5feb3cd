"""The different combinations of values that records in chunks have, and how many records have each.

A method that treats equal records alike needs no more. Combinations are numbered over all chunks; there may be as many
as records, so their number is bounded by the memory of whoever decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.outcome import Outcome, ReleasedCodes
from masquerade.anonymize.preparation import Prepared
from masquerade.data.column import Column, Generalised
from masquerade.data.records import codes_of, ranks_of
from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import Counts, Rows, weighted_counts
from masquerade.engine.shares import counted_keys
from masquerade.engine.sparse import SparseCounts
from masquerade.errors import DataError
from masquerade.utility.comparison import number_groups

MOST = 50_000_000  # combinations, of which a few dozen bytes each are held
_NUMBER, _RELEASED = "combination", "released"


@dataclass(frozen=True, eq=False)
class Combinations:
    """The combinations that occur: their values as columns, and the records of each."""

    task: Prepared
    columns: tuple[Column, ...]  # a row for each combination
    times: Counts  # how many records have it
    values: Mapping[str, SparseCounts]  # by sensitive attribute, the records of each (combination, value)
    whole: Mapping[str, Counts]
    labels: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, task: Prepared) -> Combinations:
        """Number the combinations of a task's columns, and count."""
        table, columns = task.records, task.columns
        sensitive = [part.sensitive for part in task.parts if part.sensitive is not None]
        as_they_are = Outcome(
            tuple(_unchanged(column) for column in columns),
            codes={column.name: ReleasedCodes(ranks_of(column.name)) for column in columns},
        )
        times = number_groups(table, as_they_are, _NUMBER, MOST)
        if times.size > MOST:
            raise DataError.about(
                table.name,
                f"{times.size:,} different combinations of values; this method takes at most {MOST:,} on chunks: "
                'leave attributes out of the QID, or use "tds" or "mondrian"',
            )
        ranked = tuple(
            replace(
                column, ranks=_mean(table.chunks.total(_RankSums(ranks_of(column.name), times.size)), times)
            )
            for column in columns
        )
        labels = {name: table.coded[name].labels for name in dict.fromkeys(sensitive)}
        values = {
            name: counted_keys(
                table.chunks, _CountValues(codes_of(name), len(known), times.size), table.engine
            )
            for name, known in labels.items()
        }
        return cls(task, ranked, times, values, table.whole, labels)

    def histograms(self, name: str, rows: Rows, labels: Counts, n_groups: int) -> Counts:
        """Count the values of a sensitive attribute in groups of combinations; `labels` are the groups of `rows`."""
        n_values = len(self.labels[name])
        group = np.full(self.times.size, -1)
        group[rows] = labels
        combination, value = np.divmod(self.values[name].keys, n_values)
        of_pair = group.take(combination)
        there = of_pair >= 0
        keys = of_pair[there] * n_values + value[there]
        counts = weighted_counts(keys, self.values[name].counts[there], n_groups * n_values)
        return counts.astype(np.int64).reshape(n_groups, n_values)

    def outcome(self, released: Sequence[Generalised], rows: Rows | None = None) -> Outcome:
        """Return the outcome for all records, given the released columns of these combinations; None for all."""
        codes = {}
        for column in released:
            of_combination = np.zeros(self.times.size, np.min_scalar_type(max(len(column.labels) - 1, 0)))
            of_combination[slice(None) if rows is None else rows] = column.codes
            codes[column.name] = ReleasedCodes(_NUMBER, of_combination)
        columns = tuple(replace(column, codes=np.empty(0, np.int32)) for column in released)
        if rows is None:
            return self.task.outcome(columns, codes=codes)
        kept = np.zeros(self.times.size, np.uint8)
        kept[rows] = 1
        self.task.records.chunks.change(_Keep(kept))
        return self.task.outcome(columns, codes=codes, released=_RELEASED)


def _unchanged(column: Column) -> Generalised:
    """Return a column in which every rank is a value of its own."""
    every = np.arange(column.domain.size)
    names = tuple(column.domain.label(rank, rank + 1) for rank in every.tolist())
    return Generalised(column.name, np.empty(0, np.int32), names, every, every + 1, column.domain)


def _mean(sums: NDArray[np.float64], times: Counts) -> NDArray[np.int32]:
    sums /= times
    return np.rint(sums, out=sums).astype(np.int32)


@dataclass(frozen=True)
class _RankSums:
    """Adds up the ranks of each combination's records: all are the same, so the mean is the rank."""

    name: str
    n_combinations: int

    def __call__(self, chunk: Chunk) -> NDArray[np.float64]:
        return weighted_counts(chunk[_NUMBER], chunk[self.name], self.n_combinations)


@dataclass(frozen=True)
class _CountValues:
    codes: str
    n_values: int
    n_combinations: int

    def __call__(self, chunk: Chunk) -> SparseCounts:
        keys = chunk[_NUMBER].astype(np.int64) * self.n_values + chunk[self.codes]
        return SparseCounts.of(keys, self.n_values * self.n_combinations)


@dataclass(frozen=True, eq=False)
class _Keep:
    kept: NDArray[np.uint8]

    def __call__(self, chunk: Chunk) -> Arrays:
        return {_RELEASED: self.kept.take(chunk[_NUMBER])}
