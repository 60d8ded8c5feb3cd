"""The base classes of all methods and of methods on one table.

A method is a frozen dataclass whose parameters are declared fields (forms/declared.py). Its class says what it is
called in a job file, what it does, what it refuses and how it runs. `masquerade.methods` collects them; job files,
contracts, requests, forms and reference pages follow from the declarations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Literal

from masquerade.data import OnStep, Outcome, Records, Schema, Table
from masquerade.errors import ParameterError, Problem
from masquerade.forms import Declared
from masquerade.privacy import GroupRequirement, Requirement


@dataclass(frozen=True)
class Method(Declared, ABC):
    """Something that `[algorithm] name` may say."""

    name: ClassVar[str]
    summary: ClassVar[str]  # what it does, in a sentence for people
    short_names: ClassVar[Mapping[str, Mapping[str, str]]] = {}  # names for it with these parameters
    lacks: ClassVar[Mapping[str, str]] = {}  # keys of others that one may miss here, and why it has none

    def settings(self) -> dict[str, Any]:
        """Return the name and parameters as written in job files and contracts."""
        return {"name": self.name, **self.parameters()}


@dataclass(frozen=True)
class TableMethod(Method):
    """A method that turns one table into one release.

    It runs on records, wherever they are; see `WholeTableMethod` for one that needs all rows at once.
    """

    answers_queries: ClassVar[bool] = False  # whether its releases are judged by random queries, too
    # Of the processor, for a million cells of the quasi-identifiers: roughly, for deciding what is worth waiting for.
    seconds_per_million: ClassVar[float] = 2.0
    # The few settings that are worth comparing, the usual ones first; those that do not fit a table are left out.
    worth_trying: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)

    # Whether it needs all rows in one memory. This is the one place that says so.
    needs_whole_table: ClassVar[bool] = False
    # How it keeps to boundaries of generalisation: each record to its own; likewise, and it may save a part of the
    # records of a group that violates even at them; all records of a column alike; not at all.
    boundaries: ClassVar[Literal["records", "parts", "columns", "ignored"]] = "ignored"
    # Whether it releases the groups that satisfy and leaves out the others, where not all records can be released.
    leaves_out: ClassVar[bool] = False

    target: str | None = None  # the class attribute

    @classmethod
    def tried_on(cls, schema: Schema) -> Sequence[Mapping[str, Any]]:
        """Return the settings that are worth comparing on a table with these attributes."""
        return cls.worth_trying

    def seeded(self, seed: int) -> TableMethod:
        """Return the method with this seed for what it draws at random; by default it draws nothing."""
        return self

    def fitted(self, parts: Sequence[GroupRequirement]) -> TableMethod:
        """Return the variant of this method that fits these requirements; by default the method itself."""
        return self

    def telling(self, tell: Callable[[str], None]) -> TableMethod:
        """Return the method so that it tells what it tries, if it tries several."""
        return self

    def quickest(self, requirement: Requirement, schema: Schema) -> TableMethod:
        """Return a fast method in place of one that tries several."""
        text = "a fast method is taken where the best of several is asked for"
        raise ParameterError(f'--quick: {text}; the job names "{self.name}"')

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Yield what it cannot do with any records; keys are those of `[algorithm]`, or start with `attributes`."""
        yield from ()

    def in_chunks(self) -> TableMethod:
        """Return the variant for rows that do not meet in one memory; the method itself where it loses nothing there.

        A ParameterError says what it cannot do there.
        """
        if self.needs_whole_table:
            raise ParameterError(f'"{self.name}" needs the whole table in one memory')
        return self

    @abstractmethod
    def run(self, records: Records, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Anonymise records that lack no cell of a used column: all that is known of them are counts."""

    def run_on_table(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Anonymise a table that has no missing cell in a used column; the outcome's columns have codes."""
        records = records_of(table, requirement, self.target)
        return self.run(records, requirement, on_step).in_table(records)

    def __init_subclass__(cls, **given: Any) -> None:
        """Take a `run` that is written for a table, not for records, as that of a method that needs all rows."""
        super().__init_subclass__(**given)
        written = cls.__dict__.get("run")
        if written is not None and [*signature(written).parameters][1:2] != ["records"]:
            cls.run_on_table = written  # type: ignore[method-assign]
            cls.run = WholeTableMethod.run  # type: ignore[method-assign, assignment] # it is one from now on
            cls.needs_whole_table = True


class WholeTableMethod(TableMethod):
    """A method that needs all rows at once: to compare each record with every other, or because it says so."""

    needs_whole_table = True

    def run(self, records: Records, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Run on the one table that the records are; refuse others."""
        table = records.together(self.name)
        return self.run_on_table(table, requirement, on_step).in_chunks(records)

    @abstractmethod
    def run_on_table(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Anonymise a table that has no missing cell in a used column; the outcome's columns have codes."""


def records_of(table: Table, requirement: Requirement, target: str | None, sensitive: Sequence[str] = ()) -> Records:
    """Return the rows of a table with what a method needs of each: quasi-identifiers, class, special columns."""
    return Records.of(
        table,
        (name for name in table.schema.names if name in requirement.qid_attributes),
        (target, *sensitive, *requirement.special_columns, *requirement.sensitive_attributes),
    )


def insist(problems: Iterator[Problem]) -> None:
    """Raise if the method refuses anything."""
    if found := tuple(dict.fromkeys(problems)):
        raise ParameterError(*found)
