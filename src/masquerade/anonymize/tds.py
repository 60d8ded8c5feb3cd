"""Top-down specialization: start with everything general, and make it specific as long as the requirement holds.

At each step the best valid and beneficial value of the cut is replaced by its children (Fung, Wang and Yu; Mohammed,
Fung and Debbabi). Comparison, ties and split points follow docs/papers.md, so every implementation gives one answer.

Validity is looked at only for the candidate that is about to win: whatever is behind it does not matter yet, and what
is invalid once stays so. This file is the mashup protocol with one party: `LocalView` is what a party knows of its own
columns, `PublicState` is what all know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from masquerade.anonymize.local_view import Candidate, LocalView
from masquerade.anonymize.method import TableMethod, insist
from masquerade.anonymize.outcome import OnStep, Outcome, Step
from masquerade.anonymize.public_state import PublicState
from masquerade.data.column import Coded, Column
from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.errors import ParameterError, Problem, RequirementUnreachable
from masquerade.forms.declared import parameter
from masquerade.forms.rules import choice, number, optional
from masquerade.privacy.requirement import (
    GroupRequirement,
    Requirement,
    without_redundant,
)
from masquerade.utility.scores import FIXED_ONE, SCORES, score_named


@dataclass(frozen=True)
class TopDownSpecialization(TableMethod):
    """Top-down specialization towards a class attribute (`target`; in a job file `roles.class`), or without one."""

    name: ClassVar[str] = "tds"
    summary: ClassVar[str] = (
        "starts with everything general, and specialises the best value of any column while the requirement holds"
    )

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
        """The score, spelled out, and the suppression if there is any."""
        score = score_named(self.score, self.target is not None).name
        suppression = {"suppression": float(self.suppression)} if self.suppression else {}
        return {"name": self.name, "score": score, **suppression}

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Suppression that could change what other groups satisfy."""
        if self.suppression:
            yield from refuse_suppression(parts)

    def may_suppress(self, n_rows: int) -> int:
        """How many of the records may be left out: the share as it is written, so 0.29 of 100 are 29."""
        return int(Fraction(str(self.suppression)) * n_rows)

    def run(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Specialise until nothing is valid."""
        parts = without_redundant(requirement.parts)
        refuse_misplaced(parts, self.target)
        insist(self.refusals(parts, table.schema))
        names = in_schema_order(table, requirement.qid_attributes)
        columns = table.columns(names)
        classes = table.coded(self.target) if self.target is not None else None
        sensitive = {name: table.coded(name) for name in requirement.sensitive_attributes}
        for part in parts:
            part.bind(sensitive[part.sensitive].labels if part.sensitive is not None else ())

        state = PublicState(names, parts, sensitive, len(table), self.may_suppress(len(table)))
        refuse_unreachable(table, parts)
        view = LocalView(dict(enumerate(columns)), classes, score_named(self.score, self.target is not None))
        by_name = {column.name: column for column in columns}
        steps: list[Step] = []
        while (found := view.best(state)) is not None:
            winner, instruction = found
            view.specialise(winner, state.specialise(instruction))
            steps.append(step_of(winner, by_name[winner.attribute]))
            if on_step is not None:
                on_step(steps[-1])
        released = tuple(view.released(name) for name in names)
        if (kept := state.kept) is not None:
            released = tuple(column.of_rows(kept) for column in released)
        return Outcome(released, tuple(steps), kept)


def step_of(winner: Candidate, column: Column) -> Step:
    """A candidate that won, in the words of its attribute."""
    label = column.domain.label
    children = tuple(label(lo, hi) for lo, hi in zip(winner.cuts[:-1], winner.cuts[1:], strict=True))
    return Step(winner.attribute, label(winner.lo, winner.hi), children, winner.score / FIXED_ONE)


def in_schema_order(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    """The QID attributes in the order of the joint schema."""
    for name in names:
        table.schema[name]  # an unknown name is an error that lists the known ones
    return tuple(name for name in table.schema.names if name in names)


def refuse_misplaced(parts: Sequence[GroupRequirement], target: str | None) -> None:
    """A class, or a sensitive attribute, is published as it is: it cannot be generalised as part of a QID."""
    sensitive = {part.sensitive for part in parts}
    for part in parts:
        for name in part.qid:
            if name == target:
                raise ParameterError(
                    f"class attribute {name}: it is inside the QID of {part}; take it out of the QID"
                )
            if name in sensitive:
                raise ParameterError(
                    f"sensitive attribute {name}: it is inside the QID of {part}; take it out of the QID"
                )


def refuse_suppression(parts: Sequence[GroupRequirement]) -> Iterator[Problem]:
    """Which records to leave out must follow from the groups, and leaving them out must change no other group.

    That is so when there is one QID and its requirements are hereditary: with several QIDs a record that is
    left out for one of them is missing in the groups of the others, and where parts of a violating group may
    satisfy, a specialization that leaves out too many could become valid later.
    """
    for part in parts:
        if not part.hereditary:
            text = f"not possible with {part.model}, because a part of a violating group may satisfy it"
            yield Problem(text, key=("suppression",))
    for text in different_qids(parts):
        yield Problem(text, key=("suppression",))


def different_qids(parts: Sequence[GroupRequirement]) -> Iterator[str]:
    """Which requirements are over another QID than the first."""
    for other in parts[1:]:
        if set(other.qid) != set(parts[0].qid):
            yield (
                f"all requirements must be over the same QID; {parts[0].model} is over {', '.join(parts[0].qid)}, "
                f"and {other.model} over {', '.join(other.qid)}"
            )


def refuse_unreachable(
    table: Table, parts: Sequence[GroupRequirement], sensitive: Mapping[str, Coded] | None = None
) -> None:
    """When all records in one group violate the requirement, every release does; or where it is not monotone, whatever
    comes of cutting them.

    `sensitive` has columns that are known without being in the table.
    """
    n, known = len(table), sensitive or {}
    if n == 0:
        raise RequirementUnreachable(f"{table.origin.name}: no records are left to release")
    problems = []
    violated = []
    for part in parts:
        name = part.sensitive
        coded = None if name is None else known[name] if name in known else table.coded(name)
        histogram = coded.histogram() if coded is not None else np.array([[n]], np.int64)
        names = coded.labels if coded is not None else ()
        if not part.holds(histogram, histogram, names)[0]:
            figure = float(part.figures(histogram, histogram, names)[0])
            whole = f"the group of all records {part.complaint(figure, n)}"
            violated.append(str(part))
            problems.append(
                f"{table.origin.name}: {part} cannot be reached: even {whole}"
                if part.monotone
                else f"{table.origin.name}: {part} cannot be reached by cutting: {whole}"
            )
    if problems:
        raise RequirementUnreachable(*problems, violated=tuple(violated))
