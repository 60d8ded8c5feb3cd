"""The common records of a party whose table is in an engine's chunks: what `CommonRecords` is in one memory.

The party's process has the order of the common records while they are put in order, and the classes, which all parties
know; everything else stays in the chunks until it is handed in.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.anonymize.outcome import by_cut
from masquerade.anonymize.preparation import refuse_violating_whole
from masquerade.data.column import Coded, Column, Generalised
from masquerade.data.records import Records, codes_of, ranks_of
from masquerade.data.table import Table
from masquerade.engine.chunks import Arrays, Chunk, Engine, Kernel
from masquerade.engine.counts import Counts, Ints, Rows, value_counts
from masquerade.errors import Bug
from masquerade.net.progress import Stage
from masquerade.net.script import Script
from masquerade.protocol.classes import share_class
from masquerade.protocol.common_records import (
    CommonRecords,
    find_common_records,
    find_common_rows,
    refuse_nobody,
)
from masquerade.protocol.contract import Contract
from masquerade.protocol.listed_values import refuse_unknown_to
from masquerade.protocol.method import Seat
from masquerade.protocol.own_chunks import OwnChunks, cells_of, in_common_order
from masquerade.protocol.sensitive_checks import remote_parts
from masquerade.utility.comparison import Comparison
from masquerade.utility.queries import Query, answers, error_of_holder, queries_of_holder


def find_records(seat: Seat, preparing: Stage) -> Script[CommonRecords]:
    """Align the tables and share the class, wherever this party's rows are; see `find_common_records`."""
    if seat.chunks is None:
        return (yield from find_common_records(seat, preparing))
    name, contract = seat.name, seat.contract
    refuse_unknown_to(name, contract, seat.chunks)
    started = time.perf_counter()
    rows = yield from find_common_rows(seat)
    refuse_nobody(contract, rows)
    chunks = in_common_order(seat.chunks, rows)
    aligned = time.perf_counter()
    seat.on_stage(preparing)
    n_records, class_name = len(chunks), contract.class_name
    held = None
    if class_name is not None and class_name in contract.columns_needed(name):
        held = _with_codes(chunks.table, class_name)
    sensitive = _known_sensitive(name, contract, chunks, held)
    if held is not None:
        seat.before_showing()
    classes = yield from share_class(name, contract, held, n_records)
    if held is None and classes is not None:
        chunks = replace(chunks, table=_with_classes(chunks.table, classes))
        sensitive = _known_sensitive(name, contract, chunks, classes)
    seconds = {"align": aligned - started}
    return EngineRecords(seat.table, classes, sensitive, seconds, aligned, chunks=chunks)


@dataclass(frozen=True)
class EngineRecords(CommonRecords):
    """A party's rows of the common records, on its engine; `own` has no row."""

    chunks: OwnChunks = field(kw_only=True)

    @property
    def n_records(self) -> int:
        """How many records all this is about."""
        return len(self.chunks)

    @property
    def n_common(self) -> int:
        """How many records are common."""
        return len(self.chunks)

    @property
    def has_raw_columns(self) -> bool:
        """Whether the party's process has its raw columns."""
        return False

    def column(self, name: str) -> Column:
        """Return one of this party's columns, without ranks."""
        return self.chunks.table.columns[name]

    def only(self, rows: Rows) -> CommonRecords:
        """Refuse to leave anybody out: who is left out is found out on whole columns."""
        raise Bug("boundaries are tested in one memory")

    def on_engine(self, engine: Engine, columns: Sequence[Column]) -> Records:
        """Return the chunks that there are."""
        return self.chunks.table

    def released(self, column: Generalised) -> Generalised:
        """Collect the codes of a column that is generalised as a whole, chunk by chunk."""
        return replace(column, codes=_collected(self.chunks.table, by_cut(column)))

    @property
    def left(self) -> Table:
        """The columns that are released as they are, collected chunk by chunk."""
        columns = {}
        for name, values in self.chunks.cells.items():
            numbers = _collected(self.chunks.table, _Array(cells_of(name)))
            columns[name] = pa.chunked_array([values.take(pa.array(numbers))])
        return Table(pa.table(columns), self.own.schema, origin=self.own.origin)

    def comparison(self, released: tuple[Generalised, ...]) -> Comparison:
        """Return the released columns beside counts of their originals."""
        table = self.chunks.table
        originals = tuple(table.columns[each.name] for each in released)
        sizes = {ranks_of(each.name): each.domain.size for each in originals}
        counts = table.chunks.total(_RankCounts(sizes)) if sizes else ()
        return _CountedRanks(originals, released, None, None, {}, n_rows=len(table), ranks=counts)

    def query_error(self, comparison: Comparison) -> int | None:
        """Return the error of queries about our columns, answered chunk by chunk."""
        table = self.chunks.table
        queries = queries_of_holder(comparison)
        if queries is None:
            return None
        ends = np.cumsum(table.sizes)
        kernels = [
            _Answers(
                queries,
                comparison.originals,
                tuple(replace(each, codes=each.codes[end - size : end]) for each in comparison.released),
            )
            for size, end in zip(table.sizes, ends.tolist(), strict=True)
        ]
        true, estimated = np.sum(table.chunks.each(kernels), axis=0)
        return error_of_holder(true, estimated, len(table))


