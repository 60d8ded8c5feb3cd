"""Mondrian's loop: cut all groups of a batch, each along the dimension that serves it best, until none can be cut.

Groups do not depend on each other, so a batch that is too large is done in two halves, and nothing here loops over
groups or records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.mondrian_axes import Axis, Batch, Shares, TaxonomyAxis
from masquerade.anonymize.mondrian_judge import Judge
from masquerade.anonymize.mondrian_offers import Offer, offer
from masquerade.data.column import Generalised
from masquerade.engine.counts import Counts, rows_by_rank

# How good the cut of each group of an offer is; the best is made, of equals along the first dimension.
Choice = Callable[[Axis, Offer], Shares]

_ROWS_AT_A_TIME = 1 << 17  # what a processor keeps close at hand
_COUNTS_AT_A_TIME = 1 << 22

Cells = NDArray[np.int64]  # dimension × (lo, hi) × group


@dataclass(frozen=True, eq=False)
class Partition:
    """The finished groups: each row's group, and each group's ranks `[lo, hi)` along each dimension."""

    labels: Counts
    cells: Cells

    def released(self, axes: Sequence[Axis]) -> tuple[Generalised, ...]:
        """The released columns."""
        return tuple(
            self._column(axis, *cells) for axis, cells in zip(axes, self.cells, strict=True) if axis.released
        )

    def _column(self, axis: Axis, lo: Counts, hi: Counts) -> Generalised:
        domain = axis.column.domain
        keys, codes = np.unique(lo * (domain.size + 1) + hi, return_inverse=True)
        starts, ends = keys // (domain.size + 1), keys % (domain.size + 1)
        names = tuple(domain.label(int(lo), int(hi)) for lo, hi in zip(starts, ends, strict=True))
        return Generalised(axis.name, codes.astype(np.int32)[self.labels], names, starts, ends, domain)


def partition(axes: Sequence[Axis], judge: Judge, choice: Choice, n_rows: int, strict: bool) -> Partition:
    """Cut until no cut is allowed."""
    done = _Done(n_rows)
    whole = [[[0], [max(axis.column.domain.size, 1)]] for axis in axes]
    waiting = [(Batch(np.arange(n_rows), np.array([n_rows])), np.array(whole, np.int64))]
    while waiting:
        batch, cells = waiting.pop()
        if _too_large(batch, axes, judge):
            waiting += _halves(batch, cells)
            continue
        small = batch.sizes < 2 * judge.least
        if small.any():
            done.add(axes, batch.only(small), cells[:, :, small])
            batch, cells = batch.only(~small), cells[:, :, ~small]
        if batch.n_groups:
            following = _cut(axes, batch, cells, judge, choice, strict, done)
            waiting += [following] if following is not None else []
    return done.partition()


class _Done:
    """Groups that cannot be cut any further."""

    def __init__(self, n_rows: int) -> None:
        self._labels = np.zeros(n_rows, np.int64)
        self._cells: list[Cells] = []
        self._n_groups = 0

    def add(self, axes: Sequence[Axis], batch: Batch, cells: Cells) -> None:
        """Cells along taxonomies are made as narrow as the group's values allow."""
        for axis, cell in zip(axes, cells, strict=True):
            if isinstance(axis, TaxonomyAxis):
                view = axis.look(batch)
                cell[:] = view.lo, view.hi
        self.add_narrow(batch, cells)

    def add_narrow(self, batch: Batch, cells: Cells) -> None:
        """Cells along taxonomies are so already."""
        numbers = np.arange(self._n_groups, self._n_groups + batch.n_groups)
        self._labels[batch.rows] = np.repeat(numbers, batch.sizes)
        self._n_groups += batch.n_groups
        self._cells.append(cells)

    def partition(self) -> Partition:
        """All of them."""
        return Partition(self._labels, np.concatenate(self._cells, axis=2))


def _cut(
    axes: Sequence[Axis],
    batch: Batch,
    cells: Cells,
    judge: Judge,
    choice: Choice,
    strict: bool,
    done: _Done,
) -> tuple[Batch, Cells] | None:
    """Cut each group along its best dimension; those that cannot be cut are done."""
    scores = np.full((len(axes), batch.n_groups), -np.inf)
    offers: list[Offer | None] = []
    for at, axis in enumerate(axes):
        view = axis.look(batch)
        if isinstance(axis, TaxonomyAxis):
            cells[at] = view.lo, view.hi
        offered = offer(axis, batch, view, judge, strict)
        offers.append(offered)
        if offered is not None and offered.allowed.any():
            score = choice(axis, offered)
            scores[at, offered.groups[offered.allowed]] = score[offered.allowed]
    best = scores.argmax(axis=0)  # of equals the first
    stuck = scores[best, np.arange(batch.n_groups)] == -np.inf
    if stuck.any():
        best[stuck] = -1
        done.add_narrow(batch.only(stuck), cells[:, :, stuck])
    return None if stuck.all() else _carried_out(axes, offers, best, cells)


def _carried_out(
    axes: Sequence[Axis], offers: Sequence[Offer | None], best: Counts, cells: Cells
) -> tuple[Batch, Cells]:
    """The parts of all groups, each cut along its best dimension (-1 where it is not cut)."""
    rows, labels, sizes, new_cells = [], [], [], []
    n_parts = 0
    for at, (axis, offered) in enumerate(zip(axes, offers, strict=True)):
        if offered is None or not (chosen := best[offered.groups] == at).any():
            continue
        parts = offered.parts
        made = np.flatnonzero(chosen[parts.group])  # the parts of the chosen groups, in order
        number = np.zeros(parts.group.size, np.int64)
        number[made] = np.arange(n_parts, n_parts + made.size)
        n_parts += made.size
        labels.append(number[offered.labels(chosen)])
        rows.append(offered.batch.only(chosen).rows)
        sizes.append(parts.sizes[made])
        group = parts.group[made]
        cell = cells[:, :, offered.groups[group]]
        if not isinstance(axis, TaxonomyAxis):
            upper = np.diff(group, prepend=-1) == 0  # the second part of its group
            cell[at, 0, upper] = offered.view.at[group[upper]]
            cell[at, 1, ~upper] = offered.view.at[group[~upper]]
        new_cells.append(cell)
    order = rows_by_rank(np.concatenate(labels), n_parts)
    batch = Batch(np.concatenate(rows)[order], np.concatenate(sizes))
    return batch, np.concatenate(new_cells, axis=2)


def _too_large(batch: Batch, axes: Sequence[Axis], judge: Judge) -> bool:
    if batch.n_groups == 1:
        return False
    n_parts = min(batch.rows.size, batch.n_groups * max(axis.most_parts for axis in axes))
    return batch.rows.size > _ROWS_AT_A_TIME or n_parts * judge.columns > _COUNTS_AT_A_TIME


def _halves(batch: Batch, cells: Cells) -> list[tuple[Batch, Cells]]:
    """Two batches of about as many rows, each with at least one group."""
    ends = np.cumsum(batch.sizes)
    middle = int(np.clip(np.searchsorted(ends, batch.rows.size // 2), 1, batch.n_groups - 1))
    at = int(ends[middle - 1])
    return [
        (Batch(batch.rows[:at], batch.sizes[:middle]), cells[:, :, :middle]),
        (Batch(batch.rows[at:], batch.sizes[middle:]), cells[:, :, middle:]),
    ]
