"""Records: the rows of one table, or of one party, in chunks that stay where an engine keeps them.

A chunk has ranks of the columns to generalise and codes of others that are counted, in domains that all chunks share.
A table in memory is one chunk (`Records.of`), whose arrays are the table's own. What is in files is read part by part
(`read_chunks`): each chunk is encoded by itself, as a table of its own (`encode.py`), and tells which values it has.
Those of all chunks together are the domain; where that differs from a chunk's own, its ranks are renumbered. So the
files are read once, and ranks, labels and domains are those that the whole table would have.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.column import Coded, Column, Domain
from masquerade.data.continuum import MISSING_CELL, Continuum
from masquerade.data.encoding import MISSING_VALUES, labels_in_order, leaves_in_order
from masquerade.data.schema import Attribute, Schema
from masquerade.data.table import Combination, Missing, Origin, ProductColumn, Table
from masquerade.data.taxonomy import FLAT, Taxonomy
from masquerade.engine import (
    Arrays,
    Chunk,
    Chunks,
    Counts,
    Engine,
    Flags,
    Here,
    SparseCounts,
    distinct_values,
    look_up,
    renumber,
    value_counts,
)
from masquerade.errors import DataError, ParameterError, Problem

Labels = tuple[str, ...]

_NOBODY: NDArray[np.int32] = np.empty(0, np.int32)
_LARGEST_KEY = 1 << 62
_ROW, _CHUNK = "row", "chunk"  # where each gathered record came from
_ROW_GROUP = 4  # times the rows of a chunk: most tables need less than is reckoned with
_BYTES_PER_CELL = 48  # while a chunk is encoded: Arrow's cells, their codes, and the 64-bit numbers on the way


class TablePart(Protocol):
    """Some rows of a table, which whoever counts them reads: part of a file (`read_parquet.py`), or of a query."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def read(self, columns: Sequence[str], coded: Container[str] = ()) -> pa.Table:
        """Read these columns; text columns in `coded` are dictionary-encoded."""

    def origin(self, missing_values: Sequence[str]) -> Origin:
        """Return how errors name its rows."""


class Partitioned(Protocol):
    """A table that can be read in parts."""

    @property
    def name(self) -> str:
        """Where it is, for people."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it has."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that whoever reads parts must see."""

    @property
    def largest_group(self) -> tuple[int, str]:
        """The most rows that have to be read at once, and in which file."""

    def parts(self, most_rows: int) -> Sequence[TablePart]:
        """Cut it into parts of at most `most_rows` rows, as far as that is possible."""


def ranks_of(name: str) -> str:
    """Return under which name a chunk has the ranks of an attribute."""
    return f"ranks {name}"


def codes_of(name: str) -> str:
    """Return under which name a chunk has the codes of a column that is not generalised."""
    return f"codes {name}"


_ALL = "rows"  # an array that a chunk has, if no other
KEPT = "kept"  # which rows of its part a chunk has; absent where all


