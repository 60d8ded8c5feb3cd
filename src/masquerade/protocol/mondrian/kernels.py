"""What a chunk of the common records does for Mondrian between parties: looks at its groups, cuts them, sends them on.

A chunk labels the groups that it has records of 0, 1, … in the order that all parties number them in; records of
groups that are done, or that another chunk has, are labelled -1. The records of a group are in the common order, and
so are those of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize import Axis, AxisCandidates, Batch, Choice, Judge, JudgeOf, candidates_along
from masquerade.engine import Arrays, Chunk, Counts, Flags, Ints, Rows, pair_counts, rows_by_rank, value_counts

# Of cuts by counts: the dimension, the array of its ranks, how many there are, keys of (group, rank) and their parts.
Tables = tuple[tuple[int, str, int, Counts, Counts], ...]

LABEL, FINAL = "group", "final group"  # of each record; FINAL is -1 until its group is done
_ORDER = "by group"  # the labelled records in the order of their groups: those that are done are not sorted again
_SIZES = "group sizes"  # how many records have each label
_ROW, _CHUNK = "row", "chunk"  # where a record came from
_WIDE = np.int32


@dataclass(frozen=True, eq=False)
class Cutting:
    """How groups are cut along a party's own dimensions."""

    axes: tuple[Axis, ...]  # without ranks
    ranks: tuple[str, ...]  # the arrays in which chunks have them
    judge: JudgeOf
    choice: Choice
    strict: bool

    def along(self, at: int, chunk: Chunk, batch: Batch, judge: Judge) -> AxisCandidates | None:
        """Return the cuts of a chunk's groups along one dimension."""
        axis = copy(self.axes[at])
        axis.column = replace(axis.column, ranks=chunk[self.ranks[at]].astype(np.int32, copy=False))
        return candidates_along(at, axis, batch, judge, self.strict)


@dataclass(frozen=True, eq=False)
class Offered:
    """The cuts of a chunk's groups, by dimension; None where none is allowed."""

    labels: Counts  # of the groups
    candidates: tuple[AxisCandidates | None, ...]


@dataclass(frozen=True, eq=False)
class Looked:
    """The cuts of a chunk's whole groups, dimension × group."""

    scores: NDArray[np.float64]  # -inf where no cut is allowed
    cut_at: Counts
    n_parts: Counts
    offered: Offered | None


def initial_labels(chunk: Chunk, *, rows: int, labels: Counts | None = None) -> Arrays:
    """Put all records into the one group that there is, or into the given ones."""
    new_labels = np.zeros(rows, _WIDE) if labels is None else labels.astype(_WIDE)
    return {**_labelled(rows, np.arange(rows), new_labels), FINAL: np.full(rows, -1, _WIDE)}


def sizes_of(chunk: Chunk, *, n_labels: int) -> Counts:
    """Count the records with each label."""
    sizes = np.zeros(n_labels, np.int64)
    counted = chunk[_SIZES]
    sizes[: counted.size] = counted
    return sizes


def extents_of(chunk: Chunk, *, ranks: tuple[str, ...], n_groups: int) -> tuple[Counts, Counts, Counts]:
    """Find the first and last ranks of finished groups along some dimensions."""
    above = chunk[FINAL] + 1  # 0 for those that another chunk has
    counts = value_counts(above, n_groups + 1)
    groups = np.flatnonzero(counts[1:])
    rows = rows_by_rank(above, n_groups + 1)
    starts = (np.cumsum(counts) - counts)[1:][groups]
    ranks_in_order = [chunk[name].take(rows) for name in ranks]
    first, last = (
        np.stack([edge.reduceat(each, starts).astype(np.int64) for each in ranks_in_order])
        for edge in (np.minimum, np.maximum)
    )
    return groups, first, last


def best_of_chunk(
    chunk: Chunk,
    *,
    open_: Flags,
    how: Cutting,
    keep: bool,  # the cuts themselves, besides what is to be known of them
) -> Looked:
    """Look at a chunk's whole groups along all dimensions."""
    batch, labels = groups_of(chunk, open_)
    shape = (len(how.axes), open_.size)
    scores, cut_at, n_parts = np.full(shape, -np.inf), np.zeros(shape, np.int64), np.ones(shape, np.int64)
    judge = how.judge.made(chunk)
    offered: list[AxisCandidates | None] = []
    for at in range(shape[0] if labels.size else 0):
        candidates = how.along(at, chunk, batch, judge)
        if candidates is not None and candidates.allowed.any():
            allowed = candidates.allowed
            groups = labels[candidates.groups]
            scores[at, groups[allowed]] = how.choice(candidates)[allowed]
            cut_at[at, groups] = candidates.cut_at
            n_parts[at, groups] = value_counts(candidates.parts.group, groups.size)
            offered.append(candidates)
        else:
            offered.append(None)
    return Looked(scores, cut_at, n_parts, Offered(labels, tuple(offered)) if keep else None)


