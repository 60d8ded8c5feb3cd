"""Greedy k-member clustering: grow one cluster after the other by the record that it loses least with.

A cluster starts at the record farthest from the last one that was taken, and grows until it satisfies. What every
record that is left would cost is kept up to date attribute by attribute, and only where the cluster's cell has changed;
so a step is a search for the least of one array, however many attributes there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from masquerade.anonymize.cheapest_box.groups import NONE
from masquerade.anonymize.k_member.losses import AttributeLosses, Span
from masquerade.anonymize.k_member.variety import Variety
from masquerade.data.column import Column
from masquerade.engine.counts import Counts, Flags, Ints, Rows, which_occur

_NEVER = np.iinfo(np.int32).max


class _Left:
    """The records that no cluster has yet, and what each would cost the one that grows."""

    def __init__(self, columns: Sequence[Column], losses: Sequence[AttributeLosses], rows: Rows) -> None:
        self._losses = losses
        self._ranks = np.stack([column.ranks.take(rows) for column in columns])
        self._costs = np.zeros_like(self._ranks)  # attribute × record
        self._totals = np.zeros(rows.size, np.int32)
        self._spans: list[Span] = []
        self.records = np.arange(rows.size)  # their places in `rows`
        self.n = int(rows.size)

    def begin(self, record: Ints) -> None:
        """Start a cluster that covers these ranks."""
        self._spans = [(rank, rank) for rank in record.tolist()]
        n = self.n
        for at, (losses, span) in enumerate(zip(self._losses, self._spans, strict=True)):
            np.take(losses.with_rank(span), self._ranks[at, :n], out=self._costs[at, :n])
        np.sum(self._costs[:, :n], axis=0, out=self._totals[:n])

    def farthest(self) -> int:
        """Return the place of the record that would cost most; the first on a tie."""
        return int(self._totals[: self.n].argmax())

    def cheapest(self, allowed: Flags | None = None) -> int:
        """Return the place of the record that would cost least."""
        totals = self._totals[: self.n]
        return int((totals if allowed is None else np.where(allowed, totals, _NEVER)).argmin())

    def take(self, place: int) -> tuple[int, Ints]:
        """Take a record out: the last one gets its place. Return its number and its ranks."""
        record, ranks = int(self.records[place]), self._ranks[:, place].copy()
        self.n -= 1
        for each in (self.records, self._totals):
            each[place] = each[self.n]
        for both in (self._ranks, self._costs):
            both[:, place] = both[:, self.n]
        return record, ranks

    def widen(self, record: Ints) -> None:
        """Let the cluster cover these ranks, too, and reckon anew what changes by that."""
        n = self.n
        for at, (losses, span, rank) in enumerate(
            zip(self._losses, self._spans, record.tolist(), strict=True)
        ):
            wider = losses.widened(span, rank)
            if wider != span:
                self._spans[at] = wider
                costs = losses.with_rank(wider).take(self._ranks[at, :n])
                self._totals[:n] += costs - self._costs[at, :n]
                self._costs[at, :n] = costs


def clusters(
    columns: Sequence[Column],
    losses: Sequence[AttributeLosses],
    rows: Rows,
    least: int,
    variety: Variety,
    random: np.random.Generator,
) -> tuple[Counts, int]:
    """Return each of these rows' cluster, `NONE` for what is left over in the end, and the number of clusters."""
    of_row = np.full(rows.size, NONE, np.int64)
    left, n_clusters = _Left(columns, losses, rows), 0
    place = int(random.integers(rows.size))
    last: Ints = np.array([column.ranks[rows[place]] for column in columns])
    while left.n >= least:
        left.begin(last)
        record, ranks = left.take(left.farthest())
        members = [record]
        left.begin(ranks)
        if variety.matters:
            variety.clear()
            variety.add(int(rows[record]))
        while not (len(members) >= least and (not variety.matters or variety.holds())):
            if not left.n:
                return of_row, n_clusters
            record, last = left.take(left.cheapest(_allowed(left, variety, rows)))
            members.append(record)
            left.widen(last)
            if variety.matters:
                variety.add(int(rows[record]))
        last = ranks if len(members) == 1 else last
        of_row[members] = n_clusters
        n_clusters += 1
    return of_row, n_clusters


def _allowed(left: _Left, variety: Variety, rows: Rows) -> Flags | None:
    """Return which of the records that are left have sensitive values that may join; None: all."""
    if not variety.matters:
        return None
    allowed = None
    for at, coded in enumerate(variety.coded):
        codes = coded.codes.take(rows.take(left.records[: left.n]))
        present = which_occur(codes if allowed is None else codes[allowed], len(coded.labels))
        if (wanted := variety.wanted(at, present)) is not None:
            fits = wanted.take(codes)
            allowed = fits if allowed is None else allowed & fits
    return allowed