@dataclass(frozen=True, eq=False)
class Records:
    """The complete rows of a table: ranks of the columns to generalise, codes of others that are counted."""

    name: str  # of its source
    schema: Schema
    engine: Engine
    chunks: Chunks
    parts: tuple[TablePart, ...]  # what each chunk was read from; none where the rows are a table in memory
    sizes: tuple[int, ...]  # the rows of each chunk
    rows_read: int
    columns: Mapping[str, Column]  # without ranks: those are in the chunks
    coded: Mapping[str, Coded]  # without codes
    whole: Mapping[str, Counts]  # the histogram of each coded column
    wanted: Wanted
    table: Table | None = None  # the rows themselves, where they are in this memory
    # The different ones of each column that is released as it is, where chunks have their numbers.
    cells: Mapping[str, pa.Array] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, ranked: Iterable[str], coded: Iterable[str | None] = ()) -> Records:
        """Return the rows of a table that lacks no cell of these columns, as one chunk of its own ranks and codes."""
        columns = {each.name: each for each in table.columns(dict.fromkeys(ranked))}
        codes = {name: table.coded(name) for name in dict.fromkeys(coded) if name is not None}
        arrays: Arrays = {ranks_of(name): column.ranks for name, column in columns.items()}
        arrays |= {codes_of(name): each.codes for name, each in codes.items()}
        arrays[_ALL] = np.broadcast_to(np.uint8(0), len(table))  # of no size: how many rows there are
        engine = Here()
        wanted = Wanted(
            table.schema,
            tuple(dict.fromkeys([*columns, *codes])),
            tuple(columns),
            tuple(codes),
            "keep" if table.keeps_missing else "drop",
            table.origin.missing_values,
        )
        return cls(
            table.origin.name,
            table.schema,
            engine,
            engine.hold(arrays),
            (),
            (len(table),),
            table.rows_read,
            {name: replace(column, ranks=_NOBODY) for name, column in columns.items()},
            {name: replace(each, codes=_NOBODY) for name, each in codes.items()},
            {name: each.histogram() for name, each in codes.items()},
            wanted,
            table,
        )

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def at_hand(self) -> bool:
        """Whether all rows are one chunk in this memory, so that what is found of them may be kept."""
        return isinstance(self.engine, Here) and len(self.chunks) == 1

    @property
    def missing(self) -> Missing:
        """What is done with rows that lack a cell."""
        return self.wanted.missing

    @property
    def dropped_rows(self) -> int:
        """The number of rows dropped because a used cell was missing."""
        return self.rows_read - len(self)

    def coded_with_codes(self, name: str) -> Coded:
        """Return a column that is not generalised; with its codes where the rows are in this memory."""
        return self.coded[name] if self.table is None else self.table.coded(name)

    def together(self, who: str) -> Table:
        """Return all rows as one table, for whoever needs them at once."""
        if self.table is None:
            raise ParameterError(f'"{who}" needs the whole table in one memory; {self.name} is in chunks')
        return self.table


@dataclass(frozen=True)
class Wanted:
    """What is to be known of each row."""

    schema: Schema
    used: tuple[str, ...]  # columns in which a missing cell matters
    ranked: tuple[str, ...]
    coded: tuple[str, ...]
    missing: Missing = "drop"
    missing_values: tuple[str, ...] = MISSING_VALUES
    insisted: tuple[str, ...] = ()  # where a missing cell drops its row, even if others are kept


@dataclass(frozen=True)
class Told:
    """What a chunk's loader tells of it."""

    rows: int
    domains: Mapping[str, Domain]  # of its own values
    labels: Mapping[str, Labels]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class ReadPart:
    """The loader of a chunk."""

    part: TablePart
    wanted: Wanted

    def __call__(self) -> tuple[Arrays, Told]:
        """Read the part and encode its complete rows."""
        complete = complete_rows(self.part, self.wanted)
        arrays, told = encoded(complete, self.wanted)
        if (kept := complete.source_rows) is not None:
            arrays[KEPT] = kept.astype(np.int32)
        return arrays, told


def encoded(complete: Table, wanted: Wanted) -> tuple[Arrays, Told]:
    """Return the ranks and codes of complete rows, and what is to be known of them."""
    columns = complete.columns(wanted.ranked)
    coded = [complete.coded(name) for name in wanted.coded]
    arrays: Arrays = {ranks_of(each.name): _narrow(each.ranks, each.domain.size) for each in columns}
    arrays |= {codes_of(each.name): _narrow(each.codes, len(each.labels)) for each in coded}
    domains = {each.name: each.domain for each in columns}
    return arrays, Told(len(complete), domains, {each.name: each.labels for each in coded})


def complete_rows(part: TablePart, wanted: Wanted) -> Table:
    """Read a part, without the rows that lack a cell."""
    text = {*wanted.ranked, *wanted.coded}
    table = Table(part.read(wanted.used, text), wanted.schema, origin=part.origin(wanted.missing_values))
    if wanted.missing == "keep" and wanted.insisted:  # a record without a provider cannot be held against it
        table = table.complete(wanted.insisted)
    return table.complete(wanted.used, wanted.missing, ranked=wanted.ranked)


def rows_of_chunks(files: Partitioned, n_columns: int, engine: Engine, bytes_per_cell: int = _BYTES_PER_CELL) -> int:
    """Return how many rows of `n_columns` a chunk may have; refuse files whose row groups do not fit the memory."""
    rows = engine.rows_at_once(bytes_per_cell * n_columns)
    most, path = files.largest_group
    if most > _ROW_GROUP * rows:
        engine.refuse_memory(
            most / (_ROW_GROUP * rows),
            f"; a row group of {Path(path).name} has {most:,} rows of {n_columns} columns: give more, or write the "
            "file with smaller row groups",
        )
    return rows


