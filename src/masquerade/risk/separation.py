"""What a set of columns separates: rows in groups that the columns do not tell apart, refined column by column.

A set of columns is judged by two measures. Its **distinct ratio** is the share of rows that can be kept so that it is
a key of them: groups of equal rows / rows. Its **separation ratio** is the share of all pairs of rows in which the two
differ. Both grow with the set. The pairs told apart are moreover submodular: a column adds the less, the more columns
are chosen.

A search adds one column after the other to a `Separation`: that of all rows (`SeparatedRows`), or that of a sample of
pairs (`sampling.py`). Columns are numbers.

**One chunk.** The greedy algorithms ask again and again how many groups there would be with one more column. So every
row carries the label of its group, and one more column is one more digit of the label: label · values + value. Counting
these numbers (a table where it fits, otherwise one sort of integers) gives the sizes of the finer groups, and with them
both measures; renumbering them makes the next labels. A row that is alone in its group is told apart from all others
for good, so it is left out from then on: after two or three good columns most rows are gone.

**Several chunks** never meet, so none of them knows which of its rows are alone. There a row's label is made of the
fingerprints of its cells in all chosen columns; how many rows have each label adds up over chunks, share by share
where there are too many labels to hold (`engine/chunks.py`). Nothing is kept from one question to the next but answers.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple, Protocol

import numpy as np

from masquerade.data import (
    Codes,
    Fingerprints,
    Partitioned,
    Table,
    TablePart,
    coded_fingerprints,
    equal_cells,
    mixed,
    rows_of_chunks,
)
from masquerade.engine import (
    Arrays,
    Chunk,
    Chunks,
    Counts,
    Engine,
    Here,
    Ints,
    Rows,
    SparseCounts,
    counted_shares,
    distinct_values,
    occurring,
    renumber,
    value_counts,
    weighted_counts,
)

Measure = Literal["distinct", "separation"]
MEASURES: tuple[Measure, ...] = ("distinct", "separation")

_BYTES_PER_CELL = 20  # while a chunk is read: Arrow's cells and their numbers, one column after the other
BYTES_PER_PICKED_CELL = 32  # of a row that is brought out of its chunk
_WHOLE = np.iinfo(np.int64).max
_TIMES = "times"  # for how many rows each row stands; absent where for itself


class Extent(NamedTuple):
    """How much a set of columns separates."""

    groups: int  # of rows that it does not tell apart; 0 of a sample of pairs
    pairs: int  # of rows that it tells apart

    def of(self, measure: Measure) -> int:
        """Return the count that the measure's ratio is a share of."""
        return self.groups if measure == "distinct" else self.pairs


def ratio(extent: Extent, whole: Extent, measure: Measure) -> float:
    """Return the measure's ratio; 1 where there is nothing to tell apart."""
    total = whole.of(measure)
    return extent.of(measure) / total if total else 1.0


