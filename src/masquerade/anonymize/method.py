"""The base classes of all methods and of methods on one table.

A method is a frozen dataclass whose parameters are declared fields (forms/declared.py). Its class says what it is
called in a job file, what it does, what it refuses and how it runs. `masquerade.methods` collects them; job files,
contracts, requests, forms and reference pages follow from the declarations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from masquerade.anonymize.outcome import OnStep, Outcome
from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.errors import ParameterError, Problem
from masquerade.forms.declared import Declared
from masquerade.privacy.requirement import GroupRequirement, Requirement

if TYPE_CHECKING:  # what runs on chunks is loaded when a table is in chunks
    from masquerade.anonymize.chunked.outcome import ChunkedOutcome
    from masquerade.data.records import Records


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
    """A method that turns one table into one release."""

    answers_queries: ClassVar[bool] = False  # whether its releases are judged by random queries, too
    # Of the processor, for a million cells of the quasi-identifiers: roughly, for deciding what is worth waiting for.
    seconds_per_million: ClassVar[float] = 2.0
    # The few settings that are worth comparing, the usual ones first; those that do not fit a table are left out.
    worth_trying: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)

    # Whether a table in chunks loses nothing by it: then it is run there wherever a table is in many files.
    same_on_chunks: ClassVar[bool] = True
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

    @classmethod
    def takes_chunks(cls) -> bool:
        """Return whether it runs on a table in chunks, too."""
        return cls.run_on_chunks is not TableMethod.run_on_chunks

    def chunk_refusals(self, parts: Sequence[GroupRequirement]) -> Iterator[Problem]:
        """Yield what it cannot do on a table in chunks, though it can on one table; keys as for `refusals`."""
        yield from ()

    def on_chunks(self) -> TableMethod:
        """Return the variant of this method that runs on a table in chunks; by default the method itself."""
        return self

    def run_on_chunks(
        self, table: Records, requirement: Requirement, on_step: OnStep | None = None
    ) -> ChunkedOutcome:
        """Anonymise a table in chunks: all that is known of its records are counts. Give what `run` would give."""
        raise NotImplementedError(f"{self.name} does not run on chunks")

    @abstractmethod
    def run(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Anonymise a table that has no missing cell in a used column."""


def insist(problems: Iterator[Problem]) -> None:
    """Raise if the method refuses anything."""
    if found := tuple(dict.fromkeys(problems)):
        raise ParameterError(*found)
