"""A party's table that never is in one memory: read in chunks, and put into the common order by an engine.

Of each row an engine has the ranks of what is generalised, the codes of classes and sensitive values, and the number of
each cell that is released as it is. What comes to the party's process are the identifiers, because it aligns them; the
different values of each column; and from then on counts, and what it sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from masquerade.data import (
    Coded,
    Column,
    Missing,
    Origin,
    Partitioned,
    Records,
    Schema,
    TablePart,
    Told,
    Wanted,
    codes_of,
    complete_rows,
    encoded,
    joined_chunks,
    merged_labels,
    narrowed,
    parts_for,
    ranks_of,
)
from masquerade.engine import Arrays, Chunk, Counts, Engine, Ints, Rows, rows_by_rank, value_counts
from masquerade.errors import DataError
from masquerade.protocol.align.identifiers import Identifiers, identifiers
from masquerade.protocol.contract import Contract, agreed_schema

COMMON = "the common records"  # as errors call them
_PLACE = "place"  # of a row among the common records
_BYTES_PER_CELL = 16
_NOBODY: NDArray[np.int32] = np.empty(0, np.int32)


def cells_of(name: str) -> str:
    """Return under which name a chunk has the number of each cell of a column that is released as it is."""
    return f"cells {name}"


@dataclass(frozen=True)
class Identified:
    """How a party's rows are identified, and which of its columns are released as they are."""

    column: str
    normalize: str
    released: tuple[str, ...]


def why_whole(contract: Contract, missing: Missing) -> str:
    """Return why a party of a session needs its whole table in one memory; "" where chunks are enough."""
    if contract.bounded:
        return "boundaries of generalization are tested on whole columns"
    if any(each.min_generalization or each.min_width is not None for each in contract.attributes):
        return "attributes with a least generalization are made coarser on whole columns"
    return 'of tables with missing = "keep" no chunk knows all values' if missing == "keep" else ""


def counted_columns(name: str, contract: Contract) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a party's columns that are generalised, and those whose values are counted."""
    own = {column.name for column in contract.columns_of(name)}
    ranked = tuple(column.name for column in contract.qid_columns if column.name in own)
    sensitive = {part.sensitive for part in contract.parts} & own
    needed = contract.columns_needed(name)
    return ranked, tuple(each for each in needed if each == contract.class_name or each in sensitive)


def wanted_of_party(
    name: str, contract: Contract, schema: Schema, identifier: str, missing: Missing, missing_values: Sequence[str]
) -> tuple[Wanted, Identified]:
    """Return what a contract asks of a party's rows; `schema` is the party's own, before anything was agreed."""
    needed = contract.columns_needed(name)
    ranked, counted = counted_columns(name, contract)
    released = tuple(each for each in contract.handed_in_by(name) if each not in ranked)
    used = tuple(dict.fromkeys([*needed, identifier]))
    agreed = agreed_schema(schema, contract.attributes)
    wanted = Wanted(agreed, used, ranked, counted, missing, tuple(missing_values))
    return wanted, Identified(identifier, contract.normalize, released)


def read_own_records(
    files: Partitioned, wanted: Wanted, engine: Engine, how: Identified
) -> tuple[Records, Identifiers]:
    """Read the parts of a party's table into an engine's chunks; return them, and each row's identifier."""
    parts = parts_for(files, wanted, engine)
    chunks, told = engine.load([partial(_read_own_part, part=part, wanted=wanted, how=how) for part in parts])
    table = joined_chunks(files.name, wanted, engine, parts, chunks, [each.told for each in told])
    if not len(table):
        raise DataError.about(files.name, "no complete row is left")
    cells = {}
    for name in how.released:
        found = [each.cells[name] for each in told]
        cells[name] = pa.concat_arrays(found).unique()
        chunks.change(
            [partial(_number_rows, name=cells_of(name), numbers=_numbers(each, cells[name])) for each in found]
        )
    ids = Identifiers.joined([each.identifiers for each in told])
    _refuse_doubled(ids, [(each.rows, part, wanted) for each, part in zip(told, parts, strict=True)], how)
    return replace(table, cells=cells), ids


@dataclass(frozen=True, eq=False)
class _ToldOwn:
    told: Told
    cells: Mapping[str, pa.Array]
    identifiers: Identifiers
    rows: NDArray[np.intp] | None  # of the part that are complete; None for all


def _read_own_part(part: TablePart, wanted: Wanted, how: Identified) -> tuple[Arrays, _ToldOwn]:
    """The loader of a chunk."""
    complete = complete_rows(part, wanted)
    ids = identifiers(complete, how.column, how.normalize)
    arrays, told = encoded(complete, wanted)
    cells = {}
    for name in how.released:
        column = complete.cells(name)
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        found = plain.combine_chunks().dictionary_encode(null_encoding="encode")
        arrays[cells_of(name)] = found.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        cells[name] = found.dictionary
    arrays[_PLACE] = np.zeros(len(complete), np.uint8)  # even of a party that has nothing but identifiers
    return arrays, _ToldOwn(told, cells, ids, complete.source_rows)


def _numbers(some: pa.Array, everything: pa.Array) -> Counts:
    found: Counts = pc.index_in(some, value_set=everything).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _number_rows(chunk: Chunk, *, name: str, numbers: Counts) -> Arrays:
    """Give cells the numbers that they have in the whole table."""
    return {name: numbers.take(chunk[name]).astype(np.int32)}


