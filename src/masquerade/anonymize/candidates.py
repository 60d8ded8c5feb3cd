"""Which methods, with which settings, are worth trying on a table: those that their classes declare, and that fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from masquerade.anonymize.method import TableMethod
from masquerade.data.schema import Schema
from masquerade.errors import ParameterError, Problem
from masquerade.privacy.requirement import Requirement, without_redundant


@dataclass(frozen=True)
class Candidates:
    """Methods with their settings, ready to run, and why the other methods cannot."""

    fitting: tuple[TableMethod, ...]
    refused: dict[str, tuple[Problem, ...]]  # by the name of a method none of whose settings fits


def candidates(
    methods: Iterable[type[TableMethod]], requirement: Requirement, schema: Schema, target: str | None = None
) -> Candidates:
    """Return the settings of each method that take these requirements; of each method the usual ones first."""
    parts = without_redundant(requirement.parts)
    fitting: list[TableMethod] = []
    refused: dict[str, tuple[Problem, ...]] = {}
    for method in methods:
        found: list[TableMethod] = []
        problems: list[Problem] = []
        for settings in method.worth_trying:
            try:
                made = method(target=target, **settings).fitted(parts)
                against: Sequence[Problem] = tuple(made.refusals(parts, schema))
            except ParameterError as error:  # the settings need a class, for one
                against = error.problems
            if against:
                problems += against
            elif made.settings() not in [each.settings() for each in found]:
                found.append(made)
        fitting += found
        if not found:
            refused[method.name] = tuple(dict.fromkeys(problems))
    return Candidates(tuple(fitting), refused)