def parts_of_chunk(
    chunk: Chunk,
    *,
    axis: Counts,
    how: Cutting,
    offered: Offered | None,  # what `best_of_chunk` found here; otherwise it is found again
) -> Ints:
    """Cut a chunk's whole groups, each along its dimension; -1 where it is not asked for."""
    batch, labels = groups_of(chunk, axis >= 0)
    parts = np.zeros(batch.n_records, np.uint32)
    axis_of = axis[labels]
    judge = how.judge.made(chunk) if offered is None else None
    for at in np.flatnonzero(value_counts(axis_of, len(how.axes))).tolist():
        chosen = axis_of == at
        if judge is None:
            assert offered is not None
            candidates = offered.candidates[at]
            assert candidates is not None  # one of them is asked for
            which = axis[offered.labels[candidates.groups]] == at
        else:
            candidates = how.along(at, chunk, batch.only(chosen), judge)
            assert candidates is not None  # every group has been looked at before
            which = np.ones(candidates.groups.size, bool)
        group = candidates.parts.group
        within = np.arange(group.size) - np.searchsorted(group, group)
        parts[np.repeat(chosen, batch.sizes)] = candidates.labels(which, batch, within)
    return _narrow(parts)


def parts_by_rank(
    chunk: Chunk,
    *,
    axis: Counts,  # of each label; -1 where it is not asked for
    place: Counts,  # of each label among the groups that were counted
    tables: Tables,
) -> Ints:
    """Cut groups of which a chunk has only some records: each (group, rank) has its part."""
    batch, labels = groups_of(chunk, axis >= 0)
    group = np.repeat(place[labels], batch.sizes)
    axis_of = np.repeat(axis[labels], batch.sizes)
    parts = np.zeros(batch.n_records, np.uint32)
    for at, name, size, keys, numbers in tables:
        here = np.flatnonzero(axis_of == at)
        wanted = group[here] * size + chunk[name].take(batch.rows[here])
        parts[here] = numbers[np.searchsorted(keys, wanted)]
    return _narrow(parts)


def rows_of(
    chunk: Chunk,
    *,
    groups: Flags,
    firsts: Counts,  # the place of the first record of each chunk that records came from
    first: int | None,  # that of the chunk itself, if its records are its own
) -> Rows:
    """Give the places of some groups' records in the common order, group by group."""
    batch, _ = groups_of(chunk, groups)
    if first is not None:
        return batch.rows + first
    return firsts.take(chunk[_CHUNK].take(batch.rows)) + chunk[_ROW].take(batch.rows)


def judge_whole(
    chunk: Chunk,
    *,
    n_parts: Counts,  # of each label; 0 where it is not cut
    parts: Ints,
    judge: JudgeOf,
) -> Flags:
    """Say of which groups all parts satisfy, given the part of each record; groups are whole in the chunk."""
    batch, labels = groups_of(chunk, n_parts > 0)
    if not labels.size:
        return np.zeros(0, bool)
    parts_of = n_parts[labels]
    first = np.cumsum(parts_of) - parts_of
    part = np.repeat(first, batch.sizes) + parts
    judging = judge.made(chunk)
    counts = judging.count(lambda: part, batch.rows, value_counts(part, int(parts_of.sum())))
    good: Flags = np.logical_and.reduceat(judging.holds(counts), first)
    return good


def count_parts(
    chunk: Chunk,
    *,
    n_parts: Counts,  # of each label; 0 where it is not cut
    parts: Ints,
    coded: tuple[tuple[str, int], ...],  # arrays of codes, and how many there are
) -> tuple[Counts, ...]:
    """Count the records of parts by each code that the judge counts; groups have records in other chunks, too."""
    batch, labels = groups_of(chunk, n_parts > 0)
    first = np.cumsum(n_parts) - n_parts
    part = np.repeat(first[labels], batch.sizes) + parts
    total = int(n_parts.sum())
    return tuple(pair_counts(part, chunk[name].take(batch.rows), total, n_codes) for name, n_codes in coded)


