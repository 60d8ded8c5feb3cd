"""What one party knows of its own columns: it scores and validates its own candidates.

Everything a score needs is in one table an attribute, the class counts below each rank: the counts of any range are
the difference of two of its rows. Everything validity needs is the rows of each child, one slice of the rows sorted
by rank. So raw records are read once, when the view is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from masquerade.anonymize.public_state import PublicState, Rows, mean_loss
from masquerade.data.column import Coded, Column
from masquerade.engine.counts import Counts, pair_counts, rows_by_rank
from masquerade.utility.scores import Score


@dataclass
class Candidate:
    """A value `[lo, hi)` of the cut that could be replaced by its children, cut at `cuts` (the last is `hi`)."""

    attribute: str
    position: int  # of the attribute in the joint schema
    lo: int
    hi: int
    cuts: tuple[int, ...]
    base: float | int  # what the score takes from the children's class counts
    score: int  # in fixed point; for scores that weigh anonymity, as it was when last looked at
    anonymity_after: tuple[int, ...] | None = None  # of the QIDs that contain the attribute, when last looked at

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts the best first: the higher score, the earlier attribute, the earlier value."""
        return (-self.score, self.position, self.lo)


class OwnColumn:
    """One column with the two tables that answer every question of an algorithm."""

    def __init__(self, column: Column, classes: Coded | None) -> None:
        self.column = column
        self.domain = column.domain
        n_classes = len(classes.labels) if classes is not None else 1
        codes = classes.codes if classes is not None else np.zeros(column.ranks.size, np.int32)
        counts = pair_counts(column.ranks, codes, self.domain.size, n_classes)
        self.below: Counts = np.zeros((self.domain.size + 1, n_classes), np.int64)
        np.cumsum(counts, axis=0, out=self.below[1:])
        self.rows_below: Counts = self.below.sum(axis=1)

    @cached_property
    def _sorted_rows(self) -> Rows:
        return rows_by_rank(self.column.ranks, self.domain.size)

    def children_counts(self, cuts: Sequence[int]) -> Counts:
        """The class counts of each child, one row a child."""
        return np.diff(self.below[list(cuts)], axis=0)

    def children_rows(self, cuts: Sequence[int]) -> list[Rows]:
        """The rows of each child."""
        ends = self.rows_below[list(cuts)]
        return [self._sorted_rows[start:stop] for start, stop in zip(ends[:-1], ends[1:], strict=True)]

    def cuts(self, lo: int, hi: int, score: Score) -> tuple[int, ...]:
        """Where the children of `[lo, hi)` begin, and `hi`; empty when it has none."""
        fixed_cuts = self.domain.cuts(lo, hi)
        if fixed_cuts is not None:
            return fixed_cuts
        inside = np.arange(lo + 1, hi)
        # A split belongs at a value that records have, with records on both sides.
        inside = inside[
            (self.rows_below[inside + 1] > self.rows_below[inside]) & (self.rows_below[inside] > self.rows_below[lo])
        ]
        if not inside.size:
            return ()
        left = self.below[inside] - self.below[lo]
        right = self.below[hi] - self.below[inside]
        best = int(np.argmax(score.split_gains(left, right)))  # of equal gains, the smallest value
        return (lo, int(inside[best]), hi)


class LocalView:
    """One party's columns and its open candidates."""

    def __init__(self, columns: Mapping[int, Column], classes: Coded | None, score: Score) -> None:
        """`columns` by their position in the joint schema."""
        self.score = score
        self.own = {column.name: OwnColumn(column, classes) for column in columns.values()}
        self.candidates: list[Candidate] = []
        for position, column in columns.items():
            self._open(column.name, position, 0, column.domain.size)

    def best(self, state: PublicState) -> Candidate | None:
        """The valid candidate with the highest score; candidates found invalid are never looked at again."""
        best: Candidate | None = None
        if self.score.weighs_anonymity:
            self._bound_scores(state)
        for candidate in sorted(self.candidates, key=lambda each: each.order):
            if best is not None and best.order < candidate.order:
                break  # a candidate's score can only turn out lower than it was estimated
            prospect = state.prospect(candidate.attribute, self.children_rows(candidate))
            if prospect is None:
                self.candidates.remove(candidate)
                continue
            candidate.anonymity_after = prospect.after
            candidate.score = self.score.rate(candidate.base, prospect.anonymity_loss)
            if best is None or candidate.order < best.order:
                best = candidate
        return best

    def specialise(self, winner: Candidate) -> None:
        """Replace a candidate of this view by its children."""
        self.candidates.remove(winner)
        for lo, hi in zip(winner.cuts[:-1], winner.cuts[1:], strict=True):
            self._open(winner.attribute, winner.position, lo, hi)

    def children_rows(self, candidate: Candidate) -> list[Rows]:
        """The rows of each child: what the holder of the winner tells everybody else."""
        return self.own[candidate.attribute].children_rows(candidate.cuts)

    def _bound_scores(self, state: PublicState) -> None:
        """Estimate every score from above, without a look at records.

        The anonymity after a specialization never rises while other values are specialised, so its last known
        value bounds the loss from below.
        """
        for candidate in self.candidates:
            loss = 0.0
            if candidate.anonymity_after is not None:
                now = tuple(partition.anonymity for partition in state.touching(candidate.attribute))
                loss = mean_loss(now, candidate.anonymity_after)
            candidate.score = self.score.rate(candidate.base, loss)

    def _open(self, attribute: str, position: int, lo: int, hi: int) -> None:
        own = self.own[attribute]
        cuts = own.cuts(lo, hi, self.score)
        if not cuts:
            return
        children = own.children_counts(cuts)
        if self.score.beneficial(children):
            base = self.score.base(children)
            self.candidates.append(
                Candidate(attribute, position, lo, hi, cuts, base, self.score.rate(base, anonymity_loss=0.0))
            )
