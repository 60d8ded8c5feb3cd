"""Counts over chunks that methods and metrics need: classes by rank, and what a release shows of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from masquerade.anonymize.outcome import Outcome
from masquerade.anonymize.sensitive_values import CountsBefore
from masquerade.data.boundary import Boundary
from masquerade.data.column import Coded, Column, Generalised
from masquerade.data.records import Records, codes_of, ranks_of, with_products
from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import Counts, Ints, pair_counts, value_counts
from masquerade.engine.numbering import look_up
from masquerade.engine.shares import counted_keys, counted_shares
from masquerade.engine.sparse import SparseCounts
from masquerade.privacy.requirement import GroupRequirement, Requirement
from masquerade.utility.comparison import Comparison, largest_of_groups

_LARGEST_KEY = 1 << 62
_GROUPS = "released groups"
_MOST_CELLS = 1 << 26  # of groups and values: half a gigabyte
_BYTES_PER_GROUP = 48  # while groups are numbered
_BYTES_PER_CELL = 16  # of such a table, with what is made of it


def class_counts(table: Records, columns: Sequence[Column], target: str | None) -> dict[str, Counts]:
    """Count the records with each rank and class, for each attribute; without a class all are of one."""
    n_classes = len(table.coded[target].labels) if target is not None else 1
    kernel = _ClassCounts(
        {column.name: column.domain.size for column in columns},
        codes_of(target) if target is not None else None,
        n_classes,
    )
    return dict(zip(kernel.sizes, table.chunks.total(kernel), strict=True))


@dataclass(frozen=True)
class _ClassCounts:
    sizes: Mapping[str, int]
    classes: str | None
    n_classes: int

    def __call__(self, chunk: Chunk) -> tuple[Counts, ...]:
        if self.classes is None:
            return tuple(
                value_counts(chunk[ranks_of(name)], size).reshape(-1, 1) for name, size in self.sizes.items()
            )
        classes = chunk[self.classes]
        return tuple(
            pair_counts(chunk[ranks_of(name)], classes, size, self.n_classes)
            for name, size in self.sizes.items()
        )


@dataclass(frozen=True, eq=False)
class CountedColumn(Generalised):
    """A released column whose rows are elsewhere, and counted."""

    rows: Counts = field(default_factory=lambda: _NONE)  # with each code

    def counts(self) -> Counts:
        """Return the rows with each code."""
        return self.rows


_NONE: Counts = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class CountedComparison(Comparison):
    """A release beside its original where both are in chunks: all that metrics ask for is counted once."""

    n_rows: int = 0
    counts: tuple[Counts, ...] = ()  # the released rows with each code, by column
    ranks: tuple[Counts, ...] = ()  # the released rows with each original rank, by column
    all_ranks: tuple[Counts, ...] = ()  # the same of all complete rows
    sizes: Counts = field(default_factory=lambda: _NONE)  # the released rows of each group
    most_frequent: int | None = None  # the rows that have the most frequent class of their group
    providers: Counts | None = None  # how many feed each group, where the requirement names them
    beyond: Mapping[str, int] = field(default_factory=dict)  # cells beyond their boundary, by attribute

    @classmethod
    def of(
        cls,
        table: Records,
        outcome: Outcome,
        target: str | None,
        provider: str | None = None,
        everybody: Records | None = None,
    ) -> CountedComparison:
        """Count a release; `provider` is the column that names each record's provider.

        `everybody` has all complete rows, where the chunks of `table` lack some of them.
        """
        names = [column.name for column in outcome.columns]
        classes = table.coded[target] if target is not None else None
        domains = {name: table.columns[name].domain.size for name in names}
        counts, ranks = table.chunks.total(_ReleasedCounts(outcome, domains))
        all_ranks = ranks
        if counts and int(counts[0].sum()) < len(table):
            all_ranks = (everybody or table).chunks.total(_CountRanks(domains))
        sizes, most_frequent = _sizes_and_majorities(table, outcome, classes)
        return cls(
            originals=tuple(table.columns[name] for name in names),
            released=tuple(
                CountedColumn(each.name, each.codes, each.labels, each.lo, each.hi, each.domain, rows)
                for each, rows in zip(outcome.columns, counts, strict=True)
            ),
            classes=classes,
            kept=None,
            weights={name: table.schema[name].weight for name in names},
            n_rows=len(table),
            counts=counts,
            ranks=ranks,
            all_ranks=all_ranks,
            sizes=sizes,
            most_frequent=most_frequent,
            providers=_providers_of_groups(table, outcome, provider),
            beyond=beyond_boundaries(table, outcome),
        )

    @property
    def rows(self) -> int:
        """The number of complete input rows."""
        return self.n_rows

    @property
    def released_rows(self) -> int:
        """The number of released rows."""
        return int(self.sizes.sum())

    @cached_property
    def code_counts(self) -> tuple[Counts, ...]:
        """The number of released rows with each code, one array per column."""
        return self.counts

    def rank_counts(self, at: int) -> Counts:
        """Return the number of released rows with each original rank, in the column at this place."""
        return self.ranks[at]

    def all_rank_counts(self, at: int) -> Counts:
        """Return the number of complete rows with each original rank, in the column at this place."""
        return self.all_ranks[at]

    @cached_property
    def majorities(self) -> int | None:
        """The number of released rows that have the most frequent class of their group."""
        return self.most_frequent

    @cached_property
    def group_sizes(self) -> Counts:
        """The number of rows in each group."""
        return self.sizes

    def providers_of_groups(self, providers: Coded) -> Counts:
        """Return the number of providers of each group."""
        assert self.providers is not None
        return self.providers

    @cached_property
    def violations(self) -> dict[str, int]:
        """The number of cells beyond the boundary of their original value, of each attribute that has boundaries."""
        return dict(self.beyond)


def _sizes_and_majorities(
    table: Records, outcome: Outcome, classes: Coded | None
) -> tuple[Counts, int | None]:
    n_classes = _number_of(classes)
    sizes, majorities = [_NONE], 0
    for counted in groups_by_class(table, outcome, classes):
        groups = counted.keys // n_classes
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        if starts.size:
            sizes.append(np.add.reduceat(counted.counts, starts))
        majorities += largest_of_groups(groups, counted.counts)
    return np.concatenate(sizes), None if classes is None else majorities


def _providers_of_groups(table: Records, outcome: Outcome, provider: str | None) -> Counts | None:
    if provider is None:
        return None
    found = [_NONE]
    for counted in groups_by_class(table, outcome, table.coded[provider]):
        groups = counted.keys // _number_of(table.coded[provider])
        found.append(np.diff(np.append(np.flatnonzero(np.diff(groups, prepend=-1)), groups.size)))
    return np.concatenate(found)


def _number_of(coded: Coded | None) -> int:
    return max(len(coded.labels), 1) if coded is not None else 1


def beyond_boundaries(table: Records, outcome: Outcome) -> dict[str, int]:
    """Count the released cells beyond the boundary of their original value, of each attribute that has boundaries."""
    bounded = {
        column.name: boundary
        for column in outcome.columns
        if (boundary := table.columns[column.name].boundary) is not None
    }
    if not bounded:
        return {}
    return dict(zip(bounded, table.chunks.total(_CountBeyond(outcome, bounded)), strict=True))


@dataclass(frozen=True, eq=False)
class _CountBeyond:
    """Counts the released cells beyond the boundary of the value that they stand for, of each attribute."""

    outcome: Outcome
    bounded: Mapping[str, Boundary]

    def __call__(self, chunk: Chunk) -> tuple[int, ...]:
        rows = self.outcome.rows(chunk)
        columns = {column.name: column for column in self.outcome.columns}
        counts = []
        for name, boundary in self.bounded.items():
            codes, ranks = self.outcome.codes[name](chunk), chunk[ranks_of(name)]
            if rows is not None:
                codes, ranks = codes.take(rows), ranks.take(rows)
            lo, hi = columns[name].lo.take(codes), columns[name].hi.take(codes)
            counts.append(int(np.count_nonzero(boundary.exceeded(ranks, lo, hi))))
        return tuple(counts)


@dataclass(frozen=True, eq=False)
class _ReleasedCounts:
    """Counts the released rows by released code, and by original rank, of each column."""

    outcome: Outcome
    sizes: Mapping[str, int]

    def __call__(self, chunk: Chunk) -> tuple[tuple[Counts, ...], tuple[Counts, ...]]:
        rows = self.outcome.rows(chunk)
        counts, ranks = [], []
        for column in self.outcome.columns:
            codes, values = self.outcome.codes[column.name](chunk), chunk[ranks_of(column.name)]
            if rows is not None:
                codes, values = codes.take(rows), values.take(rows)
            counts.append(value_counts(codes, len(column.labels)))
            ranks.append(value_counts(values, self.sizes[column.name]))
        return tuple(counts), tuple(ranks)


@dataclass(frozen=True)
class _CountRanks:
    """Counts all rows by original rank, of each column."""

    sizes: Mapping[str, int]

    def __call__(self, chunk: Chunk) -> tuple[Counts, ...]:
        return tuple(value_counts(chunk[ranks_of(name)], size) for name, size in self.sizes.items())


def released_values(table: Records, outcome: Outcome, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Count the released rows with each value that they have, of columns that are not generalised."""
    coded = [table.coded[name] for name in dict.fromkeys(names)]
    counts = table.chunks.total(_ReleasedValues(outcome, {each.name: len(each.labels) for each in coded}))
    return {
        each.name: {label: n for label, n in zip(each.labels, rows.tolist(), strict=True) if n}
        for each, rows in zip(coded, counts, strict=True)
    }