class Separation(Protocol):
    """The state of a search: what the chosen columns separate, and what one more would."""

    @property
    def extent(self) -> Extent:
        """What the chosen columns separate."""

    @property
    def whole(self) -> Extent:
        """All there is: rows, and pairs of rows."""

    def extent_with(self, column: int) -> Extent:
        """Return what they would separate together with one more."""

    def refined(self, column: int) -> Separation:
        """Return the state after that column is chosen."""


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows of a table in chunks, each cell as a code: all that counts is which cells are equal.

    A chunk has the code of each row's cell, and for each code a number by which its cell is known in all chunks: a
    fingerprint (`data/fingerprinting.py`), as a column may have too many values to number them together. In a chunk
    that is alone the codes themselves are such numbers.
    """

    names: tuple[str, ...]
    engine: Engine
    chunks: Chunks
    sizes: tuple[int, ...]  # the rows of each chunk
    drawn_from: int | None = None  # how many rows these are a sample of, in random order; None where they are all

    @classmethod
    def of(cls, table: Table, columns: Sequence[str] | None = None) -> CodedRows:
        """Code the columns named, or all, of a table in memory. A missing cell is a value like any other."""
        names = tuple(table.arrow.column_names if columns is None else columns)
        return cls.of_codes(names, [cell_codes(table, name) for name in names], len(table))

    @classmethod
    def of_codes(
        cls, names: Sequence[str], columns: Iterable[tuple[Ints, int]], rows: int, times: Counts | None = None
    ) -> CodedRows:
        """Hold columns of codes, each with the bound of its codes; a row may stand for several (`times`)."""
        arrays: Arrays = {} if times is None else {_TIMES: times}
        for name, (codes, bound) in zip(names, columns, strict=True):
            arrays |= {_codes_in(name): codes, _values_in(name): np.arange(bound, dtype=np.uint64)}
        engine = Here()
        return cls(tuple(names), engine, engine.hold(arrays), (rows if times is None else int(times.sum()),))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.sizes)

    @property
    def rows_read(self) -> int:
        """The number of rows of the whole table."""
        return self.rows if self.drawn_from is None else self.drawn_from

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.names)

    @property
    def are_one_chunk(self) -> bool:
        """Whether all rows are in one chunk here, so that what it knows of its groups is all there is to know."""
        return len(self.chunks) == 1 and isinstance(self.engine, Here)

    @property
    def whole(self) -> Extent:
        """All rows and all pairs of them."""
        return Extent(self.rows, self.rows * (self.rows - 1) // 2)

    def take(self, rows: Rows) -> CodedRows:
        """Return these rows of the one chunk, in this order."""
        taken = self.chunks.derive(partial(picked_rows, names=self.names, rows=rows))
        return replace(self, chunks=taken, sizes=(int(rows.size),))

    def together(self, pieces: Sequence[Arrays]) -> CodedRows:
        """Return rows that were picked from each chunk as one chunk."""
        columns = []
        for name in self.names:
            values = np.concatenate([np.empty(0, np.uint64), *(each[_values_in(name)] for each in pieces)])
            starts = np.cumsum([0, *(each[_values_in(name)].size for each in pieces)])
            codes = [each[_codes_in(name)] + start for each, start in zip(pieces, starts.tolist(), strict=False)]
            found, numbers = distinct_values(values)
            own = numbers.take(np.concatenate([np.empty(0, np.int64), *codes]))
            columns.append((own.astype(np.int32), int(found.size)))
        return CodedRows.of_codes(self.names, columns, int(columns[0][0].size))


@dataclass(frozen=True, eq=False)
class OpenGroups:
    """The groups of two or more rows of a chunk that is alone; rows that are told apart from all others stay out."""

    rows: Rows | None  # those in groups; None for all
    labels: Ints
    n_labels: int
    left_out: int = 0  # groups of one row
    settled: int = 0  # pairs of rows that one that is left out stands for
    together: int = 0  # pairs of rows that are in one group
    least: int = _WHOLE  # rows that one that is left out stands for, at least


@dataclass(frozen=True, eq=False)
class SeparatedRows:
    """All rows in groups that the chosen columns do not separate."""

    rows: CodedRows
    chosen: tuple[int, ...] = ()
    known: dict[frozenset[int], Extent] = field(default_factory=dict)  # of these rows, by any columns
    groups: OpenGroups | None = None  # of one chunk

    @classmethod
    def of(cls, rows: CodedRows, columns: Iterable[int] = ()) -> SeparatedRows:
        """Return the rows by these columns."""
        if not rows.are_one_chunk:
            return cls(rows, tuple(columns))
        found = cls(rows, groups=rows.chunks.only(0, partial(_in_one_group, name=rows.names[0])))
        for column in columns:
            found = found.refined(column)
        return found

    @property
    def whole(self) -> Extent:
        """All rows and all pairs of them."""
        return self.rows.whole

    @property
    def extent(self) -> Extent:
        """The groups, and the pairs of rows in different ones."""
        if self.groups is None:
            return self._counted(self.chosen)
        return Extent(self.groups.left_out + self.groups.n_labels, self.whole.pairs - self.groups.together)

    @property
    def are_open(self) -> bool:
        """Whether some rows of one chunk are not told apart."""
        assert self.groups is not None
        return self.groups.n_labels > 0

    @property
    def alone(self) -> int:
        """The rows of one chunk that are told apart from all others."""
        assert self.groups is not None
        return self.groups.left_out

    @property
    def smallest(self) -> int:
        """The rows of the smallest group of one chunk; 0 of no rows."""
        assert self.groups is not None
        open_ones = self.rows.chunks.only(0, partial(_sizes, groups=self.groups))
        return int(min(self.groups.least, self.rows.rows, open_ones.min(initial=_WHOLE)))

    @property
    def alike(self) -> list[Rows]:
        """The groups of two or more rows of one chunk: their places, in order."""
        assert self.groups is not None
        groups = self.groups
        order = np.argsort(groups.labels, kind="stable")
        rows = order if groups.rows is None else groups.rows.take(order)
        cuts = np.flatnonzero(np.diff(groups.labels[order])) + 1
        return [each for each in np.split(rows, cuts) if each.size]

    def extent_with(self, column: int) -> Extent:
        """Return what they would separate together with one more."""
        if self.groups is None:
            return self._counted((*self.chosen, column))
        if not self.groups.n_labels:
            return self.extent
        kernel = partial(_extent_with, groups=self.groups, name=self.rows.names[column])
        groups, together = self.rows.chunks.only(0, kernel)
        return Extent(groups, self.whole.pairs - together)

    def refined(self, column: int) -> SeparatedRows:
        """Return the finer groups with one more column."""
        chosen, groups = (*self.chosen, column), self.groups
        if groups is not None and groups.n_labels:
            kernel = partial(_refined, groups=groups, name=self.rows.names[column])
            groups = self.rows.chunks.only(0, kernel)
        return replace(self, chosen=chosen, groups=groups)

    def by(self, columns: Iterable[int]) -> SeparatedRows:
        """Return the same rows by these columns, and no others."""
        if self.groups is None:
            return replace(self, chosen=tuple(columns))
        return SeparatedRows.of(self.rows, columns)

    def _counted(self, columns: tuple[int, ...]) -> Extent:
        """Count the groups of rows in several chunks, unless somebody has asked before."""
        asked = frozenset(columns)
        if asked not in self.known:
            groups, together = (0, 0) if asked else (min(self.rows.rows, 1), self.whole.pairs)
            kernel = partial(count_labels, columns=tuple(self.rows.names[at] for at in sorted(asked)))
            for counted in counted_shares(self.rows.chunks, kernel, self.rows.engine) if asked else ():
                groups += counted.counts.size
                together += _pairs_within(counted.counts)
            self.known[asked] = Extent(groups, self.whole.pairs - together)
        return self.known[asked]


def read_rows(files: Partitioned, columns: Sequence[str], engine: Engine) -> CodedRows:
    """Read columns of a table in parts into an engine's chunks."""
    # The weights of the fingerprints are drawn anew for every table, so that nobody can write texts that agree.
    names, secret = tuple(columns), secrets.randbits(64)
    parts = files.parts(rows_of_chunks(files, len(names), engine, _BYTES_PER_CELL))
    engine.check_files([str(path) for path in files.paths])
    chunks, sizes = engine.load([partial(_read_part, part, names, secret) for part in parts])
    return CodedRows(names, engine, chunks, tuple(sizes))