def _refuse_doubled(
    ids: Identifiers, parts: Sequence[tuple[NDArray[np.intp] | None, TablePart, Wanted]], how: Identified
) -> None:
    """Refuse two rows with one identifier, which may be in different parts; the error does not show it."""
    if not ids.may_repeat():
        return
    place: dict[bytes, int] = {}
    for row, each in enumerate(ids):
        if (first := place.setdefault(each, row)) != row:
            one, other = (_origin(at, parts) for at in (first, row))
            text = f"the same identifier as row {one[0].first_row + one[1] + 1} of {one[0].name}"
            raise DataError(other[0].problem(f"{text}; each identifier must stand in one row", other[1], how.column))


def _origin(row: int, parts: Sequence[tuple[NDArray[np.intp] | None, TablePart, Wanted]]) -> tuple[Origin, int]:
    """Return where a complete row came from: how errors name its part, and its place there."""
    for rows, part, wanted in parts:
        size = part.rows if rows is None else rows.size
        if row < size:
            return part.origin(wanted.missing_values), row if rows is None else int(rows[row])
        row -= size
    raise IndexError(row)


def in_common_order(table: Records, rows: Rows) -> Records:
    """Return these rows, in this order, in chunks of their own; domains and labels are those of just these rows.

    The chunks that they were in are gone.
    """
    engine = table.engine
    place: Ints = np.full(len(table), -1, np.int32 if rows.size < 1 << 31 else np.int64)
    place[rows] = np.arange(rows.size, dtype=place.dtype)
    names = (*map(ranks_of, table.columns), *map(codes_of, table.coded), *map(cells_of, table.cells))
    per = engine.rows_at_once(_BYTES_PER_CELL * (len(names) + 1))
    n_chunks = max(1, -(-rows.size // per))
    ends = np.cumsum(table.sizes)
    chunks = table.chunks.exchange(
        [
            partial(_deal, place=place[end - size : end], per=per, n_chunks=n_chunks, names=names)
            for size, end in zip(table.sizes, ends.tolist(), strict=True)
        ],
        n_chunks,
    )
    chunks.change(partial(_in_order, names=names))
    table.chunks.drop()
    present = chunks.total(
        partial(
            _present_rows,
            sizes={
                **{ranks_of(each.name): each.domain.size for each in table.columns.values()},
                **{codes_of(each.name): len(each.labels) for each in table.coded.values()},
            },
        )
    )
    counts = dict(zip((*map(ranks_of, table.columns), *map(codes_of, table.coded)), present, strict=True))
    columns: dict[str, Column] = {}
    numbers: dict[str, Counts] = {}
    for name, column in table.columns.items():
        domain, numbers[ranks_of(name)] = narrowed(table.schema[name], column.domain, counts[ranks_of(name)] > 0)
        columns[name] = replace(column, domain=domain)
    coded, whole = {}, {}
    for name, each in table.coded.items():
        had = dict(zip(each.labels, counts[codes_of(name)].tolist(), strict=True))
        labels = merged_labels([tuple(label for label, n in had.items() if n)])
        number = {label: at for at, label in enumerate(labels)}
        coded[name] = Coded(name, _NOBODY, labels)
        whole[name] = np.array([[had[label] for label in labels]], np.int64)
        numbers[codes_of(name)] = np.array([number.get(label, 0) for label in each.labels], np.int64)
    chunks.change(partial(_renumbered, numbers=numbers))
    sizes = [min(per, rows.size - at) for at in range(0, max(rows.size, 1), per)]
    return replace(
        table,
        name=COMMON,
        chunks=chunks,
        parts=(),
        sizes=tuple(sizes),
        rows_read=rows.size,
        columns=columns,
        coded=coded,
        whole=whole,
    )


def _deal(chunk: Chunk, *, place: Ints, per: int, n_chunks: int, names: tuple[str, ...]) -> list[Arrays]:
    """Send each common record of a chunk to the chunk where its place is."""
    rows = np.flatnonzero(place >= 0)
    places = place[rows]
    target = places // per
    order = rows_by_rank(target, n_chunks)
    ends = np.cumsum(value_counts(target, n_chunks))
    pieces = []
    for at, end in enumerate(ends.tolist()):
        some = order[ends[at - 1] if at else 0 : end]
        piece = {name: chunk[name].take(rows[some]) for name in names}
        piece[_PLACE] = (places[some] - at * per).astype(np.int32)
        pieces.append(piece)
    return pieces


def _in_order(chunk: Chunk, *, names: tuple[str, ...]) -> Arrays:
    """Put the records of a chunk in their order."""
    place = chunk[_PLACE]
    made = {_PLACE: np.zeros(place.size, np.uint8)}
    for name in names:
        made[name] = np.empty(place.size, chunk[name].dtype)
        made[name][place] = chunk[name]
    return made


def _present_rows(chunk: Chunk, *, sizes: Mapping[str, int]) -> tuple[Counts, ...]:
    return tuple(value_counts(chunk[name], size) for name, size in sizes.items())


def _renumbered(chunk: Chunk, *, numbers: Mapping[str, Counts]) -> Arrays:
    return {
        name: table.astype(np.min_scalar_type(int(table.max(initial=0)))).take(chunk[name])
        for name, table in numbers.items()
    }
