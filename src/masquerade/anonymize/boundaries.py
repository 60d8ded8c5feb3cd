"""Where methods start that keep to boundaries: every value at its maximal allowed generalisation, and no further.

That table is the **maximum allowed microdata** (MAM, Definition 9 of constrained k-anonymity). Every group of a release
within the boundaries lies in one of its groups (Property 1). So a group of it that has fewer than k records cannot be
released at all, and together these are OUT, which is exactly what must be suppressed for k-anonymity (Properties 4 to
6). Of the other requirements, a group of the MAM that violates is left out as a whole by the methods that cut groups or
generalise columns: at least one part of it would violate, however it is cut. Clustering may save a part of it
(`k_member/`), unless the requirement is hereditary: then no part satisfies.

The groups of the MAM are numbered over all chunks; whether each satisfies follows from counts. Records that must stay
out are left in their chunks, and the method gets chunks of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade.data import (
    KEPT,
    Boundary,
    Coded,
    Column,
    Generalised,
    Histograms,
    Outcome,
    Records,
    ReleasedCodes,
    codes_of,
    ranks_of,
)
from masquerade.engine import (
    Arrays,
    Chunk,
    Counts,
    Flags,
    Ints,
    Rows,
    SparseCounts,
    counted_keys,
    group_rows,
    rows_by_rank,
    value_counts,
    weighted_counts,
)
from masquerade.privacy import GroupRequirement
from masquerade.utility import number_groups

_STAYS = "stays"  # 1 for the records that a release within the boundaries can hold
_ALL = 1 << 31  # groups; no more rows than that are numbered


def start_groups(columns: Sequence[Column], n_rows: int, *, whole_columns: bool = False) -> tuple[Counts, int]:
    """Return each row's group of the MAM over these columns, and the number of groups; without boundaries, one.

    With `whole_columns` values are generalised alike for all records, as far as their boundaries allow.
    """
    return group_rows(
        [boundary_codes(column, whole_columns=whole_columns) for column in columns if column.boundary is not None],
        n_rows,
    )


def rows_by_boundary(columns: Sequence[Column], n_rows: int) -> list[Rows]:
    """Return the rows of each group of the MAM over these columns."""
    return rows_by_label(*start_groups(columns, n_rows))


def rows_by_label(labels: Counts, n_labels: int) -> list[Rows]:
    """Return the rows of each label."""
    return np.split(rows_by_rank(labels, n_labels), np.cumsum(value_counts(labels, n_labels))[:-1])


def boundary_codes(column: Column, *, whole_columns: bool = False) -> tuple[Ints, int]:
    """Return the number of each row's most general allowed value, from left to right, and how many there are."""
    assert column.boundary is not None
    code_of_rank, size = boundary_code_of_rank(column.boundary, whole_columns=whole_columns)
    return code_of_rank.take(column.ranks), size


def boundary_code_of_rank(boundary: Boundary, *, whole_columns: bool = False) -> tuple[Ints, int]:
    """Return the number of each rank's most general allowed value, and how many there are."""
    if not whole_columns:
        return boundary.codes, max(boundary.size, 1)
    lengths = np.diff(np.append(boundary.cut, boundary.domain.size))
    return np.repeat(np.arange(boundary.cut.size), lengths), boundary.cut.size


def reachable_rows(
    parts: Sequence[GroupRequirement],
    columns: Sequence[Column],
    sensitive: Mapping[str, Coded],
    n_rows: int,
    *,
    whole_columns: bool = False,
) -> Rows:
    """Return the rows whose groups of the MAM satisfy, over the QID of every requirement.

    Records that are left out are missing in other groups and in the whole table, so all are judged again, until nobody
    has to leave. For k-anonymity over one QID nobody has to after the first round: those are OUT.
    """
    rows = np.arange(n_rows)
    starts = {
        part.qid: start_groups(
            [column for column in columns if column.name in part.qid], n_rows, whole_columns=whole_columns
        )
        for part in parts
    }
    while rows.size:
        good = np.ones(rows.size, bool)
        for part in parts:
            labels, n_groups = group_rows([(starts[part.qid][0].take(rows), starts[part.qid][1])], rows.size)
            if part.sensitive is None:
                sizes = value_counts(labels, n_groups).reshape(-1, 1)
                holds = part.holds(sizes, np.array([[rows.size]]), ())
            else:
                coded = sensitive[part.sensitive].of_rows(rows)
                holds = part.holds(coded.histograms(labels, n_groups), coded.histogram(), coded.labels)
            good &= holds[labels]
        if good.all():
            break
        rows = rows[good]
    return rows


def start_labels(table: Records, columns: Sequence[Column], label: str, *, whole_columns: bool = False) -> Counts:
    """Give each record its group at the boundaries of these columns, as array `label`; return the groups' sizes."""
    bounded = [column for column in columns if column.boundary is not None]
    return number_groups(table, _at_boundaries(bounded, whole_columns), label, _ALL)


def start_cells(table: Records, columns: Sequence[Column], label: str, sizes: Counts) -> NDArray[np.int64]:
    """Return the cells `[lo, hi)` of those groups, by column: the most general values that their records may have."""
    bounded = [column for column in columns if column.boundary is not None]
    sums = table.chunks.total(
        partial(_code_sums, outcome=_at_boundaries(bounded, False), label=label, n_groups=sizes.size)
    )
    code_of_group = {
        column.name: np.rint(total / sizes).astype(np.int64) for column, total in zip(bounded, sums, strict=True)
    }
    cells = []
    for column in columns:
        if (boundary := column.boundary) is None:
            ends = np.repeat([[0], [max(column.domain.size, 1)]], sizes.size, axis=1).astype(np.int64)
        else:
            rank = np.empty(max(boundary.size, 1), np.int64)  # one with each code
            rank[boundary.codes] = np.arange(boundary.codes.size)
            of_group = rank.take(code_of_group[column.name])
            ends = np.stack([boundary.lo.take(of_group), boundary.hi.take(of_group)])
        cells.append(ends)
    return np.stack(cells)


