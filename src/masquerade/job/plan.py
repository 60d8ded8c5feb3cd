"""Build a job's working objects from its file: schema, requirement, algorithm, outputs.

Checks beyond the shape of the file happen here, before any data is read: contradictory keys, undeclared
names, missing files. All problems are reported at once, together with those of the shape.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from masquerade.anonymize.method import Method, TableMethod
from masquerade.data.schema import Schema
from masquerade.errors import Problem
from masquerade.forms.form import fill
from masquerade.forms.problems import Problems
from masquerade.forms.toml import read_toml
from masquerade.job.attributes import schema_of
from masquerade.job.model import DataSection, Job
from masquerade.job.outputs import Outputs, outputs_of
from masquerade.job.requirements import FOR_PROVIDERS, Providers, entry_of, requirement_of
from masquerade.job.roles import check_roles
from masquerade.methods import (
    DEFAULT,
    Auto,
    askable_methods,
    full_name,
    methods_between_parties,
    placed,
    read_method,
    table_methods,
    unnamed_method,
)
from masquerade.privacy.requirement import Requirement, without_redundant
from masquerade.protocol.arrangement import PROVIDER, Arrangement
from masquerade.protocol.automatic import Automatic
from masquerade.protocol.method import AskedMethod


class Plan:
    """A job and its parts.

    Request the parts that a command needs, then call `settle`: until then they may be unusable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.base = path.parent
        self.problems = Problems(str(path))
        self.job = fill(Job, read_toml(path), self.problems)
        self.method = self._method()
        providers = Providers(
            self.provider,
            self.common.verification,
            FOR_PROVIDERS if self.is_method_known else None,
        )
        self.requirement: Requirement = requirement_of(self.job, self.problems, providers, self.base)
        check_roles(
            self.job, self.problems, needs_provider=self.is_method_known and not self.is_collaboration
        )

    def settle(self) -> None:
        """Raise one error with all problems found so far, if any."""
        self.problems.settle()

    def _method(self) -> Method | None:
        """Return the method that `[algorithm]` names, for one table or for the parties; None if it is invalid."""
        table, target = placed(self.job.algorithm, self.base), self.job.roles.class_
        method: Method | None
        if self.job.parties and self.job.data is None:
            arrangement = self._arrangement()
            unnamed = unnamed_method(arrangement)
            method, self.common, wrong = read_method(askable_methods(arrangement), table, unnamed.name)
            method = unnamed if isinstance(method, Automatic) else method
        else:
            method, self.common, wrong = read_method(table_methods(), table, target=target)
        for problem in wrong:
            # An invalid class is reported already; a score that needs it must not report it again.
            if problem.key != ("score",) or not self.problems.about(("roles", "class")):
                self.problems.broken(("algorithm", *problem.key), problem)
        return None if self.problems.about(("algorithm", "name")) else method

    def _arrangement(self) -> Arrangement:
        """Return how the parties hold their data: as the method needs it, or else by whether they identify people."""
        name, _ = full_name(self.job.algorithm.get("name", DEFAULT))
        possible = {each.arrangement for each in methods_between_parties() if each.name == name}
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
        return isinstance(self.method, AskedMethod) and self.method.arrangement == "horizontal"

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
        schema = schema_of(self.job, qid, self.base, self.problems)
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
        named = any(each.max_generalization or each.max_width for each in self.job.attributes.values())
        if named or any(part.within_boundaries for part in self.requirement.parts):
            return self.schema()
        found = schema_of(self.job, (), self.base, Problems(""))
        return found if any(attribute.is_bounded for attribute in found) else None

    def algorithm(self, schema: Schema) -> TableMethod:
        """Return the method for one table, configured for the requirements."""
        parts = without_redundant(self.requirement.parts)
        if not isinstance(self.method, TableMethod):
            return Auto()
        method = self.method.seeded(self.common.seed)
        with self.problems.collecting(("algorithm",)):
            method = method.fitted(parts)
        if parts:
            for problem in method.refusals(parts, schema):
                self.refuse(problem)
        return method

    def outputs(self) -> Outputs:
        """The files to write."""
        return outputs_of(self.job, self.path, self.problems)

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
