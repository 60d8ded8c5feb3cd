"""Try the methods that fit a table, and keep the release that is best by a measure.

Which of them run does not depend on how fast the machine is: every method declares what it costs, and those that would
not fit into the budget are left out. So the same job gives the same release everywhere. The methods' usual settings
come first, the cheaper ones before the dearer ones; one always runs. A method of another package that fails, in
whatever way, or whose release does not hold, is left out and named; a failure of our own is a bug, and surfaces.

What somebody learns from the choice beyond the release is in docs/leakage.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import Any, ClassVar

from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.publication import anonymised, verified
from masquerade.data import (
    Choice,
    FailedMethod,
    Missing,
    OnStep,
    Outcome,
    Records,
    Schema,
    Table,
    Tried,
    kept_query_log,
)
from masquerade.errors import ParameterError, Problem, RequirementUnreachable, RequirementViolated
from masquerade.forms import choice, number, optional, parameter, shown_value, words_of
from masquerade.plugins import failure_of, outside_package
from masquerade.privacy import (
    Conjunction,
    GroupRequirement,
    ReidentificationRisk,
    Requirement,
    reidentification_risk,
    without_redundant,
)
from masquerade.utility import (
    CLASSIFICATION_ERROR,
    CLASSIFICATION_METRIC,
    COUNTED,
    MEASURES,
    NCP,
    NEEDING_CLASS,
    NEEDING_WORKLOAD,
    QUERY_ERROR,
    WORKLOAD,
    Comparison,
    Measurer,
    cost,
    margin,
    usual_measure,
    workload,
    workload_problems,
)

# --- candidates ---------------------------------------------------------------------------------------------
# Which methods, with which settings, are worth trying on a table: those that their classes declare, and
# that fit.


@dataclass(frozen=True)
class Candidates:
    """Methods with their settings, ready to run, and why the other methods cannot."""

    fitting: tuple[TableMethod, ...]
    refused: dict[str, tuple[Problem, ...]]  # by the name of a method none of whose settings fits
    failed: tuple[FailedMethod, ...]  # methods of other packages that failed when they were asked


def candidates(
    methods: Iterable[type[TableMethod]],
    requirement: Requirement,
    schema: Schema,
    target: str | None = None,
    workload: str | None = None,
    *,
    in_chunks: bool = False,
) -> Candidates:
    """Return the settings of each method that take these requirements; of each method the usual ones first.

    Those that can look at a workload do; then the same without it are worth trying, too. With `in_chunks`, settings
    that do not run on a table in chunks are left out.
    """
    parts = without_redundant(requirement.parts)
    fitting: list[TableMethod] = []
    refused: dict[str, tuple[Problem, ...]] = {}
    failed: list[FailedMethod] = []
    for method in methods:
        try:
            found, problems = _settings_of(method, parts, schema, target, workload, in_chunks)
        except (Exception, SystemExit) as error:  # code of others may fail in any way
            failed.append(FailedMethod({"name": method.name}, failure_of(method, error)))
            continue
        fitting += found
        if not found:
            refused[method.name] = problems
    return Candidates(tuple(fitting), refused, tuple(failed))


def _settings_of(
    method: type[TableMethod],
    parts: Sequence[GroupRequirement],
    schema: Schema,
    target: str | None,
    workload: str | None,
    in_chunks: bool,
) -> tuple[list[TableMethod], tuple[Problem, ...]]:
    """Return a method with each of its settings that fit, and what is against the others."""
    found: list[TableMethod] = []
    problems: list[Problem] = []
    tried = list(method.tried_on(schema))
    if workload is not None and WORKLOAD in words_of(method):
        tried += [{**settings, WORKLOAD: workload} for settings in tried]
    for settings in tried:
        try:
            made = method(target=target, **settings).fitted(parts)
            made = made.in_chunks() if in_chunks else made
            against: Sequence[Problem] = tuple(made.refusals(parts, schema))
        except ParameterError as error:  # the settings need a class, for one
            against = error.problems
        if against:
            problems += against
        elif made.settings() not in [each.settings() for each in found]:
            found.append(made)
    return found, tuple(dict.fromkeys(problems))


# --- best release -------------------------------------------------------------------------------------------

_MILLION = 1_000_000
_FAST = 0.5  # seconds for a million cells


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

    counted: bool = field(default=False, repr=False, kw_only=True)  # what counts tell, as rows do not meet
    tell: Callable[[str], None] | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for needing, lacking, what in (
            (NEEDING_WORKLOAD, self.workload, "workload"),
            (NEEDING_CLASS, self.target, "class attribute"),
        ):
            if self.measure in needing and lacking is None:
                allowed = f"a measure that needs no {what}"
                raise ParameterError(Problem(key=("measure",), allowed=allowed, found=shown_value(self.measure)))

    @abstractmethod
    def methods(self) -> Iterable[type[TableMethod]]:
        """Return the methods to choose from."""

    def settings(self) -> dict[str, Any]:
        """Return the settings with the default measure spelled out."""
        return {"name": self.name, **self.parameters(), "measure": self.chosen_by, "budget": float(self.budget)}

    @property
    def chosen_by(self) -> str:
        """The measure."""
        return self.measure or usual_measure(self.target is not None)

    def telling(self, tell: Callable[[str], None]) -> TableMethod:
        """Return the same, which tells what it tries, and how long each may take."""
        return replace(self, tell=tell)

    def quickest(self, requirement: Requirement, schema: Schema) -> TableMethod:
        """Return the usual settings of one method: of those that are fast the one that takes most care."""
        fitting = self._candidates(requirement, schema).fitting
        usual = list({each.name: each for each in reversed(fitting)}.values())[::-1]
        if not usual:
            return self  # which says why
        fast = [each for each in usual if each.seconds_per_million <= _FAST]
        return (max if fast else min)(fast or usual, key=lambda each: each.seconds_per_million)

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """What every method refuses."""
        yield from (wrong := tuple(workload_problems(self.workload)))
        if wrong:
            return
        found = self._candidates(Conjunction(parts), schema)
        if not found.fitting:
            yield from chain(*found.refused.values(), map(_problem, found.failed))

    def in_chunks(self) -> TableMethod:
        """Return the same of fewer methods, and by a measure that counts tell; that is the usual one, unless named."""
        measure = self.measure
        if measure is None:
            measure = self.chosen_by if self.chosen_by in COUNTED else CLASSIFICATION_METRIC
        if measure not in COUNTED:
            allowed = f"on a table in chunks one that counts tell ({', '.join(COUNTED)})"
            raise ParameterError(Problem(key=("measure",), allowed=allowed, found=shown_value(measure)))
        return replace(self, measure=measure, counted=True)

    def run(self, records: Records, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Run every method within the budget, and return the best outcome with what the others gave."""
        if records.table is None and not self.counted:
            return self.in_chunks().run(records, requirement, on_step)
        asked = kept_query_log(self.workload) if self.workload is not None else None
        measurer = Measurer(records.table, self.target, workload=asked)
        last: TableMethod | None = None

        def attempt(method: TableMethod) -> tuple[Outcome, list[float | None]]:
            nonlocal last
            last, outcome = method, _run(method, records, requirement)
            comparison = Comparison.of(records, outcome, self.target)
            return outcome, [measurer.figure(name, comparison) for name in (self.chosen_by, NCP)]

        found = self._candidates(requirement, records.schema)
        method, outcome, choice = self._best(found, len(records), requirement, records.schema, attempt)
        # In chunks, methods leave their groups beside the records, where the next one puts its own.
        if records.table is None and method is not last:
            outcome = method.run(records, requirement)
        if on_step is not None:
            for step in outcome.steps:
                on_step(step)
        outcome = replace(outcome, choice=choice)
        return outcome.in_chunks(records) if records.table is not None else outcome

    def _best(
        self,
        found: Candidates,
        n_rows: int,
        requirement: Requirement,
        schema: Schema,
        attempt: Callable[[TableMethod], tuple[Outcome, Sequence[float | None]]],
    ) -> tuple[TableMethod, Outcome, Choice]:
        """Return the best method within the budget, what it made, and what the others gave.

        `attempt` runs a method, and gives its figures by the measure and by the certainty penalty.
        """
        cells = n_rows * len(requirement.qid_attributes)
        within, beyond = self._affordable(found.fitting, cells)
        spared: list[TableMethod] = []
        tried: list[tuple[Tried, TableMethod, Outcome]] = []
        failed = [*found.failed]
        unreachable: RequirementUnreachable | None = None
        for at, method in enumerate(within):
            if any(each.ncp == 0 for each, *_ in tried):  # nothing was generalised: no other can lose less
                spared = within[at:]
                break
            self._tell_trial(at, within, cells)
            try:
                outcome, figures = attempt(method)
            except RequirementUnreachable as error:
                unreachable = unreachable or error
            except (Exception, SystemExit) as error:  # code of others may fail in any way
                failed.append(FailedMethod(method.settings(), failure_of(type(method), error)))
            else:
                tried.append((Tried(method.settings(), *figures), method, outcome))
        if not tried:
            refused = [*chain.from_iterable(found.refused.values())]
            refusals = [*self.refusals(requirement.parts, schema)] or refused or map(_problem, failed)
            raise unreachable or ParameterError(*refusals)
        everything = tuple(each for each, *_ in tried)
        best = best_of(everything, self.chosen_by, n_rows)
        _, method, outcome = tried[everything.index(best)]
        left_out = tuple(each.settings() for each in beyond)
        choice = Choice(
            self.chosen_by,
            best,
            everything,
            left_out,
            tuple(failed),
            method.answers_queries,
            tuple(each.settings() for each in spared),
        )
        return method, outcome, choice

    def _tell_trial(self, at: int, methods: Sequence[TableMethod], cells: int) -> None:
        """Tell which method is tried next, and how long it and those after it may take."""
        if self.tell is None:
            return
        ahead = [each.seconds_per_million * cells / _MILLION for each in methods[at:]]
        method = methods[at]
        settings = ", ".join(f"{key} {value}" for key, value in method.settings().items() if key != "name")
        named = f"{method.name} ({settings})" if settings else method.name
        left = f", all that are left {_about(sum(ahead))}" if len(ahead) > 1 else ""
        self.tell(f"trying {at + 1} of {len(methods)}: {named}, may take {_about(ahead[0])}{left}")

    def _candidates(self, requirement: Requirement, schema: Schema) -> Candidates:
        others = (each for each in self.methods() if not issubclass(each, BestRelease))
        if any(name in schema and schema[name].is_bounded for name in requirement.qid_attributes):
            others = (each for each in others if each.boundaries != "ignored")
        if self.counted:
            others = (each for each in others if not each.needs_whole_table)
        return candidates(others, requirement, schema, self.target, self.workload, in_chunks=self.counted)

    def _affordable(self, methods: Sequence[TableMethod], cells: int) -> tuple[list[TableMethod], list[TableMethod]]:
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
        left_out = [method for at, method in enumerate(methods) if at not in within]
        return [methods[at] for at in sorted(within)], left_out