def read_chunks(files: Partitioned, wanted: Wanted, engine: Engine) -> Records:
    """Read the parts of a table into an engine's chunks."""
    parts = parts_for(files, wanted, engine)
    chunks, told = engine.load([ReadPart(part, wanted) for part in parts])
    return joined_chunks(files.name, wanted, engine, parts, chunks, told)


def parts_for(files: Partitioned, wanted: Wanted, engine: Engine) -> Sequence[TablePart]:
    """Cut a table into parts that fit an engine's chunks."""
    rows = rows_of_chunks(files, len(wanted.used), engine)
    engine.check_files([str(path) for path in files.paths])
    return files.parts(rows)


def joined_chunks(
    source: str, wanted: Wanted, engine: Engine, parts: Sequence[TablePart], chunks: Chunks, told: Sequence[Told]
) -> Records:
    """Return the table of loaded chunks: ranks and codes get the numbers that they have in the whole table."""
    merged = {
        name: _merged(
            wanted.schema[name],
            [each.domains[name] for each in told if each.rows],
            {MISSING_CELL} if wanted.missing == "keep" else set(),
        )
        for name in wanted.ranked
    }
    labels = {name: merged_labels([each.labels[name] for each in told]) for name in wanted.coded}
    changes = [_numbers_in_whole(each, merged, labels) for each in told]
    if any(changes):
        chunks.change([partial(_renumbered, numbers=each) for each in changes])
    columns = {
        name: Column(name, _NOBODY, domain, wanted.schema[name].boundary(domain)) for name, domain in merged.items()
    }
    coded = {name: Coded(name, _NOBODY, found) for name, found in labels.items()}
    whole = chunks.total(Histograms({name: len(found) for name, found in labels.items()}))
    return Records(
        source,
        wanted.schema,
        engine,
        chunks,
        tuple(parts),
        tuple(each.rows for each in told),
        sum(part.rows for part in parts),
        columns,
        coded,
        {name: counts.reshape(1, -1) for name, counts in zip(labels, whole, strict=True)},
        wanted,
    )


def _numbers_in_whole(told: Told, domains: Mapping[str, Domain], labels: Mapping[str, Labels]) -> Arrays:
    """Return which number each rank and code of a chunk has in the whole table, where that is another one."""
    numbers = {}
    for name, domain in domains.items():
        if told.rows and (places := _places(told.domains[name], domain)) is not None:
            numbers[ranks_of(name)] = _narrow(places, domain.size)
    for name, known in labels.items():
        if told.labels[name] != known:
            place = {label: at for at, label in enumerate(known)}
            places = np.array([place[label] for label in told.labels[name]], np.int64)
            numbers[codes_of(name)] = _narrow(places, len(known))
    return numbers


def _renumbered(chunk: Chunk, *, numbers: Arrays) -> Arrays:
    return {name: each.take(chunk[name]) for name, each in numbers.items()}


@dataclass(frozen=True)
class Histograms:
    """Counts the rows with each code."""

    sizes: Mapping[str, int]

    def __call__(self, chunk: Chunk) -> tuple[Counts, ...]:
        """Return one array for each column."""
        return tuple(value_counts(chunk[codes_of(name)], size) for name, size in self.sizes.items())


def _merged(attribute: Attribute, domains: Sequence[Domain], apart: set[str]) -> Domain:
    """Return the domain of all values that some chunk has; those `apart` are cells that are missing."""
    if not domains:
        if attribute.taxonomy is None:
            return Continuum(np.empty(0, np.int64))
        return attribute.taxonomy if isinstance(attribute.taxonomy, Taxonomy) else Taxonomy.flat(["*"])
    first = domains[0]
    if isinstance(first, Continuum):
        values = np.concatenate([each.values for each in domains if isinstance(each, Continuum)])
        absent = any(each.missing for each in domains if isinstance(each, Continuum))
        return Continuum(distinct_values(values)[0], first.kind, first.lower, first.upper, absent)
    if first.source != FLAT:
        larger = [each for each in domains if isinstance(each, Taxonomy) and MISSING_CELL in each.rank]
        return larger[0] if larger else first
    leaves = {leaf for each in domains if isinstance(each, Taxonomy) for leaf in each.leaves}
    if leaves <= apart:
        return Taxonomy.flat([MISSING_CELL])
    found = Taxonomy.flat(leaves_in_order(attribute, leaves - apart))
    return found.with_missing(MISSING_CELL) if leaves & apart else found


