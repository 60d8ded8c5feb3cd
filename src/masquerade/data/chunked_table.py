"""A table in chunks: the ranks and codes of its rows, wherever an engine keeps them, in domains that all chunks share.

Each chunk is encoded by itself, as a table of its own (`encode.py`), and tells which values it has. Those of all
chunks together are the domain; where that differs from a chunk's own, its ranks are renumbered. So the files are read
once, and ranks, labels and domains are those that the whole table would have.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.column import Coded, Column, Domain
from masquerade.data.continuum import MISSING_CELL, Continuum
from masquerade.data.encode import MISSING_VALUES, labels_in_order, leaves_in_order
from masquerade.data.schema import Attribute, Schema
from masquerade.data.table import Missing, Origin, Table
from masquerade.data.taxonomy import FLAT, Taxonomy
from masquerade.engine.chunks import Arrays, Chunk, Chunks, Engine
from masquerade.engine.counts import Counts, Flags, value_counts
from masquerade.engine.local import LocalEngine
from masquerade.engine.numbering import distinct_values
from masquerade.errors import Problem

Labels = tuple[str, ...]

_NOBODY: NDArray[np.int32] = np.empty(0, np.int32)
_ROW_GROUP = 4  # times the rows of a chunk: most tables need less than is reckoned with
_BYTES_PER_CELL = (
    48  # while a chunk is encoded: Arrow's cells, their codes, and the 64-bit numbers on the way
)


class TablePart(Protocol):
    """Some rows of a table, which whoever counts them reads: part of a file (`parquet_parts.py`), or of a query."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def read(self, columns: Sequence[str], coded: Container[str] = ()) -> pa.Table:
        """Read these columns; text columns in `coded` are dictionary-encoded."""

    def origin(self, missing_values: Sequence[str]) -> Origin:
        """Return how errors name its rows."""


class Parted(Protocol):
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


KEPT = "kept"  # which rows of its part a chunk has; absent where all


@dataclass(frozen=True, eq=False)
class ChunkedTable:
    """The complete rows of a table: ranks of the columns to generalise, codes of others that are counted."""

    name: str  # of its source
    schema: Schema
    engine: Engine
    chunks: Chunks
    parts: tuple[TablePart, ...]  # what each chunk was read from
    sizes: tuple[int, ...]  # the rows of each chunk
    rows_read: int
    columns: Mapping[str, Column]  # without ranks: those are in the chunks
    coded: Mapping[str, Coded]  # without codes
    whole: Mapping[str, Counts]  # the histogram of each coded column
    wanted: Wanted

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def missing(self) -> Missing:
        """What is done with rows that lack a cell."""
        return self.wanted.missing

    @property
    def dropped_rows(self) -> int:
        """The number of rows dropped because a used cell was missing."""
        return self.rows_read - len(self)


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


def rows_of_chunks(
    files: Parted, n_columns: int, engine: Engine, bytes_per_cell: int = _BYTES_PER_CELL
) -> int:
    """Return how many rows of `n_columns` a chunk may have; refuse files whose row groups do not fit the memory."""
    rows = engine.rows_at_once(bytes_per_cell * n_columns)
    most, path = files.largest_group
    if most > _ROW_GROUP * rows and isinstance(engine, LocalEngine):
        engine.refuse_memory(
            most / (_ROW_GROUP * rows),
            f"; a row group of {Path(path).name} has {most:,} rows of {n_columns} columns: give more, or write the "
            "file with smaller row groups",
        )
    return rows


def read_chunks(files: Parted, wanted: Wanted, engine: Engine) -> ChunkedTable:
    """Read the parts of a table into an engine's chunks."""
    parts = parts_for(files, wanted, engine)
    chunks, told = engine.load([ReadPart(part, wanted) for part in parts])
    return joined_chunks(files.name, wanted, engine, parts, chunks, told)


def parts_for(files: Parted, wanted: Wanted, engine: Engine) -> Sequence[TablePart]:
    """Cut a table into parts that fit an engine's chunks."""
    rows = rows_of_chunks(files, len(wanted.used), engine)
    engine.check_files([str(path) for path in files.paths])
    return files.parts(rows)


def joined_chunks(
    source: str,
    wanted: Wanted,
    engine: Engine,
    parts: Sequence[TablePart],
    chunks: Chunks,
    told: Sequence[Told],
) -> ChunkedTable:
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
    changes = [_Renumber.between(each, merged, labels) for each in told]
    if any(change.tables for change in changes):
        chunks.change(changes)
    columns = {name: Column(name, _NOBODY, domain) for name, domain in merged.items()}
    for name, column in columns.items():
        if wanted.schema[name].is_bounded:
            boundary = wanted.schema[name].boundary(column.domain)
            columns[name] = Column(name, _NOBODY, column.domain, boundary)
    coded = {name: Coded(name, _NOBODY, found) for name, found in labels.items()}
    whole = chunks.total(Histograms({name: len(found) for name, found in labels.items()}))
    return ChunkedTable(
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


@dataclass(frozen=True, eq=False)
class _Renumber:
    """Gives a chunk's ranks and codes the numbers that they have in the whole table."""

    tables: dict[str, NDArray[Any]] = field(default_factory=dict)  # by the name of an array

    @classmethod
    def between(cls, told: Told, domains: Mapping[str, Domain], labels: Mapping[str, Labels]) -> _Renumber:
        tables = {}
        for name, domain in domains.items():
            if told.rows and (table := _places(told.domains[name], domain)) is not None:
                tables[ranks_of(name)] = _narrow(table, domain.size)
        for name, known in labels.items():
            if told.labels[name] != known:
                place = {label: at for at, label in enumerate(known)}
                numbers = np.array([place[label] for label in told.labels[name]], np.int64)
                tables[codes_of(name)] = _narrow(numbers, len(known))
        return cls(tables)

    def __call__(self, chunk: Chunk) -> Arrays:
        return {name: table.take(chunk[name]) for name, table in self.tables.items()}


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
        return Continuum(np.empty(0, np.int64)) if attribute.taxonomy is None else _given(attribute)
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


def _given(attribute: Attribute) -> Domain:
    return attribute.taxonomy if isinstance(attribute.taxonomy, Taxonomy) else Taxonomy.flat(["*"])


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
