"""Top-down specialization: start with everything general, and make it specific as long as the requirement holds.

At each step the best valid and beneficial value of the cut is replaced by its children (Fung, Wang and Yu; Mohammed,
Fung and Debbabi). Comparison, ties and split points follow docs/papers.md, so every implementation gives one answer.

Validity is tested only for the candidate that is about to win: those behind it do not matter yet, and a candidate that
is invalid once stays so. This file is the mashup protocol with one party: `LocalView` is what a party knows of its own
columns, `PublicState` is what all know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import compress, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.preparation import different_qids, prepare
from masquerade.anonymize.tds.groups import PublicState, RankSplit, Split, child_numbers
from masquerade.data import Column, Generalised, OnStep, Outcome, Records, Schema, Step, by_cut
from masquerade.engine import Counts
from masquerade.errors import ParameterError, Problem
from masquerade.forms import choice, number, optional, parameter
from masquerade.privacy import GroupRequirement, Requirement
from masquerade.utility import FIXED_ONE, SCORES, Penalties, Score, certainty_penalties, guiding_penalties, score_named

# --- view -------------------------------------------------------------------------------------------------
# What one party knows of its own columns: it scores and validates its own candidates.
#
# All that a score needs is in one table per attribute, the class counts below each rank: the counts of any range are
# the difference of two of its rows. Raw ranks are read again only to write an instruction, for the candidate that is
# about to win.


@dataclass(eq=False)
class Candidate:
    """A value `[lo, hi)` of the cut that could be replaced by its children, cut at `cuts` (the last is `hi`)."""

    attribute: str
    position: int  # of the attribute in the joint schema
    value: int  # its number in the public cut
    lo: int
    hi: int
    cuts: tuple[int, ...]
    base: float | int  # the part of the score that depends on the children's class counts
    score: int  # in fixed point; for scores that weigh anonymity, an upper bound until it is computed
    anonymity_after: tuple[int, ...] = ()  # of the QIDs that contain the attribute, when last computed

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key that puts the best first: the higher score, the earlier attribute, the earlier value."""
        return (-self.score, self.position, self.lo)


class OwnColumn:
    """One column, with the class counts below each rank."""

    def __init__(self, column: Column, counts: Counts) -> None:
        """`counts` are the records with each rank and class."""
        self.column = column
        self.domain = column.domain
        self.below: Counts = np.zeros((self.domain.size + 1, counts.shape[1]), np.int64)
        np.cumsum(counts, axis=0, out=self.below[1:])
        self.rows_below: Counts = self.below.sum(axis=1)

    def children_counts(self, cuts: Sequence[int]) -> Counts:
        """Return the class counts of each child, one row per child."""
        return np.diff(self.below[list(cuts)], axis=0)

    def occurring(self, cuts: Sequence[int]) -> NDArray[np.bool_]:
        """Return for each child whether records have it; the others get no number in the public cut."""
        return np.diff(self.rows_below[list(cuts)]) > 0

    def cuts(self, lo: int, hi: int, score: Score) -> tuple[int, ...]:
        """Return where each child of `[lo, hi)` begins, then `hi`; empty when it has no children."""
        fixed_cuts = self.domain.cuts(lo, hi)
        if fixed_cuts is not None:
            return fixed_cuts
        # A split belongs at a value that records have, with records on both sides.
        inside = lo + 1 + np.flatnonzero(np.diff(self.rows_below[lo + 1 : hi + 1]))
        inside = inside[self.rows_below[inside] > self.rows_below[lo]]
        if not inside.size:
            return ()
        left = self.below[inside] - self.below[lo]
        right = self.below[hi] - self.below[inside]
        relief = None
        if not score.recomputable:
            first, last = np.array([lo]), np.array([hi])
            halves = [self._penalties(first, inside), self._penalties(inside, last)]
            relief = self._penalties(first, last) - np.stack(halves, axis=1)
        best = int(np.argmax(score.split_gains(left, right, relief)))  # the smallest value on a tie
        return (lo, int(inside[best]), hi)

    def relief(self, cuts: Sequence[int]) -> Counts:
        """Return by how much a record's certainty penalty falls in each child, in fixed point."""
        ends = np.array(cuts)
        return self._penalties(ends[:1], ends[-1:]) - self._penalties(ends[:-1], ends[1:])

    def _penalties(self, lo: Counts, hi: Counts) -> Counts:
        return _fixed(guiding_penalties(self.domain, lo, hi))

    def published_relief(self, cuts: Sequence[int]) -> Counts:
        """Return the same relief by the penalties that may be shown."""
        lo, hi = np.array([cuts[0], *cuts[:-1]]), np.array([cuts[-1], *cuts[1:]])
        labels = tuple(map(self.domain.label, lo.tolist(), hi.tolist()))
        values = Generalised(self.column.name, np.empty(0, np.int32), labels, lo, hi, self.domain)
        penalties = _fixed(certainty_penalties(values))
        saved: Counts = penalties[0] - penalties[1:]
        return saved

    def split(self, candidate: Candidate) -> RankSplit:
        """Return to which child each rank of the candidate's value goes."""
        occurs = self.occurring(candidate.cuts)
        n_children = int(np.count_nonzero(occurs))
        numbers = child_numbers(n_children).take(np.maximum(np.cumsum(occurs) - 1, 0))
        child_of_rank = np.repeat(numbers, np.diff(candidate.cuts))
        return RankSplit(candidate.attribute, candidate.value, n_children, candidate.lo, child_of_rank)


