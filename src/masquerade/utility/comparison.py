"""A release alongside its original: the input of every metric.

All that metrics ask for are counts: of released values, of original ones, of groups. Each is one function of some rows
(`Shown`), whether a table at hand is one such piece or an engine adds up the pieces that its chunks are. Who looks at
single rows (random queries, classifiers) needs them at hand: `groups`, `kept`, and the columns' codes.

An anonymizer passes both sides directly. `compare` instead reads a finished release back: row i of
the release is row i of the input; each cell must be a value of its attribute, and cover the original value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data import (
    MISSING_CELL,
    Coded,
    Column,
    Generalised,
    Outcome,
    Records,
    Table,
    allowed_cells,
    codes_of,
    missing_rows,
    ranks_of,
    released_range,
    with_products,
)
from masquerade.engine import (
    Arrays,
    Chunk,
    Counts,
    Ints,
    SparseCounts,
    counted_keys,
    counted_shares,
    group_rows,
    look_up,
    renumber,
    value_counts,
)
from masquerade.errors import DataError
from masquerade.privacy import GroupRequirement, Requirement

Answer = TypeVar("Answer")
Groups = tuple[tuple[str, ...], Counts]  # of a column: its values, and how often each group has each

_NONE: Counts = np.empty(0, np.int64)
WORKLOAD = "workload"  # the key of methods that look at the queries which a release will be asked

_LARGEST_KEY = 1 << 62
_GROUPS = "released groups"
_BYTES_PER_GROUP = 48  # while groups are numbered
_MOST_CELLS = 1 << 26  # of groups and values: half a gigabyte
_BYTES_PER_CELL = 16  # of such a table, with what is made of it


class Shown(Protocol):
    """Some of the released rows, as they were and as they are released."""

    def codes(self, at: int) -> Ints:
        """Return the released codes of the column at this place."""

    def ranks(self, at: int) -> Ints:
        """Return the original ranks of the column at this place."""

    def values(self, coded: Coded) -> Ints:
        """Return the codes of a column that is not generalised."""


@dataclass(frozen=True, eq=False)
class InChunks:
    """Records in chunks, and what was made of them."""

    records: Records  # the chunks have those that the method kept; all of them count
    outcome: Outcome
    everybody: Records  # all complete rows

    def total(self, count: Callable[[Shown], Answer]) -> Answer:
        """Add up what is counted of each chunk."""
        return self.records.chunks.total(partial(_count_chunk, outcome=self.outcome, count=count))


@dataclass(frozen=True, eq=False)
class Comparison:
    """The kept input rows and their released values, attribute by attribute."""

    originals: tuple[Column, ...]  # of all kept input rows
    released: tuple[Generalised, ...]  # the same attributes; codes of released rows only
    classes: Coded | None  # of all kept input rows
    kept: NDArray[np.intp] | None  # which input rows were released, in order; None when all were
    weights: Mapping[str, float]  # of the attributes; one that is missing weighs 1
    unseen: int = 0  # further suppressed rows, of which only the number is known here
    told_violations: int | None = None  # where others have the originals: what they say of cells beyond boundaries
    in_chunks: InChunks | None = None  # where the rows are; the columns are without ranks and codes then

    @classmethod
    def of(cls, records: Records, outcome: Outcome, target: str | None) -> Comparison:
        """Compare all complete records with what was made of them; those of a table in memory are at hand."""
        names = [column.name for column in outcome.columns]
        weights = {name: records.schema[name].weight for name in names}
        if (table := records.table) is not None:
            made = outcome.in_table(records)
            classes = table.coded(target) if target is not None else None
            return cls(table.columns(names), made.columns, classes, made.kept, weights)
        here, made = outcome.beside(records)
        found = cls(
            tuple(records.columns[name] for name in names),
            outcome.columns,
            records.coded[target] if target is not None else None,
            None,
            weights,
            in_chunks=InChunks(here, made, records),
        )
        counted = tuple(replace(each, rows=rows) for each, rows in zip(outcome.columns, found.code_counts, strict=True))
        if here is not records or found.suppressed:  # values that only other rows have would leak
            counted = tuple(map(_of_released, counted))
        return replace(found, released=counted)

    @cached_property
    def rows(self) -> int:
        """The number of input rows, released or suppressed."""
        return (self._seen if self.in_chunks is None else len(self.in_chunks.records)) + self.unseen

    @cached_property
    def released_rows(self) -> int:
        """The number of released rows."""
        if self.in_chunks is not None:
            return int(self.group_sizes.sum())
        return self._seen if self.kept is None else int(self.kept.size)

    @property
    def _seen(self) -> int:
        if self.originals:
            return int(self.originals[0].ranks.size)
        if self.classes is not None:
            return int(self.classes.codes.size)
        return int(self.released[0].codes.size) if self.released else 0

    @property
    def suppressed(self) -> int:
        """The number of suppressed rows."""
        return self.rows - self.released_rows

    # What is counted of released values and of original ones.

    @cached_property
    def code_counts(self) -> tuple[Counts, ...]:
        """The number of released rows with each code, one array per column."""
        if all(column.rows is not None for column in self.released):
            return tuple(column.counts() for column in self.released)
        sizes = [len(column.labels) for column in self.released]
        return self._total(partial(_code_counts, sizes=sizes))

    @cached_property
    def rank_counts(self) -> tuple[Counts, ...]:
        """The number of released rows with each original rank, one array per column."""
        sizes = [column.domain.size for column in self.originals]
        return self._total(partial(_rank_counts, sizes=sizes))

    @cached_property
    def all_rank_counts(self) -> tuple[Counts, ...]:
        """The number of all kept rows with each original rank, the suppressed ones, too."""
        if not self.suppressed:
            return self.rank_counts
        sizes = {column.name: column.domain.size for column in self.originals}
        if self.in_chunks is not None:
            return self.in_chunks.everybody.chunks.total(partial(_ranks_of_chunk, sizes=sizes))
        return tuple(value_counts(column.ranks, sizes[column.name]) for column in self.originals)

    @cached_property
    def violations(self) -> dict[str, int]:
        """The number of cells of each attribute that has boundaries which go beyond that of their original value."""
        bounded = [at for at, column in enumerate(self.originals) if column.boundary is not None]
        if not bounded:
            return {}
        columns = self.released if self.in_chunks is None else self.in_chunks.outcome.columns
        pairs = [(at, self.originals[at], columns[at]) for at in bounded]
        told = [(at, replace(before, ranks=_NOBODY), replace(after, codes=_NOBODY)) for at, before, after in pairs]
        found = self._total(partial(_beyond, columns=told))
        return {self.originals[at].name: cells for at, cells in zip(bounded, found, strict=True)}

    def value_counts(self, coded: Sequence[Coded]) -> tuple[Counts, ...]:
        """Count the released rows with each value of these columns, which are not generalised."""
        return self._total(partial(_value_counts, columns=tuple(coded)))

    def values(self, coded: Sequence[Coded]) -> dict[str, dict[str, int]]:
        """Count the released rows with each value that some have."""
        return {
            each.name: {label: n for label, n in zip(each.labels, rows.tolist(), strict=True) if n}
            for each, rows in zip(coded, self.value_counts(coded), strict=True)
        }

    def _total(self, count: Callable[[Shown], Answer]) -> Answer:
        return count(_AtHand(self)) if self.in_chunks is None else self.in_chunks.total(count)

    # What is counted of groups: rows of one group agree on every released attribute.

    @cached_property
    def groups(self) -> Counts:
        """The group of each released row, where the rows are at hand."""
        return self._grouped[0]

    @cached_property
    def _grouped(self) -> tuple[Counts, int]:
        columns = [(column.codes, len(column.labels)) for column in self.released if len(column.labels) > 1]
        return group_rows(columns, self.released_rows)

    def by_group(self, coded: Coded | None) -> Iterator[SparseCounts]:
        """Count the released rows by group and value, whole groups at a time: a key is a group's number or codes, times
        the number of values, plus the value. The order of the groups is always the same.
        """
        n_values = _number_of(coded)
        if self.in_chunks is not None:
            records = self.in_chunks.records
            keys, _ = _group_keys(records, self.in_chunks.outcome, n_values)
            values = codes_of(coded.name) if coded is not None else None
            counting = partial(_count_keys, keys=keys, values=values, n_values=n_values)
            yield from counted_shares(records.chunks, counting, records.engine, n_values)
            return
        labels, n_groups = self._grouped
        of_rows = labels if coded is None else labels * n_values + _AtHand(self).values(coded)
        yield SparseCounts.of(of_rows, n_groups * n_values)

    @cached_property
    def group_sizes(self) -> Counts:
        """The number of rows in each group."""
        return self._sizes_and_majorities[0]

    @property
    def majorities(self) -> int | None:
        """The number of released rows that have the most frequent class of their group; None without a class."""
        return self._sizes_and_majorities[1]

    @cached_property
    def _sizes_and_majorities(self) -> tuple[Counts, int | None]:
        n_classes = _number_of(self.classes)
        sizes, majorities = [_NONE], 0
        for counted in self.by_group(self.classes):
            starts = np.flatnonzero(np.diff(counted.keys // n_classes, prepend=-1))
            if starts.size:
                sizes.append(np.add.reduceat(counted.counts, starts))
                majorities += int(np.maximum.reduceat(counted.counts, starts).sum())
        return np.concatenate(sizes), None if self.classes is None else majorities

    def providers_of_groups(self, providers: Coded) -> Counts:
        """Count the providers of each group, given the provider of every kept input row."""
        found = [_NONE]
        for counted in self.by_group(providers):
            groups = counted.keys // _number_of(providers)
            found.append(np.diff(np.append(np.flatnonzero(np.diff(groups, prepend=-1)), groups.size)))
        return np.concatenate(found)

    def codes_of_groups(self) -> tuple[Ints, ...]:
        """Return for each released column the code that every group has, where the rows are in chunks."""
        assert self.in_chunks is not None
        records, columns = self.in_chunks.records, self.in_chunks.outcome.columns
        kernel, numbered = _group_keys(records, self.in_chunks.outcome, 1)
        keys = counted_keys(records.chunks, partial(_count_keys, keys=kernel), records.engine).keys
        found: list[Ints] = []
        for at in range(len(columns) - 1, -1, -1):
            size = max(len(columns[at].labels), 1)
            keys, codes = np.divmod(keys, size)
            codes = codes.astype(np.min_scalar_type(size - 1))
            same = len(columns[at].labels) == len(self.released[at].labels)
            found.append(codes if same else renumber(codes, len(columns[at].labels))[0])
            if at in numbered:  # what is left is a number among the keys of the columns before
                keys = numbered[at][keys]
        return tuple(reversed(found))

    def values_of_groups(self, coded: Sequence[Coded], most_bytes: int) -> dict[str, Groups]:
        """Count how often each group has each value of these columns; of those for which that is not too much."""
        most_cells, n_groups = min(_MOST_CELLS, most_bytes // _BYTES_PER_CELL), int(self.group_sizes.size)
        found = {}
        for column in coded:
            if n_groups * len(column.labels) > most_cells:
                continue
            histogram = np.zeros((n_groups, len(column.labels)), np.int64)
            first = 0
            for counted in self.by_group(column):
                groups, values = np.divmod(counted.keys, _number_of(column))
                number = np.cumsum(np.diff(groups, prepend=-1) > 0) - 1 + first
                histogram[number, values] = counted.counts
                first = int(number[-1]) + 1 if number.size else first
            found[column.name] = column.labels, histogram
        return found


_NOBODY: NDArray[np.int32] = np.empty(0, np.int32)


def _of_released(column: Generalised) -> Generalised:
    """Return a counted column without the values that no row has."""
    assert column.rows is not None
    used = np.flatnonzero(column.rows)
    labels = tuple(column.labels[code] for code in used.tolist())
    return replace(column, labels=labels, lo=column.lo[used], hi=column.hi[used], rows=column.rows[used])


def _number_of(coded: Coded | None) -> int:
    return max(len(coded.labels), 1) if coded is not None else 1


# Counts of some rows.


def _code_counts(rows: Shown, *, sizes: Sequence[int]) -> tuple[Counts, ...]:
    return tuple(value_counts(rows.codes(at), size) for at, size in enumerate(sizes))


def _rank_counts(rows: Shown, *, sizes: Sequence[int]) -> tuple[Counts, ...]:
    return tuple(value_counts(rows.ranks(at), size) for at, size in enumerate(sizes))


def _value_counts(rows: Shown, *, columns: Sequence[Coded]) -> tuple[Counts, ...]:
    return tuple(value_counts(rows.values(each), len(each.labels)) for each in columns)


def _beyond(rows: Shown, *, columns: Sequence[tuple[int, Column, Generalised]]) -> tuple[int, ...]:
    """Count the cells beyond the boundary of the value that they stand for, of each of these columns."""
    counts = []
    for at, original, column in columns:
        assert original.boundary is not None
        codes = rows.codes(at)
        exceeded = original.boundary.exceeded(rows.ranks(at), column.lo.take(codes), column.hi.take(codes))
        counts.append(int(np.count_nonzero(exceeded)))
    return tuple(counts)


def _ranks_of_chunk(chunk: Chunk, *, sizes: Mapping[str, int]) -> tuple[Counts, ...]:
    return tuple(value_counts(chunk[ranks_of(name)], size) for name, size in sizes.items())


@dataclass(frozen=True, eq=False)
class _AtHand:
    """All released rows of a comparison that has them."""

    comparison: Comparison

    def codes(self, at: int) -> Ints:
        return self.comparison.released[at].codes

    def ranks(self, at: int) -> Ints:
        return self._kept(self.comparison.originals[at].ranks)

    def values(self, coded: Coded) -> Ints:
        return self._kept(coded.codes)

    def _kept(self, values: Ints) -> Ints:
        return values if self.comparison.kept is None else values.take(self.comparison.kept)


class _InChunk:
    """The released rows of a chunk."""

    def __init__(self, outcome: Outcome, chunk: Chunk) -> None:
        self._outcome, self._chunk, self._rows = outcome, chunk, outcome.rows(chunk)

    def codes(self, at: int) -> Ints:
        return self._kept(self._outcome.codes[self._outcome.columns[at].name](self._chunk))

    def ranks(self, at: int) -> Ints:
        return self._kept(self._chunk[ranks_of(self._outcome.columns[at].name)])

    def values(self, coded: Coded) -> Ints:
        return self._kept(self._chunk[codes_of(coded.name)])

    def _kept(self, values: Ints) -> Ints:
        return values if self._rows is None else values.take(self._rows)


def _count_chunk(chunk: Chunk, *, outcome: Outcome, count: Callable[[Shown], Answer]) -> Answer:
    return count(_InChunk(outcome, chunk))


# A finished release, read back.


def compare(original: Table, release: Any, qid_attributes: Iterable[str], target: str | None = None) -> Comparison:
    """Read a release back and compare it with its original, whose incomplete rows have been dropped.

    `release` is a Table or anything a Table can be made from. All invalid columns are reported at once.
    """
    finished = release if isinstance(release, Table) else Table(release)
    wanted = tuple(qid_attributes)
    for name in wanted:
        original.schema[name]  # an unknown name is an error that lists the known ones
    names = [name for name in original.schema.names if name in wanted]
    refuse_other_rows(finished.origin.name, len(finished), original.origin.name, len(original))
    originals = original.columns(names)
    released, errors = [], []
    for column in originals:
        try:
            released.append(read_back(column, finished))
        except DataError as error:
            errors.append(error)
    if gathered := DataError.gather(errors):
        raise gathered
    return Comparison(
        originals=originals,
        released=tuple(released),
        classes=original.coded(target) if target is not None else None,
        kept=None,
        weights={name: original.schema[name].weight for name in names},
    )


def refuse_other_rows(release: str, released: int, original: str, complete: int) -> None:
    """Raise DataError unless a release has as many rows as its original has complete ones."""
    if released != complete:
        raise DataError.about(
            release,
            f"{released} rows, but {original} has {complete} complete ones; "
            'row i of the release must be row i of the input (order = "input", nothing suppressed)',
        )


def read_back(original: Column, release: Table) -> Generalised:
    """Read a release's column back, each distinct cell as its range of ranks."""
    name, domain = original.name, original.domain
    empty = missing_rows(release.cells(name))
    if empty is not None and domain.range_of(MISSING_CELL) is None:
        raise DataError(release.problem("the cell is missing", int(np.argmax(empty)), name))
    coded = release.coded(name)

    def wrong(row: int, text: str) -> DataError:
        return DataError(release.problem(f'"{coded.labels[coded.codes[row]]}" {text}', row, name))

    ranges = [released_range(domain, label) for label in coded.labels]
    unknown = np.array([found is None for found in ranges], bool)
    if unknown.any():
        text = f"is no value of the attribute; allowed are {allowed_cells(domain)}"
        raise wrong(int(np.argmax(unknown[coded.codes])), text)
    lo, hi = np.array([found or (0, 0) for found in ranges], np.int64).reshape(-1, 2).T
    outside = (original.ranks < lo[coded.codes]) | (original.ranks >= hi[coded.codes])
    if outside.any():
        text = 'is not a generalisation of its original: is this release in input order (order = "input")?'
        raise wrong(int(np.argmax(outside)), text)
    return Generalised(name, coded.codes, coded.labels, lo, hi, domain)


