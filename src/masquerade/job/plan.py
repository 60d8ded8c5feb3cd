"""From a job file to the objects that do the work: schema, requirement, algorithm, outputs.

What the file's shape cannot say is checked here, before any data is read: keys that contradict each other,
names that nothing declares, files that are not there. All problems are told at once, those of the shape with
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from masquerade.anonymize.datafly import Datafly, refuse_requirements
from masquerade.anonymize.mondrian.algorithm import Mondrian, refuse_not_monotone
from masquerade.anonymize.mondrian.provider_aware import ProviderAwareMondrian, refuse_provider_cuts
from masquerade.anonymize.outcome import Anonymizer
from masquerade.anonymize.tds import TopDownSpecialization, refuse_suppression
from masquerade.data.schema import Schema
from masquerade.errors import hint
from masquerade.forms.declared import shown_value as shown
from masquerade.forms.form import fill
from masquerade.forms.problems import Problems
from masquerade.forms.toml import read_toml
from masquerade.job.attributes import schema_of
from masquerade.job.kind import MASHUP, PROVIDERS
from masquerade.job.model import DataSection, Job
from masquerade.job.outputs import Outputs, outputs_of
from masquerade.job.requirements import requirement_of
from masquerade.job.roles import check_roles
from masquerade.privacy.requirement import Requirement, without_redundant

ALGORITHMS = (TopDownSpecialization.name, Datafly.name, Mondrian.name)
MASHUP_ALGORITHMS = ("dka-datafly",)  # for two parties, not for one table
LATER_ALGORITHMS = ("k-member", "greedy-cka")


class Plan:
    """A job and its parts.

    Ask for the parts that a command needs, then `settle`: until then they may be unusable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.base = path.parent
        self.problems = Problems(str(path))
        self.job = fill(Job, read_toml(path), self.problems)
        self.requirement: Requirement = requirement_of(self.job, self.problems)
        check_roles(self.job, self.problems)

    def settle(self) -> None:
        """Raise everything that has been found wrong."""
        self.problems.settle()

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

    def algorithm(self) -> Anonymizer:
        """The anonymizer."""
        section, target = self.job.algorithm, self.job.roles.class_
        self.refuse_name(ALGORITHMS)
        if section.name == Datafly.name:
            return self._datafly(target)
        if section.name == Mondrian.name:
            return self._mondrian(target)
        if section.suppression and self.requirement.parts:
            with self.problems.collecting(("algorithm",)):
                refuse_suppression(without_redundant(self.requirement.parts))
        if not self.problems.about(("roles", "class")):
            with self.problems.collecting(("algorithm", "score")):
                return TopDownSpecialization(target, section.score, section.suppression)
        return TopDownSpecialization()

    def refuse_name(self, available: Sequence[str]) -> None:
        """An algorithm that is none of those for one table, or of those for parties."""
        name = self.job.algorithm.name
        if name in available:
            return
        listed = ", ".join(available)
        if name in LATER_ALGORITHMS:
            text = f'"{name}" is not available in this version; available: {listed}'
        elif name in MASHUP_ALGORITHMS:
            text = f'"{name}" is for a mashup of two parties; for one table: {listed}'
        elif name in ALGORITHMS:
            text = (
                f'"{name}" is for one table; a mashup has {" and ".join(map(shown, MASHUP))}, '
                f'providers of the same columns have "{PROVIDERS}"'
            )
        else:
            meant = hint(name, [*available, *LATER_ALGORITHMS])
            text = f'no algorithm "{name}"{meant}; available: {listed}'
        self.problems.add(("algorithm", "name"), text)

    def refuse_without_steps(self) -> None:
        """Numbers of a QID that nothing says how to generalise step by step."""
        for name in self.requirement.qid_attributes:
            section = self.job.attributes.get(name)
            if section is not None and section.taxonomy is None and section.type != "categorical":
                self.problems.add(
                    ("attributes", name),
                    f"{self.job.algorithm.name} generalises step by step; give a taxonomy, "
                    "for a number a tree of fixed intervals",
                )

    def _datafly(self, target: str | None) -> Datafly:
        section = self.job.algorithm
        self._refuse_keys_of_tds(Datafly.name)
        self.refuse_without_steps()
        if self.requirement.parts:
            with self.problems.collecting(("algorithm",)):
                refuse_requirements(without_redundant(self.requirement.parts))
        return Datafly(target, section.whole_columns)

    def _mondrian(self, target: str | None) -> Mondrian | ProviderAwareMondrian:
        section, parts = self.job.algorithm, without_redundant(self.requirement.parts)
        self._refuse_keys_of_tds(Mondrian.name)
        aware = self.is_provider_aware
        if parts:
            with self.problems.collecting(("algorithm",)):
                refuse_not_monotone(parts)
        if aware:
            with self.problems.collecting(("algorithm",)):
                refuse_provider_cuts(parts)
        kind = ProviderAwareMondrian if aware else Mondrian
        choose: Any = section.choose
        if choose is not None:
            with self.problems.collecting(("algorithm",)):
                return kind(target, choose, section.strict)
        return kind(target, strict=section.strict)

    @property
    def is_provider_aware(self) -> bool:
        """Whether Mondrian cuts between providers: where there are some and, unless written down, where it may."""
        section, parts = self.job.algorithm, self.requirement.parts
        private = [part for part in parts if part.provider_column is not None]
        if not private or not section.provider_aware:
            return False
        may = all(part.monotone_in_records for part in private)
        return may or "provider_aware" in section.model_fields_set

    def _refuse_keys_of_tds(self, name: str) -> None:
        for key in ("score", "suppression"):
            if self.job.algorithm.asks_for(key):
                self.problems.add(("algorithm", key), f"belongs to tds; {name} does without it")

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
