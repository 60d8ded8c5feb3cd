"""Build a job's working objects from its file: schema, requirement, algorithm, outputs.

Checks beyond the shape of the file happen here, before any data is read: contradictory keys, undeclared
names, missing files. All problems are reported at once, together with those of the shape.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from masquerade.anonymize.method import Method, TableMethod
from masquerade.data.database_url import database_scheme
from masquerade.data.file_kinds import is_parted
from masquerade.data.schema import Schema
from masquerade.errors import Key, ParameterError, Problem
from masquerade.forms.declared import words_of
from masquerade.forms.form import fill
from masquerade.forms.problems import Problems
from masquerade.forms.toml import read_toml
from masquerade.job.attributes import schema_of
from masquerade.job.model import DataSection, Job, TableSection
from masquerade.job.outputs import Outputs, outputs_beside, outputs_of
from masquerade.job.requirements import FOR_PROVIDERS, Providers, entry_of, requirement_of
from masquerade.job.roles import check_roles
from masquerade.methods import (
    DEFAULT,
    CommonKeys,
    askable_methods,
    full_name,
    no_method,
    read_method,
    session_methods,
    table_methods,
    unnamed_method,
)
from masquerade.privacy.requirement import Requirement, without_redundant
from masquerade.protocol.arrangement import ARRANGEMENTS, PROVIDER, Arrangement

if TYPE_CHECKING:
    from masquerade.job.draft.draft import Draft

FOR_MODELS = "belongs to jobs of masquerade learn"


def known_method(name: str) -> str:
    """Return the name of a method on one table as it is written; ParameterError if there is none."""
    available = table_methods()
    if full_name(name)[0] not in available:
        raise ParameterError(f"--method: {no_method(name, available)}")
    return name


@dataclass(frozen=True)
class Changes:
    """What is said beside a job file, in place of what it says."""

    method: str | None = None
    k: int | None = None
    output: Path | None = None  # as seen from here; the report goes beside it

    def of(self, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of a job file with the changes made."""
        changed = dict(table)
        if self.method is not None:
            changed["algorithm"] = {**self._kept_keys(table.get("algorithm")), "name": self.method}
        if self.k is not None:
            changed["privacy"] = self._with_k(table.get("privacy"))
        if self.output is not None:
            files, section = outputs_beside(self.output.absolute()), table.get("output", {})
            section = dict(section) if isinstance(section, dict) else {}
            report = False if section.get("report") is False else str(files.report)
            changed["output"] = {**section, "table": str(files.table), "report": report}
        return changed

    def _kept_keys(self, section: object) -> dict[str, Any]:
        """Return the keys of `[algorithm]` that the named method has, too."""
        name, _ = full_name(known_method(str(self.method)))
        known = {*words_of(table_methods()[name]), *words_of(CommonKeys)}
        return (
            {key: value for key, value in section.items() if key in known}
            if isinstance(section, dict)
            else {}
        )

    def _with_k(self, entries: object) -> object:
        """Return the requirements, each that has a k with this one."""
        if not isinstance(entries, list):
            return entries
        found = [dict(entry) if isinstance(entry, dict) else entry for entry in entries]
        having = [entry for entry in found if isinstance(entry, dict) and "k" in entry]
        if not having:
            raise ParameterError("--k: no requirement of the job has a k; give it in [[privacy]]")
        for entry in having:
            entry["k"] = self.k
        return found


