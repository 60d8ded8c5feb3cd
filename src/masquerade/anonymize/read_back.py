"""A finished release in many files beside its original in chunks: what `compare` reads back for one table.

Row i of the release is row i of the complete rows, so each chunk reads its own rows of the files. Every cell must be a
value of its attribute and cover the original value; columns that are published unchanged must be those of the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from masquerade.data import (
    Column,
    Domain,
    Generalised,
    Outcome,
    Part,
    PartitionedFiles,
    Records,
    ReleasedCodes,
    Table,
    TablePart,
    Wanted,
    complete_rows,
    ranks_of,
)
from masquerade.engine import Arrays, Chunk, Counts, Ints, distinct_rows, look_up
from masquerade.utility import read_back, refuse_other_order, refuse_other_rows


@dataclass(frozen=True)
class _Piece:
    """Rows of a release's file that belong to one chunk."""

    part: Part
    first: int
    rows: int


def read_release_back(
    table: Records, release: PartitionedFiles, qid: Sequence[str], unchanged: Sequence[str]
) -> Outcome:
    """Return the release as the outcome that led to it; raise DataError where it is none of this table."""
    refuse_other_rows(release.name, release.rows, table.name, len(table))
    domains = {name: table.columns[name].domain for name in qid}
    same = tuple(name for name in unchanged if name in release.columns)
    pieces = _pieces(release, table.sizes)
    kernels = [
        partial(_read_back, part=part, wanted=table.wanted, pieces=own, domains=domains, unchanged=same)
        for part, own in zip(table.parts, pieces, strict=True)
    ]
    table.chunks.change(kernels)
    found = table.chunks.each(partial(_cells, names=tuple(qid)))
    columns, tables = [], {}
    for at, name in enumerate(qid):
        cells, _ = distinct_rows(np.concatenate([each[at] for each in found]))
        lo, hi = cells.T
        labels = tuple(map(domains[name].label, lo.tolist(), hi.tolist()))
        columns.append(Generalised(name, np.empty(0, np.int32), labels, lo, hi, domains[name]))
        tables[name] = lo * (domains[name].size + 1) + hi  # in ascending order
    table.chunks.change(
        partial(_number_rows, found=tables, widths={name: domain.size + 1 for name, domain in domains.items()})
    )
    return Outcome(tuple(columns), codes={name: ReleasedCodes(_codes(name)) for name in qid})


def _codes(name: str) -> str:
    return f"read back {name}"


def _ends(name: str) -> str:
    return f"cells read back {name}"


def _pieces(release: PartitionedFiles, sizes: Sequence[int]) -> list[tuple[_Piece, ...]]:
    """Return which rows of the files are those of each chunk."""
    parts = release.parts(1)
    starts = np.cumsum([0, *(part.rows for part in parts)]).tolist()
    found, first = [], 0
    for size in sizes:
        last = first + size
        own = []
        for part, start in zip(parts, starts, strict=False):
            before, after = max(first, start), min(last, start + part.rows)
            if before < after:
                own.append(_Piece(part, before - start, after - before))
        found.append(tuple(own))
        first = last
    return found


def _read_back(
    chunk: Chunk,
    *,
    part: TablePart,
    wanted: Wanted,
    pieces: tuple[_Piece, ...],
    domains: dict[str, Domain],
    unchanged: tuple[str, ...],
) -> Arrays:
    """Give each row the code of its released cell, among those of its chunk, and the chunk the ranges of the codes."""
    names = (*domains, *unchanged)
    original = complete_rows(part, wanted) if unchanged and pieces else None
    codes: dict[str, list[Ints]] = {name: [np.empty(0, np.int32)] for name in domains}
    ends: dict[str, list[Counts]] = {name: [np.empty((0, 2), np.int64)] for name in domains}
    first = 0
    for piece in pieces:
        rows = np.arange(first, first + piece.rows)
        cells = piece.part.read(names, names).slice(piece.first, piece.rows)
        origin = piece.part.origin(wanted.missing_values)
        release = Table(cells, origin=replace(origin, first_row=origin.first_row + piece.first))
        for name, domain in domains.items():
            ranks = chunk[ranks_of(name)][rows].astype(np.int32)
            made = read_back(Column(name, ranks, domain), release)
            codes[name].append(made.codes + sum(each.shape[0] for each in ends[name]))
            ends[name].append(np.stack([made.lo, made.hi], axis=1))
        if original is not None:
            refuse_other_order(original.take(rows), release, unchanged)
        first += piece.rows
    return {
        **{_codes(name): np.concatenate(each) for name, each in codes.items()},
        **{_ends(name): np.concatenate(each) for name, each in ends.items()},
    }


def _cells(chunk: Chunk, *, names: tuple[str, ...]) -> list[Counts]:
    """The ranges of a chunk's cells, of each column."""
    return [distinct_rows(chunk[_ends(name)])[0] for name in names]


def _number_rows(
    chunk: Chunk,
    *,
    found: dict[str, Counts],  # the ranges of all chunks, as one number each, in ascending order
    widths: dict[str, int],
) -> Arrays:
    """Give codes the numbers that they have in the whole release."""
    made = {}
    for name, occurring in found.items():
        lo, hi = chunk[_ends(name)].T
        keys = lo * widths[name] + hi
        numbers = look_up(keys, occurring, np.arange(occurring.size), widths[name] ** 2)
        made[_codes(name)] = numbers.take(chunk[_codes(name)]).astype(np.int32)
    return made