def cell_codes(table: Table, name: str) -> tuple[Codes, int]:
    """Code a column's cells, below a bound."""
    codes, values = equal_cells(table.cells(name))
    return codes, len(values)


def _codes_in(name: str) -> str:
    """Return under which name a chunk has the code of each row's cell."""
    return f"codes {name}"


def _values_in(name: str) -> str:
    """Return under which name a chunk has, for each code, the number by which all chunks know it."""
    return f"values {name}"


def _read_part(part: TablePart, columns: tuple[str, ...], secret: int) -> tuple[Arrays, int]:
    """Load a chunk: the codes of its cells, and their fingerprints. Tell how many rows it has."""
    table = part.read(columns, columns)
    arrays: Arrays = {}
    for name in columns:
        codes, values = coded_fingerprints(table[name], secret)
        arrays[_codes_in(name)] = codes.astype(np.min_scalar_type(max(values.size - 1, 0)))
        arrays[_values_in(name)] = values
    return arrays, table.num_rows


def row_labels(chunk: Chunk, columns: Sequence[str]) -> Counts:
    """Return a number for each row, by which rows that are equal in these columns, and no others, are equal."""
    first, *others = columns
    labels: Fingerprints = mixed(chunk[_values_in(first)]).take(chunk[_codes_in(first)])
    for name in others:
        labels = mixed(labels ^ chunk[_values_in(name)].take(chunk[_codes_in(name)]))
    return (labels >> np.uint64(1)).astype(np.int64)


