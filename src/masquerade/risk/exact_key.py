"""The exact minimum key: the lightest set of columns that tells all different rows apart.

Each pair of rows names the columns in which it differs, and a key has one of these columns for every pair: it hits all
**difference sets**. There are too many pairs to list, and few sets that matter. So keep a list, find the lightest set
of columns that hits all of it (`hitting_set.py`), and try that as a key. If it is one, no key is lighter. If not, rows
that it does not tell apart give further difference sets: add columns for as long as some rows still look alike, and
what is left to add is a smallest possible difference set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade.engine.chunks import Arrays, Chunk
from masquerade.engine.counts import Counts, Rows
from masquerade.engine.numbering import first_rows, group_rows
from masquerade.engine.shares import counted_shares
from masquerade.risk.greedy_key import greedy_key
from masquerade.risk.hitting_set import columns_of, lightest_hitting_set, minimal_sets
from masquerade.risk.row_sample import drawn_rows
from masquerade.risk.separation import (
    BYTES_PER_PICKED_CELL,
    CodedRows,
    SeparatedRows,
    code_columns,
    count_labels,
    picked_rows,
    row_labels,
)

_ORDERS = 8  # in which columns are added to what is no key: each may end at another difference set
_FIRST = "first"  # 1 for the first of the rows that are equal in all columns


def different_rows(rows: CodedRows) -> CodedRows:
    """Return one of each group of rows that are equal in all columns, the first."""
    if rows.are_one_chunk:
        first = rows.chunks.only(0, partial(_first_of_equal, names=rows.names))
        return rows if first.size == rows.rows else rows.take(first)
    if SeparatedRows.of(rows, range(rows.width)).extent.groups == rows.rows:
        return rows
    rows.chunks.change(partial(_mark_first, names=rows.names))
    _unmark_later(rows)
    chunks = rows.chunks.derive(partial(_marked, names=rows.names))
    sizes = tuple(chunks.each(partial(_size, name=rows.names[0])))
    return replace(rows, chunks=chunks, sizes=sizes)


def _unmark_later(rows: CodedRows) -> None:
    """Keep the mark of those rows alone that no earlier chunk has an equal of."""
    for counted in counted_shares(rows.chunks, partial(count_labels, columns=rows.names), rows.engine):
        several = counted.keys[counted.counts > 1]
        if not several.size:
            continue
        owner = np.full(several.size, -1, np.int32)
        for at in range(len(rows.chunks)):
            there = rows.chunks.only(at, partial(_which_are_there, names=rows.names, labels=several))
            owner[(owner < 0) & there] = at
        rows.chunks.change(
            [
                partial(_unmark, names=rows.names, labels=several[owner != at])
                for at in range(len(rows.chunks))
            ]
        )


def _not_separated(rows: CodedRows, columns: tuple[int, ...]) -> SeparatedRows:
    """Return the groups of rows that these columns do not separate, or of some such rows where there are too many."""
    if rows.are_one_chunk:
        return SeparatedRows.of(rows, columns)
    most = max(2, rows.engine.summing_memory // (BYTES_PER_PICKED_CELL * rows.width))
    if not columns:
        return SeparatedRows.of(drawn_rows(rows, min(most, rows.rows), 7))
    names = tuple(rows.names[at] for at in columns)
    found: list[Arrays] = []
    n_found = 0
    for counted in counted_shares(rows.chunks, partial(count_labels, columns=names), rows.engine):
        several = counted.counts > 1
        keys, times = counted.keys[several], counted.counts[several]
        fitting = int(np.searchsorted(np.cumsum(times), most - n_found, "right"))
        keys = keys[: max(fitting, 0 if found else 1)]
        if keys.size:
            found += rows.chunks.each(partial(_with_labels, names=rows.names, columns=names, labels=keys))
            n_found += int(times[: keys.size].sum())
        if several.any() and keys.size < times.size:
            break
    return SeparatedRows.of(rows.together(found), columns)


def exact_key(rows: CodedRows, weights: Sequence[float], seed: int = 7) -> tuple[int, ...]:
    """Return the columns of a lightest key of the different rows, in the order of the table."""
    rows = different_rows(rows)
    if rows.rows < 2:
        return ()
    separation, n_rows = SeparatedRows.of(rows), rows.rows
    key = greedy_key(separation, range(rows.width), lambda extent: extent.groups == n_rows, weights)
    assert key is not None  # different rows differ in some column
    best, heaviest = sorted(key), sum(weights[column] for column in key)
    random = np.random.default_rng(seed)
    sets = minimal_sets(
        each
        for column in key
        for each in _difference_sets(rows, tuple(other for other in key if other != column), random)
    )
    while True:
        found = lightest_hitting_set(sets, weights, heaviest)
        if not found:  # nothing is lighter than the best key so far
            return tuple(best)
        tried = tuple(columns_of(found))
        further = list(_difference_sets(rows, tried, random))
        if not further:
            return tried
        sets = minimal_sets([*sets, *further])


def _difference_sets(rows: CodedRows, columns: tuple[int, ...], random: np.random.Generator) -> Iterator[int]:
    """Difference sets that these columns do not hit; none if they are a key."""
    alike = _not_separated(rows, columns)
    others = [column for column in range(rows.width) if column not in columns]
    for _ in range(_ORDERS if alike.are_open else 0):
        left, groups = list[int](), alike
        for column in random.permutation(others).tolist():
            finer = groups.refined(column)
            if finer.are_open:
                groups = finer
            else:
                left.append(column)
        yield sum(1 << column for column in left)


def _mark_first(chunk: Chunk, names: Sequence[str]) -> Arrays:
    marks = np.zeros(_size(chunk, names[0]), np.uint8)
    marks[_first_of_equal(chunk, names)] = 1
    return {_FIRST: marks}


def _first_of_equal(chunk: Chunk, names: Sequence[str]) -> Rows:
    """Return the first of the rows of a chunk that are equal in all columns."""
    labels, n_labels = group_rows(code_columns(chunk, names), _size(chunk, names[0]))
    return first_rows(labels, n_labels)


def _which_are_there(chunk: Chunk, names: Sequence[str], labels: Counts) -> NDArray[np.bool_]:
    """Tell which of some labels a chunk's rows have."""
    found = np.zeros(labels.size, bool)
    places = _position(labels, row_labels(chunk, names))
    found[places[places >= 0]] = True
    return found


def _unmark(chunk: Chunk, names: Sequence[str], labels: Counts) -> Arrays:
    """Take the mark from the rows that have one of some labels."""
    marks = np.array(chunk[_FIRST])
    marks[_position(labels, row_labels(chunk, names)) >= 0] = 0
    return {_FIRST: marks}


def _marked(chunk: Chunk, names: Sequence[str]) -> Arrays:
    return picked_rows(chunk, names, np.flatnonzero(chunk[_FIRST]))


def _with_labels(chunk: Chunk, names: Sequence[str], columns: Sequence[str], labels: Counts) -> Arrays:
    """Pick the rows that have one of some labels in these columns."""
    return picked_rows(chunk, names, np.flatnonzero(_position(labels, row_labels(chunk, columns)) >= 0))


def _size(chunk: Chunk, name: str) -> int:
    [(codes, _)] = code_columns(chunk, [name])
    return int(codes.size)


def _position(labels: Counts, of: Counts) -> Counts:
    """Return the place of each of these among labels in ascending order, -1 where it is none."""
    if not labels.size:
        return np.full(of.size, -1)
    places = np.minimum(np.searchsorted(labels, of), labels.size - 1)
    return np.where(labels[places] == of, places, -1)