def merged_labels(several: Sequence[Labels]) -> Labels:
    """Return the labels of several tables together, in order."""
    together = sorted({label for labels in several for label in labels})
    return tuple(labels_in_order(pa.array(together, pa.string())))


def narrowed(attribute: Attribute, domain: Domain, present: Flags) -> tuple[Domain, Counts]:
    """Return the domain of just the ranks that are present, none of them missing cells, and each rank's place in it."""
    if isinstance(domain, Continuum):
        kept = Continuum(domain.values[present[domain.first :]], domain.kind, domain.lower, domain.upper)
        return kept, np.maximum(np.cumsum(present) - 1, 0)
    if domain.source != FLAT:
        return domain, np.arange(domain.size)
    leaves = {leaf for leaf, here in zip(domain.leaves, present.tolist(), strict=True) if here}
    found = Taxonomy.flat(leaves_in_order(attribute, leaves))
    return found, np.array([found.rank.get(leaf, 0) for leaf in domain.leaves], np.int64)


def _places(own: Domain, merged: Domain) -> NDArray[Any] | None:
    """Return the rank in the merged domain of each rank of a chunk's own; None where they are the same."""
    if own is merged:
        return None
    if isinstance(own, Continuum):
        assert isinstance(merged, Continuum)
        if own.size == merged.size:
            return None
        places = np.searchsorted(merged.values, own.values) + merged.first
        return np.concatenate([np.zeros(own.first, places.dtype), places])
    assert isinstance(merged, Taxonomy)
    if own.leaves == merged.leaves:
        return None
    return np.array([merged.rank[leaf] for leaf in own.leaves], np.int64)


def _narrow(numbers: NDArray[Any], bound: int) -> NDArray[Any]:
    """Return the numbers in the narrowest type that holds all below `bound`."""
    return numbers.astype(np.min_scalar_type(max(bound - 1, 0)), copy=False)


def with_products(table: Records, names: Iterable[str | None]) -> Records:
    """Return the table with a column of codes for each of these names that is a product."""
    for name in dict.fromkeys(names):
        if not isinstance(name, ProductColumn):
            continue
        # A product of one column goes by that column's name, and has the same codes.
        if name not in table.coded or not isinstance(table.coded[name].name, ProductColumn):
            table = _with_product(table, name)
    return table


def _with_product(table: Records, name: ProductColumn) -> Records:
    members = [table.coded[each] for each in name.names]
    keys = _Combine(tuple((codes_of(each.name), max(len(each.labels), 1)) for each in members))
    if keys.bound > _LARGEST_KEY:
        text = f"{name} has more than 2^62 possible combinations of values; name fewer sensitive columns"
        raise DataError.about(table.name, text)
    counted = table.chunks.total(partial(_count, keys=keys))
    places = np.unravel_index(counted.keys, [bound for _, bound in keys.columns])
    labels = tuple(
        Combination([each.labels[place] for each, place in zip(members, row, strict=True)], row)
        for row in zip(*(each.tolist() for each in places), strict=True)
    )
    table.chunks.change(partial(_number_rows, keys=keys, found=counted.keys, name=codes_of(name)))
    return replace(
        table,
        coded={**table.coded, name: Coded(name, np.empty(0, np.int32), labels)},
        whole={**table.whole, name: counted.counts.reshape(1, -1)},
    )


@dataclass(frozen=True)
class _Combine:
    """One number for the codes that each row has in several columns, the first of which weighs most."""

    columns: tuple[tuple[str, int], ...]  # the array of codes, and their bound

    @property
    def bound(self) -> int:
        return prod(bound for _, bound in self.columns)

    def __call__(self, chunk: Chunk) -> Counts:
        keys = np.zeros(chunk[self.columns[0][0]].size, np.int64)
        for name, bound in self.columns:
            keys *= bound
            keys += chunk[name]
        return keys


