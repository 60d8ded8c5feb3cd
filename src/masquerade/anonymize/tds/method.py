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
from typing import Any, ClassVar

from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.preparation import different_qids, prepare
from masquerade.anonymize.tds.groups import PublicState
from masquerade.anonymize.tds.view import LocalView
from masquerade.data import OnStep, Outcome, Records, Schema, Step, by_cut
from masquerade.errors import ParameterError, Problem
from masquerade.forms import choice, number, optional, parameter
from masquerade.privacy import GroupRequirement, Requirement
from masquerade.utility import SCORES, score_named


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