def reachable(
    table: Records, parts: Sequence[GroupRequirement], columns: Sequence[Column], *, whole_columns: bool
) -> Records:
    """Return the table of the records whose groups at the boundaries satisfy; see `reachable_rows`."""
    qids = list(dict.fromkeys(part.qid for part in parts))
    sizes = {
        qid: start_labels(
            table, [column for column in columns if column.name in qid], _label(qid), whole_columns=whole_columns
        )
        for qid in qids
    }
    table.chunks.change(partial(_everybody, like=ranks_of(columns[0].name)))
    left = len(table)
    while left:
        good = {qid: np.ones(sizes[qid].size, bool) for qid in qids}
        for part in parts:
            good[part.qid] &= _satisfying(table, part, sizes[part.qid].size, left)
        table.chunks.change(partial(_leave_groups, good={_label(qid): flags for qid, flags in good.items()}))
        before, left = left, int(table.chunks.total(_count_staying))
        if left == before:
            break
    if left in (0, len(table)):
        return table if left else replace(table, sizes=(0,) * len(table.sizes))
    chunks = table.chunks.derive(_take_staying)
    coded = {name: len(each.labels) for name, each in table.coded.items()}
    whole = chunks.total(Histograms(coded))
    return replace(
        table,
        chunks=chunks,
        sizes=tuple(chunks.each(_size)),
        whole={name: counts.reshape(1, -1) for name, counts in zip(coded, whole, strict=True)},
    )


def _label(qid: Sequence[str]) -> str:
    return f"at boundaries {' '.join(qid)}"


def _satisfying(table: Records, part: GroupRequirement, n_groups: int, left: int) -> Flags:
    """Return which groups satisfy by the records that are left; groups without any do."""
    good = np.ones(n_groups, bool)
    if part.sensitive is None:
        counted = counted_keys(
            table.chunks, partial(_staying_of_chunk, label=_label(part.qid), n_groups=n_groups), table.engine
        )
        good[counted.keys] = part.holds(counted.counts.reshape(-1, 1), np.array([[left]]), ())
        return good
    n_values = len(table.coded[part.sensitive].labels)
    counted = table.chunks.total(
        partial(
            _staying_of_chunk,
            label=_label(part.qid),
            n_groups=n_groups,
            codes=codes_of(part.sensitive),
            n_values=n_values,
        )
    )
    groups, values = np.divmod(counted.keys, n_values)
    there = np.flatnonzero(value_counts(groups, n_groups))
    histogram = np.zeros((there.size, n_values), np.int64)
    histogram[np.searchsorted(there, groups), values] = counted.counts
    whole = histogram.sum(axis=0, keepdims=True)
    good[there] = part.holds(histogram, whole, table.coded[part.sensitive].labels)
    return good


def _at_boundaries(columns: Sequence[Column], whole_columns: bool) -> Outcome:
    """Return the release in which every value is as general as its boundary allows."""
    released, codes = [], {}
    for column in columns:
        assert column.boundary is not None
        code_of_rank, size = boundary_code_of_rank(column.boundary, whole_columns=whole_columns)
        nothing = np.zeros(size, np.int64)
        released.append(Generalised(column.name, np.empty(0, np.int32), ("",) * size, nothing, nothing, column.domain))
        codes[column.name] = ReleasedCodes(ranks_of(column.name), code_of_rank)
    return Outcome(tuple(released), codes=codes)


def _everybody(chunk: Chunk, *, like: str) -> Arrays:
    return {_STAYS: np.ones(chunk[like].size, np.uint8)}


def _code_sums(chunk: Chunk, *, outcome: Outcome, label: str, n_groups: int) -> tuple[NDArray[np.float64], ...]:
    """Add up the boundary codes of each group's records: all are the same, so the mean is the code."""
    labels = chunk[label]
    return tuple(weighted_counts(labels, codes(chunk), n_groups) for codes in outcome.codes.values())


def _staying_of_chunk(
    chunk: Chunk, *, label: str, n_groups: int, codes: str | None = None, n_values: int = 1
) -> SparseCounts:
    """Count the records that are left, by group and if asked by sensitive value."""
    rows = np.flatnonzero(chunk[_STAYS])
    keys = chunk[label].take(rows).astype(np.int64)
    if codes is not None:
        keys = keys * n_values + chunk[codes].take(rows)
    return SparseCounts.of(keys, n_groups * n_values)


def _leave_groups(chunk: Chunk, *, good: dict[str, Flags]) -> Arrays:
    """Take note of the records whose groups violate."""
    stays = chunk[_STAYS].astype(bool)
    for label, flags in good.items():
        stays &= flags.take(chunk[label])
    return {_STAYS: stays.astype(np.uint8)}


def _count_staying(chunk: Chunk) -> int:
    return int(np.count_nonzero(chunk[_STAYS]))


def _take_staying(chunk: Chunk) -> Arrays:
    rows = np.flatnonzero(chunk[_STAYS])
    n_rows = chunk[_STAYS].size
    taken = {name: chunk[name].take(rows) for name in chunk if chunk[name].size == n_rows}
    if KEPT not in taken:
        taken[KEPT] = rows.astype(np.int32)
    return taken


def _size(chunk: Chunk) -> int:
    return int(chunk[_STAYS].size)