def _count(chunk: Chunk, *, keys: _Combine) -> SparseCounts:
    return SparseCounts.of(keys(chunk), keys.bound)


def _number_rows(chunk: Chunk, *, keys: _Combine, found: Counts, name: str) -> Arrays:
    numbers = look_up(keys(chunk), found, np.arange(found.size), keys.bound)
    return {name: numbers.astype(np.int32)}


def packed(sizes: Counts, most_rows: int) -> Counts:
    """Put groups, one after the other, into bins of about `most_rows` rows; none is empty."""
    before = np.cumsum(sizes) - sizes
    bins, _ = renumber(before // max(most_rows, 1), int(before[-1]) + 1)
    return bins.astype(np.int64)


def gathered(table: Records, label: str, bin_of_group: Counts, names: Sequence[str]) -> Chunks:
    """Return a chunk for each bin, with these arrays of the records of its groups; records in bin -1 stay out.

    `label` is the array with each record's group. Of one chunk whose groups are all in one bin nothing is moved.
    """
    n_bins = int(bin_of_group.max()) + 1
    if len(table.chunks) == n_bins == 1 and not bin_of_group.any():
        return table.chunks.derive(partial(_pick_rows, names=tuple(names)))
    kernels = [
        partial(_pieces_sent, at=at, label=label, bin_of_group=bin_of_group, n_bins=n_bins, names=tuple(names))
        for at in range(len(table.chunks))
    ]
    return table.chunks.exchange(kernels, n_bins)


def sent_back(table: Records, groups: Chunks, firsts: Sequence[Sequence[int]], names: Sequence[str]) -> Chunks:
    """Return the numbers that gathered records got, as arrays of these names, chunk by chunk of the table.

    `firsts` has for each gathered chunk, by name, what is added to its numbers.
    """
    kernels = [
        partial(_send_back, firsts=dict(zip(names, each, strict=True)), n_chunks=len(table.chunks)) for each in firsts
    ]
    return groups.exchange(kernels, len(table.chunks))


def placed(table: Records, back: Chunks, others: Callable[[Chunk], Arrays]) -> None:
    """Put the numbers that came back beside their records; `others` gives the arrays for all other records."""
    table.chunks.join(back, partial(_place_rows, others=others))


def _pick_rows(chunk: Chunk, *, names: tuple[str, ...]) -> Arrays:
    """Some arrays of a chunk, as they are."""
    return {name: chunk[name] for name in names}


def _pieces_sent(
    chunk: Chunk, *, at: int, label: str, bin_of_group: Counts, n_bins: int, names: tuple[str, ...]
) -> list[Arrays]:
    """Send the records of each group to the chunk that will hold all of it."""
    bins = bin_of_group.take(chunk[label])
    order = np.argsort(bins, kind="stable")
    ends = np.cumsum(value_counts(bins + 1, n_bins + 1))
    pieces = []
    for first, last in pairwise(ends):
        rows = order[first:last]
        piece = {name: chunk[name].take(rows) for name in names}
        piece[_ROW] = rows.astype(np.int32)
        piece[_CHUNK] = np.full(rows.size, at, np.int32)
        pieces.append(piece)
    return pieces


def _send_back(chunk: Chunk, *, firsts: dict[str, int], n_chunks: int) -> list[Arrays]:
    """Send the numbers of each record to where the record came from."""
    numbers = {name: chunk[name] + np.int32(first) for name, first in firsts.items()}
    if _CHUNK not in chunk:  # all came from one chunk, and in its order
        return [numbers]
    source = chunk[_CHUNK]
    order = np.argsort(source, kind="stable")
    ends = np.concatenate([[0], np.cumsum(value_counts(source, n_chunks))])
    return [
        {
            _ROW: chunk[_ROW].take(order[first:last]),
            **{name: each.take(order[first:last]) for name, each in numbers.items()},
        }
        for first, last in pairwise(ends)
    ]


def _place_rows(chunk: Chunk, back: Chunk, *, others: Callable[[Chunk], Arrays]) -> Arrays:
    if _ROW not in back:
        return dict(back)
    arrays = others(chunk)
    for name, numbers in arrays.items():
        numbers[back[_ROW]] = back[name]
    return arrays