def values_before(
    everybody: Records,
    table: Records,
    outcome: Outcome,
    requirement: Requirement,
    names: Iterable[str],
) -> CountsBefore:
    """Count the values of these columns over all complete rows, where they may be shown (`sensitive_values.py`).

    `table` has the records of the outcome, some of which it may leave out.
    """
    if table is everybody and outcome.released is None:
        return {}
    parts = requirement.parts
    whole = with_products(everybody, (part.sensitive for part in parts))  # numbered as when the method ran
    sensitive = list(dict.fromkeys(part.sensitive for part in parts if part.sensitive is not None))
    sizes = {name: len(whole.coded[name].labels) for name in sensitive}
    kept = dict(zip(sensitive, table.chunks.total(_ReleasedValues(outcome, sizes)), strict=True))
    n_kept = int(sum(each.counts.sum() for each in groups_by_class(table, outcome, None)))

    def satisfied(part: GroupRequirement) -> bool:
        if part.sensitive is None:
            rest: Counts = np.array([[len(everybody) - n_kept]], np.int64)
            return bool(part.holds(rest, np.array([[len(everybody)]], np.int64))[0])
        all_of_it = whole.whole[part.sensitive]
        rest = all_of_it - kept[part.sensitive].reshape(1, -1)
        return bool(part.holds(rest, all_of_it, whole.coded[part.sensitive].labels)[0])

    if n_kept == len(everybody) or not all(map(satisfied, parts)):
        return {}
    return {
        name: dict(zip(everybody.coded[name].labels, everybody.whole[name][0].tolist(), strict=True))
        for name in names
    }