def count_labels(chunk: Chunk, columns: Sequence[str]) -> SparseCounts:
    """Count the rows with each label."""
    if len(columns) > 1:
        return SparseCounts.of(row_labels(chunk, columns), _WHOLE)
    values = chunk[_values_in(columns[0])]
    times = value_counts(chunk[_codes_in(columns[0])], values.size)
    found = SparseCounts((mixed(values) >> np.uint64(1)).astype(np.int64), times)
    return SparseCounts.sum_of([found])  # in order, and each value once


def picked_rows(chunk: Chunk, names: Sequence[str], rows: Rows) -> Arrays:
    """Return the cells of these rows, with the codes that occur in them numbered anew."""
    arrays: Arrays = {}
    for name in names:
        values = chunk[_values_in(name)]
        codes, found = renumber(chunk[_codes_in(name)].take(rows), values.size)
        arrays |= {_codes_in(name): codes.astype(np.int32, copy=False), _values_in(name): values.take(found)}
    return arrays


def code_columns(chunk: Chunk, names: Sequence[str]) -> list[tuple[Ints, int]]:
    """Return the codes of each column, with their bound."""
    return [(chunk[_codes_in(name)], chunk[_values_in(name)].size) for name in names]


def _in_one_group(chunk: Chunk, name: str) -> OpenGroups:
    n = chunk[_codes_in(name)].size
    return _without_lone(chunk, OpenGroups(None, np.empty(0, np.int32), 0), np.zeros(n, np.int32), min(n, 1))


def _digits(chunk: Chunk, groups: OpenGroups, name: str) -> tuple[Counts, int]:
    """Return each open row's label with its code as one more digit, and a bound of these numbers."""
    codes, bound = chunk[_codes_in(name)], chunk[_values_in(name)].size
    keys = groups.labels.astype(np.int64) * bound
    keys += codes if groups.rows is None else codes.take(groups.rows)
    return keys, groups.n_labels * bound


def _extent_with(chunk: Chunk, groups: OpenGroups, name: str) -> tuple[int, int]:
    """Return how many groups there would be with one more column, and how many pairs of rows within them."""
    if _TIMES in chunk:
        finer = _refined(chunk, groups, name)
        return finer.left_out + finer.n_labels, finer.together
    _, sizes = occurring(*_digits(chunk, groups, name))
    return groups.left_out + sizes.size, _pairs_within(sizes)


def _refined(chunk: Chunk, groups: OpenGroups, name: str) -> OpenGroups:
    numbers, found = renumber(*_digits(chunk, groups, name))
    return _without_lone(chunk, groups, numbers, found.size)


def _without_lone(chunk: Chunk, before: OpenGroups, numbers: Ints, n_found: int) -> OpenGroups:
    """Return the groups of open rows with these numbers; rows that are alone in theirs are left out from now on."""
    finer = replace(before, labels=numbers.astype(np.int32, copy=False), n_labels=n_found)
    members = value_counts(numbers, n_found)
    sizes = members if _TIMES not in chunk else _sizes(chunk, finer)
    several = members > 1
    n_labels = int(np.count_nonzero(several))
    if n_labels == n_found:
        return replace(finer, together=before.settled + _pairs_within(sizes))
    kept = np.flatnonzero(several.take(numbers))
    label_of_number = np.cumsum(several, dtype=np.int32) - 1
    lone = sizes[~several]
    settled = before.settled + (_pairs_within(lone) if _TIMES in chunk else 0)
    return OpenGroups(
        kept if before.rows is None else before.rows.take(kept),
        label_of_number.take(numbers.take(kept)),
        n_labels,
        before.left_out + n_found - n_labels,
        settled,
        settled + _pairs_within(sizes[several]),
        min(before.least, int(lone.min())),
    )


def _sizes(chunk: Chunk, groups: OpenGroups) -> Counts:
    """Return the rows of each open group."""
    if _TIMES not in chunk:
        return value_counts(groups.labels, groups.n_labels)
    times = chunk[_TIMES] if groups.rows is None else chunk[_TIMES].take(groups.rows)
    return weighted_counts(groups.labels, times, groups.n_labels).astype(np.int64)


def _pairs_within(sizes: Counts) -> int:
    return int((sizes * (sizes - 1)).sum()) // 2
