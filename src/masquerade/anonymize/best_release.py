"""Try the methods that fit a table, and keep the release that is best by a measure.

Which of them run does not depend on how fast the machine is: every method declares what it costs, and those that would
not fit into the budget are left out. So the same job gives the same release everywhere. The methods' usual settings
come first, the cheaper ones before the dearer ones; one always runs. A method of another package that fails, in
whatever way, or whose release does not hold, is left out and named; a failure of our own is a bug, and surfaces.

What somebody learns from the choice beyond the release is in docs/leakage.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

from masquerade.anonymize.candidates import Candidates, candidates
from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.outcome import Choice, Failed, OnStep, Outcome, Tried
from masquerade.anonymize.publish import comparison_of, verified
from masquerade.anonymize.workload_key import workload, workload_problems
from masquerade.data.query_log import kept_query_log
from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.errors import ParameterError, Problem, RequirementUnreachable, RequirementViolated
from masquerade.forms.declared import parameter, shown_value
from masquerade.forms.rules import choice, number, optional
from masquerade.plugins import failure_of, outside_package
from masquerade.privacy.requirement import Conjunction, GroupRequirement, Requirement
from masquerade.utility.measures import (
    MEASURES,
    NCP,
    NEEDING_CLASS,
    NEEDING_WORKLOAD,
    Measurer,
    cost,
    margin,
    usual_measure,
)

_MILLION = 1_000_000


@dataclass(frozen=True)
class BestRelease(TableMethod):
    """The best of several methods; which those are is the affair of a registry."""

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "tries the methods that take the requirements, and keeps the best release"

    measure: str | None = parameter(
        optional(choice(*MEASURES)),
        None,
        help="by what the best is chosen; classification_error where there is a class, else ncp",
    )
    budget: float = parameter(
        number(0, open_low=True),
        5.0,
        help="seconds of the processor that the methods may take together, by what each declares",
    )

    workload: str | None = workload(
        "a log of queries: methods that can are made for it, and measures of its selections may be chosen by"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.measure in NEEDING_WORKLOAD and self.workload is None:
            allowed = "a measure that needs no workload"
            raise ParameterError(Problem(key=("measure",), allowed=allowed, found=shown_value(self.measure)))
        if self.measure in NEEDING_CLASS and self.target is None:
            allowed = "a measure that needs no class attribute"
            raise ParameterError(Problem(key=("measure",), allowed=allowed, found=shown_value(self.measure)))

    @abstractmethod
    def methods(self) -> Iterable[type[TableMethod]]:
        """Return the methods to choose from."""

    def settings(self) -> dict[str, Any]:
        """Return the settings with the default measure spelled out."""
        return {
            "name": self.name,
            **self.parameters(),
            "measure": self.chosen_by,
            "budget": float(self.budget),
        }

    @property
    def chosen_by(self) -> str:
        """The measure."""
        return self.measure or usual_measure(self.target is not None)

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """What every method refuses."""
        yield from (wrong := tuple(workload_problems(self.workload)))
        if wrong:
            return
        found = self._candidates(Conjunction(parts), schema)
        if not found.fitting:
            for problems in found.refused.values():
                yield from problems
            yield from map(_problem, found.failed)

    def run(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Run every method within the budget, and return the best outcome with what the others gave."""
        found = self._candidates(requirement, table.schema)
        within, beyond = self._affordable(found.fitting, len(table) * len(requirement.qid_attributes))
        asked = kept_query_log(self.workload) if self.workload is not None else None
        measurer = Measurer(table, self.target, workload=asked)
        tried: list[tuple[Tried, TableMethod, Outcome]] = []
        failed = [*found.failed]
        unreachable: RequirementUnreachable | None = None
        for method in within:
            try:
                outcome = _run(method, table, requirement)
                comparison = comparison_of(table, outcome, self.target)
                figures = [measurer.figure(name, comparison) for name in (self.chosen_by, NCP)]
            except RequirementUnreachable as error:
                unreachable = unreachable or error
            except (Exception, SystemExit) as error:  # code of others may fail in any way
                failed.append(Failed(method.settings(), failure_of(type(method), error)))
            else:
                tried.append((Tried(method.settings(), *figures), method, outcome))
        if not tried:
            refusals = [*self.refusals(requirement.parts, table.schema)] or map(_problem, failed)
            raise unreachable or ParameterError(*refusals)
        everything = tuple(each for each, *_ in tried)
        best = best_of(everything, self.chosen_by, len(table))
        _, method, outcome = tried[everything.index(best)]
        if on_step is not None:
            for step in outcome.steps:
                on_step(step)
        left_out = tuple(each.settings() for each in beyond)
        choice = Choice(self.chosen_by, best, everything, left_out, tuple(failed), method.answers_queries)
        return replace(outcome, choice=choice)

    def _candidates(self, requirement: Requirement, schema: Schema) -> Candidates:
        others = (each for each in self.methods() if not issubclass(each, BestRelease))
        if any(name in schema and schema[name].is_bounded for name in requirement.qid_attributes):
            others = (each for each in others if each.boundaries != "ignored")
        return candidates(others, requirement, schema, self.target, self.workload)

    def _affordable(
        self, methods: Sequence[TableMethod], cells: int
    ) -> tuple[list[TableMethod], list[TableMethod]]:
        """Return the methods within the budget, and those beyond it."""
        settings: dict[str, int] = {}  # of each method, so far
        ranked = []
        for method in methods:
            settings[method.name] = settings.get(method.name, -1) + 1
            ranked.append((settings[method.name], method.seconds_per_million * cells / _MILLION))
        within, spent = set[int](), 0.0
        for at in sorted(range(len(methods)), key=ranked.__getitem__):
            seconds = ranked[at][1]
            if not within or spent + seconds <= self.budget:
                within.add(at)
                spent += seconds
        return (
            [method for at, method in enumerate(methods) if at in within],
            [method for at, method in enumerate(methods) if at not in within],
        )


def _run(method: TableMethod, table: Table, requirement: Requirement) -> Outcome:
    """Run a method; RequirementViolated if it is not ours and its release does not hold."""
    outcome = method.run(table, requirement)
    if outside_package(type(method)) is not None:
        used = dict.fromkeys([*requirement.qid_attributes, *requirement.special_columns])
        _, verdicts = verified(table, outcome, requirement, tuple(used))
        if not all(verdict.holds for verdict in verdicts):
            raise RequirementViolated(f"{method.name} made a release that its requirement refuses")
    return outcome


def _problem(failed: Failed) -> Problem:
    return Problem(f"{failed.method['name']} {failed.reason}")


def best_of(tried: Sequence[Tried], measure: str, rows: int) -> Tried:
    """Return the best by a measure; of those that differ by less than its margin the one that lost least."""
    told = [each.value for each in tried if each.value is not None]
    enough = inf
    if told:
        least = min(told, key=lambda value: cost(measure, value))
        enough = cost(measure, least) + margin(measure, least, rows)
    good = [
        each for each in tried if (cost(measure, each.value) if each.value is not None else inf) <= enough
    ]
    return min(good, key=lambda each: inf if each.ncp is None else each.ncp)