class LocalView:
    """One party's columns and its open candidates."""

    def __init__(self, columns: Mapping[int, Column], counts: Mapping[str, Counts], score: Score) -> None:
        """`columns` by their position in the joint schema, and of each the records with each rank and class."""
        self.score = score
        self.own = {column.name: OwnColumn(column, counts[column.name]) for column in columns.values()}
        self.cut: dict[str, list[int]] = {}  # where the values of each attribute's cut begin, in order
        self.candidates: list[Candidate] = []
        self._positions = {column.name: position for position, column in columns.items()}
        for column in columns.values():
            self.cut[column.name] = [0]
            self._open(column.name, 0, 0, column.domain.size)

    def to_boundaries(self) -> list[RankSplit]:
        """Return the splits that bring columns from their topmost value to the most general that is allowed."""
        found = []
        for own in self.own.values():
            if own.column.boundary is not None and own.column.boundary.cut.size > 1:
                cuts = (*own.column.boundary.cut.tolist(), own.domain.size)
                top = Candidate(own.column.name, 0, 0, 0, own.domain.size, cuts, 0, 0)
                found.append(own.split(top))
        return found

    def start(self, attribute: str, numbers: Sequence[int]) -> None:
        """Replace an attribute's topmost value by the most general that are allowed; see `specialise`."""
        own = self.own[attribute]
        assert own.column.boundary is not None
        self.candidates = [each for each in self.candidates if each.attribute != attribute]
        self.cut[attribute] = own.column.boundary.cut.tolist()
        self._open_children(attribute, (*self.cut[attribute], own.domain.size), numbers)

    def best(self, state: PublicState) -> tuple[Candidate, RankSplit] | None:
        """Return the valid candidate with the highest score; invalid ones are discarded for good."""
        best: tuple[Candidate, RankSplit] | None = None
        if self.score.weighs_anonymity:
            self._estimate(state)
        for candidate in sorted(self.candidates, key=lambda each: each.order):
            if best is not None and best[0].order < candidate.order:
                break  # a score can only turn out lower than its estimate
            split = self.own[candidate.attribute].split(candidate)
            if not state.allows(split):
                self.candidates.remove(candidate)
                continue
            if state.may_suppress and not self.score.worth(candidate.base, state.leaves_out(split), len(state.cut)):
                continue  # only for now: another specialization may leave out the same records first
            if self.score.weighs_anonymity:
                candidate.anonymity_after = state.anonymity_after(split)
                loss = _mean_loss(state.anonymity(candidate.attribute), candidate.anonymity_after)
                candidate.score = self.score.rate(candidate.base, loss)
            if best is None or candidate.order < best[0].order:
                best = candidate, split
        return best

    def specialise(self, winner: Candidate, numbers: Sequence[int]) -> None:
        """Replace a candidate of this view by its children; those that occur have these numbers in the public cut."""
        self.candidates.remove(winner)
        self.cut[winner.attribute] = sorted({*self.cut[winner.attribute], *winner.cuts[:-1]})
        self._open_children(winner.attribute, winner.cuts, numbers)

    def step(self, winner: Candidate) -> Step:
        """Describe a winning candidate by its attribute's labels, with a score that may be shown."""
        own = self.own[winner.attribute]
        children = tuple(map(own.domain.label, winner.cuts[:-1], winner.cuts[1:]))
        score = winner.score
        if not self.score.recomputable:
            base = self.score.base(own.children_counts(winner.cuts), own.published_relief(winner.cuts))
            score = self.score.rate(base, anonymity_loss=0.0)
        return Step(winner.attribute, own.domain.label(winner.lo, winner.hi), children, score / FIXED_ONE)

    def released(self, attribute: str) -> Generalised:
        """A column of this view in its cut."""
        return self.own[attribute].column.generalise(np.array(self.cut[attribute]))

    def _estimate(self, state: PublicState) -> None:
        """Bound every score from above, without reading records.

        The anonymity after a specialization never rises while other values are specialised, so its last known
        value bounds the loss from below.
        """
        for candidate in self.candidates:
            loss = 0.0
            if candidate.anonymity_after:
                loss = _mean_loss(state.anonymity(candidate.attribute), candidate.anonymity_after)
            candidate.score = self.score.rate(candidate.base, loss)

    def _open_children(self, attribute: str, cuts: Sequence[int], numbers: Sequence[int]) -> None:
        children = compress(pairwise(cuts), self.own[attribute].occurring(cuts))
        for value, (lo, hi) in zip(numbers, children, strict=True):
            self._open(attribute, value, lo, hi)

    def _open(self, attribute: str, value: int, lo: int, hi: int) -> None:
        own = self.own[attribute]
        cuts = own.cuts(lo, hi, self.score)
        if not cuts:
            return
        occurs = own.occurring(cuts)
        children = own.children_counts(cuts)[occurs]  # as everybody else counts them, to the last rounding
        if self.score.beneficial(children):
            base = self.score.base(children, None if self.score.recomputable else own.relief(cuts)[occurs])
            score = self.score.rate(base, anonymity_loss=0.0)
            self.candidates.append(Candidate(attribute, self._positions[attribute], value, lo, hi, cuts, base, score))