def _run(method: TableMethod, records: Records, requirement: Requirement) -> Outcome:
    """Run a method; of a table in memory, RequirementViolated if it is not ours and its release does not hold."""
    outcome = method.run(records, requirement)
    if records.table is None:
        return outcome
    outcome = outcome.in_table(records)
    if outside_package(type(method)) is not None:
        used = dict.fromkeys([*requirement.qid_attributes, *requirement.special_columns])
        if not all(verdict.holds for verdict in verified(records.table, outcome, requirement, tuple(used))):
            raise RequirementViolated(f"{method.name} made a release that its requirement refuses")
    return outcome


def _about(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 1 else "less than a second"


def _problem(failed: FailedMethod) -> Problem:
    return Problem(f"{failed.method['name']} {failed.reason}")


def best_of(tried: Sequence[Tried], measure: str, rows: int) -> Tried:
    """Return the best by a measure; of those that differ by less than its margin the one that lost least."""
    told = [each.value for each in tried if each.value is not None]
    enough = inf
    if told:
        least = min(told, key=lambda value: cost(measure, value))
        enough = cost(measure, least) + margin(measure, least, rows)
    good = [each for each in tried if (cost(measure, each.value) if each.value is not None else inf) <= enough]
    return min(good, key=lambda each: inf if each.ncp is None else each.ncp)


# --- side by side -------------------------------------------------------------------------------------------
# Methods side by side: each with its few settings, what its release of a table keeps, and how well it
# hides.
#
# Every release is verified like one that is published; none of them leaves.

# The figures to begin with; a table of all of them is too wide to read.
_HEADLINE = (NCP, "information_kept", QUERY_ERROR, CLASSIFICATION_ERROR, *NEEDING_WORKLOAD)


@dataclass(frozen=True)
class MethodResult:
    """One method with its settings, and what came of it."""

    method: Mapping[str, Any]  # its name and parameters
    k: int | None  # the size of a group that was asked for, where the requirement has a k
    metrics: Mapping[str, float | None]
    risk: ReidentificationRisk
    released: int
    suppressed: int
    groups: int
    seconds: float  # from ranks to verified groups

    @property
    def name(self) -> str:
        """The method's name."""
        return str(self.method["name"])

    @property
    def settings(self) -> dict[str, Any]:
        """The requirement's k and the method's parameters."""
        own = {key: value for key, value in self.method.items() if key != "name"}
        return own if self.k is None else {"k": self.k, **own}

    def summary(self) -> dict[str, Any]:
        """Return the row's entry in the JSON summary."""
        return {
            "method": self.name,
            "settings": self.settings,
            "metrics": dict(self.metrics),
            "risk": self.risk.summary(),
            "released": self.released,
            "suppressed": self.suppressed,
            "groups": self.groups,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class SideBySide:
    """All rows, the methods that could not take part with the reasons, and the measure that matters most."""

    rows: tuple[MethodResult, ...]
    refused: Mapping[str, tuple[Problem, ...]]  # by method
    measure: str
    source: str  # the table's name

    @property
    def best(self) -> tuple[MethodResult, ...]:
        """The best row by the measure, for each k."""
        found: dict[int | None, tuple[float, MethodResult]] = {}
        for row in self.rows:
            value = row.metrics[self.measure]
            if value is not None and (row.k not in found or cost(self.measure, value) < found[row.k][0]):
                found[row.k] = cost(self.measure, value), row
        return tuple(row for _, row in found.values())

    @property
    def headline(self) -> tuple[str, ...]:
        """The figures to begin with: that by which the best is named, then the usual ones that there are."""
        there = (name for name in _HEADLINE if any(row.metrics.get(name) is not None for row in self.rows))
        return tuple(dict.fromkeys((self.measure, *there)))

    @property
    def summary(self) -> dict[str, Any]:
        """Return the JSON summary."""
        return {
            "rows": [row.summary() for row in self.rows],
            "measure": self.measure,
            "best": [{"method": row.name, "settings": row.settings} for row in self.best],
            "refused": [
                {"method": name, "problems": [str(each) for each in problems]}
                for name, problems in self.refused.items()
            ],
        }


def side_by_side(
    table: Table,
    requirement: Requirement,
    methods: Sequence[type[TableMethod]],
    *,
    ks: Sequence[int] = (),
    target: str | None = None,
    sensitive: Sequence[str] = (),
    missing: Missing = "drop",
    seed: int = 7,
    workload: str | None = None,
    on_method: Callable[[TableMethod, int | None], None] | None = None,
) -> SideBySide:
    """Run every setting of every method that fits, for the requirement as it is or for each of `ks`.

    `RequirementUnreachable` when that is so of all of them; a `ParameterError` when every method refuses.
    """
    refused: dict[str, tuple[Problem, ...]] = {}
    rows: list[MethodResult] = []
    first: RequirementUnreachable | None = None
    measurer: Measurer | None = None
    log = kept_query_log(workload) if workload is not None else None
    for asked in [requirement.with_k(each) for each in ks] or [requirement]:
        k = _k_of(asked)
        found = candidates(methods, asked, table.schema, target, workload)
        refused |= found.refused
        refused |= {str(each.method["name"]): (Problem(each.reason),) for each in found.failed}
        for method in found.fitting:
            if on_method is not None:
                on_method(method, k)
            try:
                made = anonymised(table, asked, method, sensitive=sensitive, missing=missing)
            except RequirementUnreachable as error:
                first = first or error
                continue
            except (Exception, SystemExit) as error:  # code of others may fail in any way
                refused[method.name] = (Problem(failure_of(type(method), error)),)
                continue
            table = made.table  # complete by now, with its columns as ranks
            measurer = measurer or Measurer(table, target, seed, log)
            comparison = made.comparison
            rows.append(
                MethodResult(
                    method.settings(),
                    k,
                    measurer.figures(comparison),
                    reidentification_risk(comparison.group_sizes),
                    comparison.released_rows,
                    comparison.suppressed,
                    int(comparison.group_sizes.size),
                    made.seconds["anonymize"],
                )
            )
    if not rows:
        raise first or ParameterError(*chain.from_iterable(refused.values()))
    # The best is named by the usual measure, or where no row has it by one that some have.
    ordered = (usual_measure(target is not None), CLASSIFICATION_METRIC, NCP)
    measure = next((name for name in ordered if any(row.metrics.get(name) is not None for row in rows)), NCP)
    return SideBySide(tuple(rows), refused, measure, table.origin.name)


def _k_of(requirement: Requirement) -> int | None:
    plain = [each for part in requirement.parts for each in part.wrapped or (part,)]
    return max((part.required_size for part in plain if part.required_size is not None), default=None)