def values_of_groups(
    table: Records, outcome: Outcome, names: Sequence[str], n_groups: int
) -> dict[str, tuple[tuple[str, ...], Counts]]:
    """Count how often each group has each value of these columns; of those for which that is not too much."""
    most_cells = min(_MOST_CELLS, table.engine.summing_memory // _BYTES_PER_CELL)
    found = {}
    for name in dict.fromkeys(names):
        labels = table.coded[name].labels
        if n_groups * len(labels) > most_cells:
            continue
        histogram = np.zeros((n_groups, len(labels)), np.int64)
        first = 0  # in the order of `group_sizes`
        for counted in groups_by_class(table, outcome, table.coded[name]):
            groups, values = np.divmod(counted.keys, _number_of(table.coded[name]))
            number = np.cumsum(np.diff(groups, prepend=-1) > 0) - 1 + first
            histogram[number, values] = counted.counts
            first = int(number[-1]) + 1 if number.size else first
        found[name] = (labels, histogram)
    return found


@dataclass(frozen=True, eq=False)
class _ReleasedValues:
    outcome: Outcome
    sizes: Mapping[str, int]

    def __call__(self, chunk: Chunk) -> tuple[Counts, ...]:
        rows = self.outcome.rows(chunk)
        found = {name: chunk[codes_of(name)] for name in self.sizes}
        return tuple(
            value_counts(codes if rows is None else codes.take(rows), self.sizes[name])
            for name, codes in found.items()
        )


def groups_by_class(table: Records, outcome: Outcome, classes: Coded | None) -> Iterator[SparseCounts]:
    """Count the released rows by (group, class), whole groups at a time: their rows agree on every released attribute.

    Groups are numbered by their codes. Where those together exceed 64 bits, the groups of some columns are numbered
    first, over all chunks.
    """
    n_classes = _number_of(classes)
    kernel, _ = _group_keys(table, outcome, n_classes)
    code = codes_of(classes.name) if classes is not None else None
    counting = _CountKeys(kernel, code, n_classes)
    yield from counted_shares(table.chunks, counting, table.engine, n_classes)


def codes_of_groups(table: Records, outcome: Outcome) -> tuple[Ints, ...]:
    """Return for each released column the code that every group has, in the order of `groups_by_class`."""
    kernel, numbered = _group_keys(table, outcome, 1)
    keys = counted_keys(table.chunks, _CountKeys(kernel), table.engine).keys
    codes: list[Ints] = []
    for at in range(len(outcome.columns) - 1, -1, -1):
        size = max(len(outcome.columns[at].labels), 1)
        keys, code = np.divmod(keys, size)
        codes.append(code.astype(np.min_scalar_type(size - 1)))
        if at in numbered:  # what is left is a number among the keys of the columns before
            keys = numbered[at][keys]
    return tuple(reversed(codes))


def number_groups(table: Records, outcome: Outcome, name: str, most: int) -> Counts:
    """Number the groups of a release over all chunks; return their sizes. More than the most get no numbers."""
    kernel, _ = _group_keys(table, outcome, 1)
    counted = counted_keys(table.chunks, _CountKeys(kernel), table.engine)
    if counted.keys.size <= most:
        table.engine.insist_on_summing(
            _BYTES_PER_GROUP * counted.keys.size, f"{counted.keys.size:,} combinations of values"
        )
        table.chunks.change(_NumberKeys(kernel, counted.keys, name))
    return counted.counts


def _group_keys(table: Records, outcome: Outcome, spare: int) -> tuple[_GroupKeys, dict[int, Counts]]:
    """Return the kernel of each row's key; `spare` times as many keys still fit 64 bits.

    And where the keys of the columns before one had to be numbered, those keys, in the order of their numbers.
    """
    kernel = _GroupKeys(outcome)
    numbered: dict[int, Counts] = {}
    for at, column in enumerate(outcome.columns):
        if kernel.bound * len(column.labels) * spare > _LARGEST_KEY:
            found = counted_keys(table.chunks, _CountKeys(kernel), table.engine).keys
            table.chunks.change(_NumberKeys(kernel, found))
            numbered[at] = found
            kernel = _GroupKeys(outcome, at, at, max(found.size, 1), True)
        kernel = _GroupKeys(
            outcome, kernel.first, at + 1, kernel.bound * max(len(column.labels), 1), kernel.numbered
        )
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


@dataclass(frozen=True, eq=False)
class _CountKeys:
    keys: _GroupKeys
    classes: str | None = None
    n_classes: int = 1

    def __call__(self, chunk: Chunk) -> SparseCounts:
        keys = self.keys(chunk)
        if self.classes is not None:
            rows, codes = self.keys.outcome.rows(chunk), chunk[self.classes]
            keys = keys * self.n_classes + (codes if rows is None else codes.take(rows))
        return SparseCounts.of(keys, self.keys.bound * self.n_classes)


@dataclass(frozen=True, eq=False)
class _NumberKeys:
    """Gives each released row the number of its key among those that occur in any chunk."""

    keys: _GroupKeys
    found: Counts
    name: str = _GROUPS

    def __call__(self, chunk: Chunk) -> Arrays:
        numbers = look_up(self.keys(chunk), self.found, np.arange(self.found.size), self.keys.bound)
        return {self.name: numbers.astype(np.int32)}
