"""Build a job for a model from its file: the method, the parties' contract, the columns that each needs.

Parties that all hold the same columns have different records; otherwise they hold different columns of the same ones,
and need identifiers. One table, written [data], is learned from as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from masquerade import protocol
from masquerade.anonymize import Method
from masquerade.arrangement import PROVIDER, Arrangement
from masquerade.data import Schema
from masquerade.errors import Key, hint
from masquerade.forms import read_declared
from masquerade.jobs.model import TableSection, schema_of
from masquerade.jobs.outputs import Outputs, model_outputs_of
from masquerade.jobs.parties import Headers, check_sources, contributions
from masquerade.jobs.plan import Plan
from masquerade.methods import CommonKeys, learning_methods, read_method, written_method
from masquerade.privacy import Conjunction, Requirement


class QuestionPlan(Plan):
    """A job whose parties are asked a question: what would be made of their tables does not matter.

    Of `[algorithm]` only `align` does, which says how the common records are found.
    """

    def _method(self) -> Method | None:
        self.common = CommonKeys()
        told = {key: value for key, value in self.job.algorithm.items() if key == "align"}
        read, wrong = read_declared(protocol.JointKeys, told)
        for problem in wrong:
            self.problems.broken(("algorithm", *problem.key), problem)
        self.align = (read or protocol.JointKeys()).align
        return None

    def _requirement(self) -> Requirement:
        return Conjunction([])

    def _check_command(self) -> None:
        """Let keys of every command be."""


# --- learning -----------------------------------------------------------------------------------------------

FOR_TABLES = "belongs to anonymize and mashup; a model is no table"
ALONE = "table"  # the one party of a job on one table


class LearningPlan(Plan):
    """A job for a model and its parts."""

    method: protocol.LearningMethod | None

    def _method(self) -> protocol.LearningMethod | None:
        """Return the method that `[algorithm]` names; None if it is invalid."""
        available = learning_methods()
        table = self.job.algorithm
        method, self.common, wrong = read_method(available, table, next(iter(available)), base=self.base)
        if "name" not in table:
            self.problems.broken(("algorithm", "name"), f"missing; name one of {', '.join(available)}")
        for problem in wrong:
            self.problems.broken(("algorithm", *problem.key), problem)
        return None if self.problems.about(("algorithm", "name")) else method

    def _requirement(self) -> Requirement:
        """Return nothing: no table is released."""
        return Conjunction(())

    def _check_command(self) -> None:
        """Report keys that belong to jobs for tables."""
        job, problems = self.job, self.problems
        if job.privacy:
            problems.add(("privacy",), FOR_TABLES)
        for key in ("sensitive", "provider"):
            if key in job.roles.model_fields_set:
                problems.add(("roles", key), FOR_TABLES)
        for key in ("table", "order", "keep_provider", "escape_formulas", "labels"):
            if key in job.output.model_fields_set:
                problems.add(("output", key), FOR_TABLES)

    @property
    def is_collaboration(self) -> bool:
        """Return False: who holds what is seen when the tables are."""
        return False

    @property
    def provider(self) -> None:
        """Return None: no record names its provider."""
        return

    @property
    def roles(self) -> dict[str, str]:
        """The columns with a role in the model."""
        own = self.job.roles
        named = {"class": own.class_, "duration": own.duration, "event": own.event}
        return {role: name for role, name in named.items() if name is not None}

    @property
    def attributes(self) -> list[str]:
        """The model's attributes, in order."""
        return [name for name in self.job.attributes if name not in self.roles.values()]

    def outputs(self) -> Outputs:
        """The files to write."""
        return model_outputs_of(self.job, self.path, self.problems)

    def schema(self) -> Schema:
        """Return the attributes with their taxonomies."""
        if not self.attributes:
            text = "missing; give an [attributes.NAME] table for each attribute of the model"
            self.problems.add(("attributes",), text)
        return schema_of(self.job, (), self.base, self.problems)

    def check(self) -> None:
        """Check all that can be checked before a table is read."""
        if self.job.data is None:
            check_sources(self)
        else:
            if self.job.parties:
                self.problems.add(("data",), "is one table, and [parties] are several; give one of them")
            self.data()
        for key, section in self._sections():
            if section.missing == "keep":
                text = '"keep" belongs to anonymize and mashup; use "drop", "error" or, for numbers, "mean"'
                self.problems.add((*key, "missing"), text)
        self._refuse(None)

    def _refuse(self, arrangement: Arrangement | None) -> None:
        """Record what the method refuses."""
        if self.method is None:
            return
        attributes = self.attributes
        schema = Schema([each for each in self.schema() if each.name in attributes])
        fills = any(section.missing == "mean" for _, section in self._sections())
        proposal = protocol.LearningProposal(
            parties=tuple(self.job.parties), schema=schema, arrangement=arrangement, roles=self.roles, fills_means=fills
        )
        for problem in self.method.refusals(proposal):
            if problem.key == ("missing",):
                for key, section in self._sections():
                    if section.missing == "mean":
                        self.problems.add((*key, "missing"), problem)
            elif problem.key[:1] == ("roles",):
                self.problems.add(problem.key, problem)
            else:
                self.refuse(problem)

    def _sections(self) -> Iterator[tuple[Key, TableSection]]:
        """Yield the sections that name a table, each with its key."""
        if self.job.data is not None:
            yield ("data",), self.job.data
        for name, section in self.job.parties.items():
            yield ("parties", name), section

    @property
    def missing_values(self) -> tuple[str, ...]:
        """The texts that mean a missing cell in any of the job's tables."""
        words = (word for _, section in self._sections() for word in section.missing_values)
        return tuple(dict.fromkeys(words))

    def contract(self, headers: Headers) -> protocol.Contract | None:
        """Return the contract of parties with these columns; None if problems are recorded."""
        job, used = self.job, [*self.attributes, *self.roles.values()]
        everything = [column for columns in headers.values() for column in columns]
        for role, name in self.roles.items():
            if name not in everything:
                self.problems.add(("roles", role), f'nobody has a column "{name}"{hint(name, everything)}')
        for name in self.attributes:
            if name not in everything:
                self.problems.add(("attributes", name), f"nobody has this column{hint(name, everything)}")
        for name, section in job.parties.items():
            for column in ([section.id] if section.id else []) + (section.attributes or []):
                if column not in headers[name]:
                    key = "id" if column == section.id else "attributes"
                    text = f'{name} has no column "{column}"{hint(column, headers[name])}'
                    self.problems.add(("parties", name, key), text)
        if self.problems.found or self.method is None:
            return None
        alike = all(column in self._held(name, headers) for name in job.parties for column in used)
        everybodys = [protocol.Contribution(name, protocol.EVERYBODY, role) for name, role in self._with_roles()]
        columns = everybodys if alike else self._columns_of_some(headers)
        self._refuse("horizontal" if alike else "vertical")
        if self.problems.found:
            return None
        class_from = None if alike else self._class_from(headers)
        if self.problems.found:
            return None
        return protocol.Contract(
            parties=tuple(job.parties) or (ALONE,),
            columns=tuple(columns),
            requirements=(),
            method=written_method(self.method),
            class_name=self.roles.get("class"),
            class_from=class_from,
            provider=PROVIDER if alike else None,
            normalize=next((each.normalize for each in job.parties.values()), "strip"),
        )

    def _class_from(self, headers: Headers) -> str | None:
        """Return the party whose class is learned from; None if every party holds it: then all must have the same."""
        parties, target = self.job.parties, self.roles.get("class")
        named = [name for name, section in parties.items() if target in (section.attributes or ())]
        holders = named or [name for name in parties if target in self._held(name, headers)]
        if len(holders) == 1 or target is None:
            return holders[0] if holders else None
        if len(holders) < len(parties) or named:
            verb = "are named for it" if named else "have it, and not all parties"
            text = f'"{target}": {" and ".join(holders)} {verb}; name one contributor in parties.NAME.attributes'
            self.problems.add(("roles", "class"), text)
        return None

    def _held(self, party: str, headers: Headers) -> set[str]:
        """Return the columns that a party contributes."""
        section = self.job.parties[party]
        return set(section.attributes or headers[party]) - {section.id}

    def _with_roles(self) -> list[tuple[str, protocol.Role]]:
        """Return the columns of a model, the class apart."""
        special: dict[str, protocol.Role] = {"duration": "duration", "event": "event"}
        named = [(self.roles[word], role) for word, role in special.items() if word in self.roles]
        return [*((name, "attribute") for name in self.attributes), *named]

    def _columns_of_some(self, headers: Headers) -> list[protocol.Contribution]:
        """Find each column's one holder; all parties need identifiers."""
        for name, section in self.job.parties.items():
            if not section.id:
                lacking = [each for each in self.attributes if each not in self._held(name, headers)]
                lacks = f"; it does not hold {', '.join(lacking)}" if lacking else ""
                text = "missing; parties that hold different columns need the column of the identifiers"
                self.problems.add(("parties", name, "id"), text + lacks)
        ways = {section.normalize for section in self.job.parties.values()}
        if len(ways) > 1:
            text = f"normalize must be the same for all parties; got {', '.join(sorted(ways))}"
            self.problems.add(("parties",), text)
        return [found for name, role in self._with_roles() for found in contributions(self, headers, [name], role)]