def anonymity_loss(state: PublicState, split: Split) -> float:
    """AnonyLoss of a specialization."""
    return _mean_loss(state.anonymity(split.attribute), state.anonymity_after(split))


def _fixed(penalties: Penalties) -> Counts:
    scaled: Counts = np.rint(penalties * FIXED_ONE).astype(np.int64)
    return scaled


def _mean_loss(before: Sequence[int], after: Sequence[int]) -> float:
    """AnonyLoss: the average fall of A(QID); at least 0, since `after` may be an overestimate."""
    return sum(max(b - a, 0) for b, a in zip(before, after, strict=True)) / len(before)


# --- algorithm --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TopDownSpecialization(TableMethod):
    """Top-down specialization towards a class attribute (`target`; in a job file `roles.class`), or without one."""

    name: ClassVar[str] = "tds"
    summary: ClassVar[str] = (
        "starts with everything general, and specialises the best value of any column while the requirement holds"
    )

    boundaries = "columns"
    seconds_per_million: ClassVar[float] = 0.3
    worth_trying: ClassVar[tuple[Mapping[str, Any], ...]] = ({}, {"score": "info-gain"}, {"score": "certainty"})

    score: str | None = parameter(
        optional(choice(*SCORES)),
        None,
        help="what a specialization is chosen by; gain-ratio where there is a class, else discernibility",
    )
    suppression: float = parameter(
        number(0, 1, open_high=True),
        0.0,
        help="the share of the records that may be left out so that the others can be more specific",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        score = score_named(self.score, self.target is not None)
        if self.suppression and score.weighs_anonymity:
            text = (
                f'"{score.name}" weighs the smallest group, which suppression may leave out; '
                'use "info-gain", or suppression = 0'
            )
            raise ParameterError(Problem(text, key=("score",)))

    def settings(self) -> dict[str, object]:
        """Return the settings with the default score spelled out, and the suppression if any."""
        score = score_named(self.score, self.target is not None).name
        suppression = {"suppression": float(self.suppression)} if self.suppression else {}
        return {"name": self.name, "score": score, **suppression}

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Suppression that could change what other groups satisfy."""
        if not self.suppression:
            return
        # It does not with one QID whose requirements are hereditary: with several QIDs a record that is left out for
        # one of them is missing in the groups of the others, and where parts of a violating group may satisfy, a
        # specialization that leaves out too many could become valid later.
        for part in parts:
            if not part.hereditary:
                text = f"not possible with {part.model}, because a part of a violating group may satisfy it"
                yield Problem(text, key=("suppression",))
        for text in different_qids(parts):
            yield Problem(text, key=("suppression",))

    def may_suppress(self, n_rows: int) -> int:
        """Return how many records may be left out, from the share's decimal text: 0.29 of 100 is 29."""
        return int(Fraction(str(self.suppression)) * n_rows)

    def run(self, records: Records, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Specialise until no candidate is valid, by counts of the records."""
        task = prepare(records, requirement, self)
        score = score_named(self.score, self.target is not None)
        names = [column.name for column in task.columns]
        may_suppress = self.may_suppress(len(records))
        state = PublicState(task.records, names, task.parts, task.records.coded, may_suppress)
        view = LocalView(dict(enumerate(task.columns)), state.scored(task.columns, self.target), score)
        for split in view.to_boundaries():
            view.start(split.attribute, state.specialise(split))
        steps: list[Step] = []
        while (found := view.best(state)) is not None:
            winner, split = found
            view.specialise(winner, state.specialise(split))
            steps.append(view.step(winner))
            if on_step is not None:
                on_step(steps[-1])
        released = tuple(view.released(name) for name in names)
        codes = {column.name: by_cut(column) for column in released}
        return task.outcome(released, tuple(steps), codes=codes, released=state.released)