def label_parts(
    chunk: Chunk,
    *,
    first: Counts,  # the new label of each label's first part; -1 where it is not cut
    final: Counts,  # the number of each label's group, if it is done; otherwise -1
    parts: Ints,  # of each record of the groups that are cut, group by group
) -> Arrays:
    """Label records anew: those of groups that are cut by their part, and those of groups that are done no more."""
    batch, labels = groups_of(chunk, first >= 0)
    labelled = _labelled(chunk[LABEL].size, batch.rows, np.repeat(first[labels].astype(_WIDE), batch.sizes) + parts)
    done, labels = groups_of(chunk, final >= 0)
    if not labels.size:
        return labelled
    new_final = np.array(chunk[FINAL])
    new_final[done.rows] = np.repeat(final[labels].astype(_WIDE), done.sizes)
    return {**labelled, FINAL: new_final}


def shuffle_pieces(
    chunk: Chunk,
    *,
    at: int,
    bin_of_label: Counts,  # -1: it stays here
    label_there: Counts,
    n_bins: int,
    names: tuple[str, ...],
) -> list[Arrays]:
    """Send the records of each group to the chunk that will hold all of it."""
    labels = chunk[LABEL]
    bins = np.append(bin_of_label, -1).take(labels)
    order = rows_by_rank(bins + 1, n_bins + 1)
    ends = np.cumsum(value_counts(bins + 1, n_bins + 1))
    pieces = []
    for first, last in pairwise(ends):
        rows = order[first:last]
        piece = {name: chunk[name].take(rows) for name in names}
        piece[LABEL] = label_there.take(labels.take(rows)).astype(_WIDE)
        piece[_ROW] = rows.astype(_WIDE)
        piece[_CHUNK] = np.full(rows.size, at, _WIDE)
        pieces.append(piece)
    return pieces


def arrived(chunk: Chunk) -> Arrays:
    """Put the records that came from other chunks in order."""
    size = chunk[LABEL].size
    return {**_labelled(size, np.arange(size), chunk[LABEL]), FINAL: np.full(size, -1, _WIDE)}


def relabel_chunk(chunk: Chunk, *, labels: Counts) -> Arrays:
    """Give each label another one, or -1."""
    order: Rows = chunk[_ORDER].astype(np.intp)
    new_labels = labels.take(chunk[LABEL].take(order))
    stays = new_labels >= 0
    return _labelled(chunk[LABEL].size, order[stays], new_labels[stays])


def send_back(chunk: Chunk, *, n_chunks: int) -> list[Arrays]:
    """Send each record's final group to where the record came from."""
    order = rows_by_rank(chunk[_CHUNK], n_chunks)
    ends = np.cumsum(value_counts(chunk[_CHUNK], n_chunks))
    return [
        {name: chunk[name].take(order[first:last]) for name in (_ROW, FINAL)}
        for first, last in pairwise([0, *ends.tolist()])
    ]


def come_back(chunk: Chunk, back: Chunk) -> Arrays:
    """Put final groups that came back beside their records."""
    final = np.array(chunk[FINAL])
    final[back[_ROW]] = back[FINAL]
    return {FINAL: final}


def final_groups(chunk: Chunk) -> Counts:
    """Return each record's final group."""
    final: Counts = chunk[FINAL].astype(np.int64)
    return final


def groups_of(chunk: Chunk, which: Flags) -> tuple[Batch, Counts]:
    """Return the records of the flagged labels, group by group, and the labels that have any."""
    order, counts = chunk[_ORDER], chunk[_SIZES]
    there = counts > 0
    labels = np.flatnonzero(there & which[: there.size])
    sizes = counts[labels]
    if labels.size == np.count_nonzero(there):
        rows = order
    else:
        rows = order[places((np.cumsum(counts) - counts)[labels], sizes)]
    return Batch(rows.astype(np.intp), sizes), labels


def places(starts: Counts, sizes: Counts) -> Rows:
    """Return the numbers from each start on, as many as its size says, one run after the other."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _labelled(n_rows: int, rows: Rows, labels: NDArray[Any]) -> Arrays:
    """Label these rows, which are in order wherever they have the same label, and no others."""
    n_labels = int(labels.max(initial=-1)) + 1
    made = np.full(n_rows, -1, _WIDE)
    made[rows] = labels
    order = rows[rows_by_rank(labels, n_labels)]
    return {LABEL: made, _ORDER: order.astype(_WIDE), _SIZES: value_counts(labels, n_labels)}


def _narrow(parts: NDArray[np.uint32]) -> Ints:
    return parts.astype(np.min_scalar_type(int(parts.max(initial=0))))


def in_blocks(sizes: Counts, most: int) -> Sequence[slice]:
    """Cut groups into runs of about `most` records."""
    ends = np.flatnonzero(np.diff((np.cumsum(sizes) - 1) // most, append=-1)) + 1
    return [slice(first, last) for first, last in pairwise([0, *ends.tolist()])]