@dataclass(frozen=True, eq=False)
class _CountedRanks(Comparison):
    """A comparison whose originals have no rows here."""

    n_rows: int = 0
    ranks: tuple[Counts, ...] = ()  # the records with each original rank, by column

    @property
    def _seen(self) -> int:
        return self.n_rows

    def rank_counts(self, at: int) -> Counts:
        """Return the number of records with each original rank, in the column at this place."""
        return self.ranks[at]


def _known_sensitive(
    name: str, contract: Contract, chunks: OwnChunks, classes: Coded | None
) -> dict[str, Coded]:
    """Return the sensitive columns that this party knows; RequirementUnreachable if all records in one group fail.

    Codes come along where requirements on them are tested under sharing, and this party holds them.
    """
    parts, table = contract.parts, chunks.table
    mine = {column.name for column in contract.columns_of(name)}
    fetched = {part.sensitive for part in remote_parts(contract)}
    sensitive = {
        part.sensitive: _with_codes(table, part.sensitive)
        if part.sensitive in fetched
        else table.coded[part.sensitive]
        for part in parts
        if part.sensitive is not None and part.sensitive in mine
    }
    if classes is not None and contract.class_name in contract.requirement.sensitive_attributes:
        sensitive[classes.name] = classes  # all parties know it, whichever holds it
    judged = [part for part in parts if part.sensitive is None or part.sensitive in sensitive]
    whole = {each: (table.whole[each], coded.labels) for each, coded in sensitive.items()}
    refuse_violating_whole("the common records", len(table), judged, whole)
    return sensitive


def _with_codes(table: Records, name: str) -> Coded:
    """Fetch the codes of a column."""
    return replace(table.coded[name], codes=_collected(table, _Array(codes_of(name))))


def _with_classes(table: Records, classes: Coded) -> Records:
    """Let the chunks have the classes that another party shares."""
    ends = np.cumsum(table.sizes)
    table.chunks.change(
        [
            _Put(codes_of(classes.name), classes.codes[end - size : end])
            for size, end in zip(table.sizes, ends.tolist(), strict=True)
        ]
    )
    coded = {**table.coded, classes.name: replace(classes, codes=np.empty(0, np.int32))}
    return replace(table, coded=coded, whole={**table.whole, classes.name: classes.histogram()})


def _collected(table: Records, kernel: Kernel[Ints]) -> NDArray[np.int32]:
    """Put together an array of all chunks, one chunk at a time."""
    found = np.empty(len(table), np.int32)
    first = 0
    for at, size in enumerate(table.sizes):
        found[first : first + size] = table.chunks.only(at, kernel)
        first += size
    return found


@dataclass(frozen=True)
class _Array:
    name: str

    def __call__(self, chunk: Chunk) -> Ints:
        found: Ints = chunk[self.name]
        return found


@dataclass(frozen=True, eq=False)
class _Put:
    name: str
    values: Ints

    def __call__(self, chunk: Chunk) -> Arrays:
        return {self.name: self.values}


@dataclass(frozen=True)
class _RankCounts:
    sizes: Mapping[str, int]

    def __call__(self, chunk: Chunk) -> tuple[Counts, ...]:
        return tuple(value_counts(chunk[name], size) for name, size in self.sizes.items())


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers queries about a chunk's records, truly and by their released values."""

    queries: Sequence[Query]
    originals: tuple[Column, ...]
    released: tuple[Generalised, ...]

    def __call__(self, chunk: Chunk) -> NDArray[np.float64]:
        originals = tuple(replace(each, ranks=chunk[ranks_of(each.name)]) for each in self.originals)
        return np.stack(answers(Comparison(originals, self.released, None, None, {}), self.queries))