class Plan:
    """A job and its parts.

    Request the parts that a command needs, then call `settle`: until then they may be unusable.
    """

    arrangement: Arrangement | None = None  # how the parties hold their data; None: there is one table

    def __init__(self, path: Path, changes: Changes | None = None, drafted: Draft | None = None) -> None:
        """Read the job file at `path`, or take the one that was drafted for there and is not written.

        `changes` are made to what it says.
        """
        self.path = path
        self.base = path.parent
        self.taxonomies = {} if drafted is None else drafted.taxonomies
        self.problems = Problems(str(path) if drafted is None else "the drafted job")
        table = read_toml(path) if drafted is None else tomllib.loads(drafted.text)
        self.job = fill(Job, table if changes is None else changes.of(table), self.problems)
        self.method = self._method()
        self.requirement = self._requirement()
        self._check_engine()
        check_roles(
            self.job, self.problems, needs_provider=self.is_method_known and not self.is_collaboration
        )
        self._check_command()

    def settle(self) -> None:
        """Raise one error with all problems found so far, if any."""
        self.problems.settle()

    def _requirement(self) -> Requirement:
        """Return what must hold of the release."""
        missing = FOR_PROVIDERS if self.is_method_known else None
        providers = Providers(self.provider, self.common.verification, missing)
        return requirement_of(self.job, self.problems, providers, self.base)

    def _check_engine(self) -> None:
        """Report an engine beside parties whose method does not count there, and a key that no engine reads by."""
        data = self.job.data
        if data is not None and data.partition is not None:
            if database_scheme(data.source) is None:
                self.problems.add(
                    ("data", "partition"), "belongs to a database, which source names by its URL"
                )
            elif self.job.engine is None:
                text = "belongs to jobs with an [engine], which reads ranges of it; leave it out, or name one"
                self.problems.add(("data", "partition"), text)
        if self.job.engine is None or not self.job.parties or self.method is None:
            return
        from masquerade.protocol.method import AskedMethod

        if isinstance(self.method, AskedMethod):
            reason = self.method.off_engine(without_redundant(self.requirement.parts))
            if reason is not None:
                self.problems.add(
                    ("engine",), f"{reason}: name another method in [algorithm], or leave [engine] out"
                )

    def _check_command(self) -> None:
        """Report keys that belong to jobs for models."""
        for key in ("duration", "event"):
            if getattr(self.job.roles, key) is not None:
                self.problems.add(("roles", key), FOR_MODELS)
        if self.job.output.model is not None:
            self.problems.add(("output", "model"), FOR_MODELS)
        tables: list[tuple[Key, TableSection | None]] = [
            (("data",), self.job.data),
            *((("parties", name), each) for name, each in self.job.parties.items()),
        ]
        for where, section in tables:
            if section is not None and section.missing == "mean":
                self.problems.add((*where, "missing"), f'"mean" {FOR_MODELS}; use "drop", "error" or "keep"')

    def _method(self) -> Method | None:
        """Return the method that `[algorithm]` names, for one table or for the parties; None if it is invalid."""
        table, target = self.job.algorithm, self.job.roles.class_
        method: Method | None
        if self.job.parties and self.job.data is None:
            self.arrangement = self._arrangement()
            unnamed = unnamed_method(self.arrangement)
            available = askable_methods(self.arrangement)
            method, self.common, wrong = read_method(available, table, unnamed.name, base=self.base)
            method = unnamed if method is not None and method.name == DEFAULT else method
        else:
            method, self.common, wrong = read_method(table_methods(), table, base=self.base, target=target)
        for problem in wrong:
            # An invalid class is reported already; a score that needs it must not report it again.
            if problem.key != ("score",) or not self.problems.about(("roles", "class")):
                self.problems.broken(("algorithm", *problem.key), problem)
        return None if self.problems.about(("algorithm", "name")) else method

    def _arrangement(self) -> Arrangement:
        """Return how the parties hold their data: as the method needs it, or else by whether they identify people."""
        name, _ = full_name(self.job.algorithm.get("name", DEFAULT))
        possible = {each for each in ARRANGEMENTS if isinstance(name, str) and name in session_methods(each)}
        if len(possible) == 1:
            return possible.pop()
        parties = self.job.parties.values()
        if possible:
            return "vertical" if all(party.id for party in parties) else "horizontal"
        return "vertical" if any(party.id or party.attributes for party in parties) else "horizontal"

    @property
    def is_method_known(self) -> bool:
        """Whether the method is valid; if not, checks that depend on it are skipped."""
        return self.method is not None

    @property
    def is_collaboration(self) -> bool:
        """Whether the job's parties hold the same columns about different people."""
        return self.is_method_known and self.arrangement == "horizontal"

    @property
    def provider(self) -> str | None:
        """The column of each record's provider; a collaboration's parties need none."""
        return self.job.roles.provider or (PROVIDER if self.is_collaboration else None)

    def refuse(self, problem: Problem) -> None:
        """Record what a method refuses; its own keys are reported below `algorithm`."""
        if problem.key[:1] != ("attributes",):
            self.problems.add(("algorithm", *problem.key), problem)
        elif not any(other.key[:2] == problem.key[:2] for other in self.problems.found):
            self.problems.add(problem.key, problem)  # unless the attribute is invalid anyway

    def data(self) -> DataSection:
        """Return the section of the table to read."""
        section = self.job.data
        if section is None:
            kind = (
                "[parties] belongs to mashup; one table needs [data]" if self.job.parties else "give [data]"
            )
            self.problems.add(("data",), f'missing; {kind} with source = "table.csv"')
        elif not section.source:
            self.problems.add(("data", "source"), "missing; name a file or a database URL")
        return section or DataSection()

    def schema(self) -> Schema:
        """Return the attributes with their taxonomies."""
        qid = {name for entry in self.job.privacy for name in entry.qid or ()}
        if not self.job.attributes:
            text = "missing; give an [attributes.NAME] table for each column to release"
            self.problems.add(("attributes",), text)
        schema = schema_of(self.job, qid, self.base, self.problems, self.taxonomies)
        for part in self.requirement.parts:
            bounded = any(name in schema and schema[name].is_bounded for name in part.qid)
            if part.within_boundaries and not bounded and not self.problems.found:
                key = entry_of(self.job, part, self.base)
                text = f"{part.model} needs boundaries: give an attribute of its qid max_generalization or max_width"
                self.problems.add(key, text)
        return schema

    def boundaries(self) -> Schema | None:
        """Return the schema for counting cells beyond boundaries in a release; None where there are none.

        A release can be verified without the taxonomies. Where the job itself speaks of boundaries, they are needed.
        """
        named = any(
            each.max_generalization or each.max_width or each.min_generalization or each.min_width
            for each in self.job.attributes.values()
        )
        if named or any(part.within_boundaries for part in self.requirement.parts):
            return self.schema()
        found = schema_of(self.job, (), self.base, Problems(""))
        return found if any(attribute.is_bounded for attribute in found) else None

    def algorithm(self, schema: Schema) -> TableMethod:
        """Return the method for one table, configured for the requirements."""
        parts = without_redundant(self.requirement.parts)
        if not isinstance(self.method, TableMethod):
            return table_methods()[DEFAULT]()
        method = self.method.seeded(self.common.seed)
        with self.problems.collecting(("algorithm",)):
            method = method.fitted(parts)
        if parts:
            for problem in method.refusals(parts, schema):
                self.refuse(problem)
        return method

    def outputs(self) -> Outputs:
        """The files to write."""
        return outputs_of(self.job, self.path, self.problems, folder=self.is_chunked)

    @property
    def is_chunked(self) -> bool:
        """Whether an engine is to run the job on chunks: it names one, or its table is in many files.

        Without an engine, methods that need the whole table, or would lose something, get it if it is not too large.
        """
        if self.job.engine is not None:
            return not self.job.parties
        method = self.method
        if not self.is_in_parts or not isinstance(method, TableMethod) or method.needs_whole_table:
            return False
        parts = without_redundant(self.requirement.parts)
        with suppress(ParameterError):  # which `algorithm` reports
            method = method.fitted(parts)
        with suppress(ParameterError):
            return method.in_chunks() == method
        return False

    @property
    def is_in_parts(self) -> bool:
        """Whether the table is a folder or pattern of Parquet files."""
        source = self.job.data.source if self.job.data is not None else ""
        return bool(source) and is_parted(source, self.base)

    @property
    def published(self) -> tuple[str, ...]:
        """The columns released besides the attributes: class, sensitive, and the provider if it is kept."""
        roles = self.job.roles
        provider = roles.provider if self.job.output.keep_provider else None
        special = self.requirement.special_columns
        looked_at = [name for name in special if name not in self.requirement.provider_columns]
        names = [roles.class_, *roles.sensitive, *looked_at, provider]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def settings(self) -> dict[str, Any]:
        """Return the job as interpreted, for the report.

        Of a database URL, which may hold a password, only the kind is shown.
        """
        settings = self.job.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
        for section in (settings.get("data", {}), *settings.get("parties", {}).values()):
            if "source" in section:
                section["source"] = bare_source(section["source"])
        return settings


def bare_source(source: str) -> str:
    """Return a source's file name, or the kind of its database."""
    return f"{source.partition('://')[0]} database" if "://" in source else Path(source).name
