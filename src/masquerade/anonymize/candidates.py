"""Which methods, with which settings, are worth trying on a table: those that their classes declare, and that fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.outcome import Failed
from masquerade.anonymize.workload_key import WORKLOAD
from masquerade.data.schema import Schema
from masquerade.errors import ParameterError, Problem
from masquerade.forms.declared import words_of
from masquerade.plugins import failure_of
from masquerade.privacy.requirement import GroupRequirement, Requirement, without_redundant


@dataclass(frozen=True)
class Candidates:
    """Methods with their settings, ready to run, and why the other methods cannot."""

    fitting: tuple[TableMethod, ...]
    refused: dict[str, tuple[Problem, ...]]  # by the name of a method none of whose settings fits
    failed: tuple[Failed, ...]  # methods of other packages that failed when they were asked


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
    failed: list[Failed] = []
    for method in methods:
        try:
            found, problems = _settings_of(method, parts, schema, target, workload, in_chunks)
        except (Exception, SystemExit) as error:  # code of others may fail in any way
            failed.append(Failed({"name": method.name}, failure_of(method, error)))
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