def refuse_other_order(original: Table, release: Table, names: Iterable[str]) -> None:
    """Raise DataError if columns published unchanged show that the rows are in another order."""
    for name in dict.fromkeys(names):
        if name not in release.arrow.column_names or _written_anew(original.cells(name).type):
            continue
        before, after = original.coded(name), release.coded(name)
        place = {label: code for code, label in enumerate(before.labels)}
        same = np.array([place.get(label, -1) for label in after.labels], np.int64)
        different = same[after.codes] != before.codes
        if different.any():
            row = int(np.argmax(different))
            cells = f'"{after.labels[after.codes[row]]}" was "{before.labels[before.codes[row]]}"'
            text = f'{cells} in {original.problem("", row).place}: is this release in input order (order = "input")?'
            raise DataError(release.problem(text, row, name))


def _written_anew(kind: pa.DataType) -> bool:
    """Return whether files may write such values differently from how they are shown: then texts prove nothing."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))


# Groups over chunks: each row's key is its codes, as one number. Where those together exceed 64 bits, the groups of
# some columns are numbered first, over all chunks.


def number_groups(records: Records, outcome: Outcome, name: str, most: int) -> Counts:
    """Number the groups of a release over all chunks; return their sizes. More than the most get no numbers."""
    kernel, _ = _group_keys(records, outcome, 1)
    counted = counted_keys(records.chunks, partial(_count_keys, keys=kernel), records.engine)
    if counted.keys.size <= most:
        records.engine.insist_on_summing(
            _BYTES_PER_GROUP * counted.keys.size, f"{counted.keys.size:,} combinations of values"
        )
        records.chunks.change(partial(_number_keys, keys=kernel, found=counted.keys, name=name))
    return counted.counts


def _group_keys(records: Records, outcome: Outcome, spare: int) -> tuple[_GroupKeys, dict[int, Counts]]:
    """Return the kernel of each row's key; `spare` times as many keys still fit 64 bits.

    And where the keys of the columns before one had to be numbered, those keys, in the order of their numbers.
    """
    kernel = _GroupKeys(outcome)
    numbered: dict[int, Counts] = {}
    for at, column in enumerate(outcome.columns):
        if kernel.bound * len(column.labels) * spare > _LARGEST_KEY:
            found = counted_keys(records.chunks, partial(_count_keys, keys=kernel), records.engine).keys
            records.chunks.change(partial(_number_keys, keys=kernel, found=found))
            numbered[at] = found
            kernel = _GroupKeys(outcome, at, at, max(found.size, 1), True)
        kernel = _GroupKeys(outcome, kernel.first, at + 1, kernel.bound * max(len(column.labels), 1), kernel.numbered)
    return kernel, numbered


@dataclass(frozen=True, eq=False)
class _GroupKeys:
    """A key for each released row: its number so far, and the codes of the columns from `first` up to `last`."""

    outcome: Outcome
    first: int = 0
    last: int = 0
    bound: int = 1
    numbered: bool = False

    def __call__(self, chunk: Chunk) -> Counts:
        rows = self.outcome.rows(chunk)
        size = len(next(iter(chunk.values()))) if rows is None else rows.size
        keys = chunk[_GROUPS].astype(np.int64) if self.numbered else np.zeros(size, np.int64)
        for column in self.outcome.columns[self.first : self.last]:
            codes = self.outcome.codes[column.name](chunk)
            keys *= len(column.labels)
            keys += codes if rows is None else codes.take(rows)
        return keys


def _count_keys(chunk: Chunk, *, keys: _GroupKeys, values: str | None = None, n_values: int = 1) -> SparseCounts:
    of_rows = keys(chunk)
    if values is not None:
        rows, codes = keys.outcome.rows(chunk), chunk[values]
        of_rows = of_rows * n_values + (codes if rows is None else codes.take(rows))
    return SparseCounts.of(of_rows, keys.bound * n_values)


def _number_keys(chunk: Chunk, *, keys: _GroupKeys, found: Counts, name: str = _GROUPS) -> Arrays:
    """Give each released row the number of its key among those that occur in any chunk."""
    numbers = look_up(keys(chunk), found, np.arange(found.size), keys.bound)
    return {name: numbers.astype(np.int32)}


# --- sensitive values ---------------------------------------------------------------------------------------
# How often each sensitive value occurred before rows were suppressed.
#
# The difference from the release is what the suppressed rows have. So it is shown only where those rows,
# taken as one group, satisfy every requirement themselves: then it shows no more of them than a group of
# the release shows of its own.

CountsBefore = Mapping[str, Mapping[str, int]]  # by column and value


def counts_before(
    records: Records, comparison: Comparison, requirement: Requirement, names: Iterable[str]
) -> CountsBefore:
    """Count the values of these columns over all complete rows; nothing where they may not be shown or add nothing."""
    if not comparison.suppressed:
        return {}
    # Products are numbered as when the method ran.
    records = with_products(records, (part.sensitive for part in requirement.parts))
    if not all(_satisfied(records, comparison, part) for part in requirement.parts):
        return {}
    return {name: dict(zip(records.coded[name].labels, records.whole[name][0].tolist(), strict=True)) for name in names}


def _satisfied(records: Records, comparison: Comparison, part: GroupRequirement) -> bool:
    """Return whether the suppressed rows satisfy the requirement as a group of their own."""
    if part.sensitive is None:
        rest: Counts = np.array([[comparison.suppressed]], np.int64)
        return bool(part.holds(rest, np.array([[len(records)]], np.int64))[0])
    coded = records.coded_with_codes(part.sensitive)
    whole = records.whole[part.sensitive]
    rest = whole - comparison.value_counts([coded])[0].reshape(1, -1)
    return bool(part.holds(rest, whole, coded.labels)[0])
