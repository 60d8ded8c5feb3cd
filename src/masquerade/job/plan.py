"""From a job file to the objects that do the work: schema, requirement, algorithm, outputs.

What the file's shape cannot say is checked here, before any data is read: keys that contradict each other,
names that nothing declares, files that are not there. All problems are told at once, those of the shape with
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from masquerade.anonymize.method import Method, TableMethod
from masquerade.anonymize.tds import TopDownSpecialization
from masquerade.data.schema import Schema
from masquerade.errors import Problem
from masquerade.forms.form import fill
from masquerade.forms.problems import Problems
from masquerade.forms.toml import read_toml
from masquerade.job.attributes import schema_of
from masquerade.job.model import DataSection, Job
from masquerade.job.outputs import Outputs, outputs_of
from masquerade.job.requirements import FOR_PROVIDERS, Providers, requirement_of
from masquerade.job.roles import check_roles
from masquerade.methods import read_method, session_methods, table_methods
from masquerade.privacy.requirement import Requirement, without_redundant
from masquerade.protocol.contract import PROVIDER
from masquerade.protocol.method import SessionMethod


class Plan:
    """A job and its parts.

    Ask for the parts that a command needs, then `settle`: until then they may be unusable.
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
        self.requirement: Requirement = requirement_of(self.job, self.problems, providers)
        check_roles(
            self.job, self.problems, needs_provider=self.is_method_known and not self.is_collaboration
        )

    def settle(self) -> None:
        """Raise everything that has been found wrong."""
        self.problems.settle()

    def _method(self) -> Method | None:
        """What `[algorithm]` names, for one table or for the parties; None where that cannot be read."""
        table, target = self.job.algorithm, self.job.roles.class_
        method: Method | None
        if self.job.parties and self.job.data is None:
            method, self.common, wrong = read_method(session_methods(), table)
        else:
            method, self.common, wrong = read_method(table_methods(), table, target=target)
        for problem in wrong:
            # A class that cannot be read is told already, and not once more by a score that needs it.
            if problem.key != ("score",) or not self.problems.about(("roles", "class")):
                self.problems.broken(("algorithm", *problem.key), problem)
        return None if self.problems.about(("algorithm", "name")) else method

    @property
    def is_method_known(self) -> bool:
        """Whether the method can be read; what follows from one that cannot is left out."""
        return self.method is not None

    @property
    def is_collaboration(self) -> bool:
        """Whether the job's parties hold the same columns about different people."""
        return isinstance(self.method, SessionMethod) and self.method.arrangement == "horizontal"

    @property
    def provider(self) -> str | None:
        """The column of each record's provider; the parties of a collaboration need not have one."""
        return self.job.roles.provider or (PROVIDER if self.is_collaboration else None)

    def refuse(self, problem: Problem) -> None:
        """Remember what a method refuses; a key of its own is below `algorithm`."""
        if problem.key[:1] != ("attributes",):
            self.problems.add(("algorithm", *problem.key), problem)
        elif not any(other.key[:2] == problem.key[:2] for other in self.problems.found):
            self.problems.add(problem.key, problem)  # not where the attribute is wrong anyway

    def data(self) -> DataSection:
        """The table to read."""
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
        """The attributes with their taxonomies."""
        qid = {name for entry in self.job.privacy for name in entry.qid or ()}
        return schema_of(self.job, qid, self.base, self.problems)

    def algorithm(self, schema: Schema) -> TableMethod:
        """The method on one table, as it runs for the requirements."""
        parts = without_redundant(self.requirement.parts)
        if not isinstance(self.method, TableMethod):
            return TopDownSpecialization()
        method = self.method
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
        """The columns released beside the attributes: class, sensitive, and the provider if it is kept."""
        roles = self.job.roles
        provider = roles.provider if self.job.output.keep_provider else None
        special = self.requirement.special_columns
        looked_at = [name for name in special if name not in self.requirement.provider_columns]
        names = [roles.class_, *roles.sensitive, *looked_at, provider]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def settings(self) -> dict[str, Any]:
        """The job as it was understood, for the report.

        Of a database URL, which may hold a password, only the kind is shown.
        """
        settings = self.job.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
        for section in (settings.get("data", {}), *settings.get("parties", {}).values()):
            if "source" in section:
                section["source"] = bare_source(section["source"])
        return settings


def bare_source(source: str) -> str:
    """A source by its file name, or the kind of its database."""
    return f"{source.partition('://')[0]} database" if "://" in source else Path(source).name
