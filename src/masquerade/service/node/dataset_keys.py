"""`[datasets.NAME]` in a node's configuration: every key, what it must be, and its default."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from masquerade.data.database_url import FILE_SCHEMES, database_path, database_scheme
from masquerade.errors import DataError, Key
from masquerade.forms.form import key
from masquerade.job.model import TableSection
from masquerade.protocol.contract import OutcomeRole
from masquerade.service.request import Text, Texts


class DatasetKeys(TableSection):
    """A job's table with its identifier, its roles, its attributes and its policy."""

    identifier: Text = key("", alias="id", description='the name of the identifier\'s column, such as "ssn"')
    sensitive: Texts = key((), description='a list of names, such as ["disease"]')
    class_name: Text | None = key(None, alias="class", description='a name, such as "income"')
    duration: Text | None = key(None, description='a name, such as "months": of models of survival')
    event: Text | None = key(None, description='a name, such as "died": of models of survival')
    attributes: dict[str, Any] = key({}, description="tables, written [datasets.NAME.attributes.COLUMN]")
    policy: dict[str, Any] = key({}, description="a table, written [datasets.NAME.policy]")

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing, and which column has two parts."""
        if self.source:
            yield from _about_source(self.source)
        else:
            yield ("source",), "missing; name a file or a database URL"
        identifier = self.identifier
        if not identifier:
            yield ("id",), "missing; name the column of the identifiers"
        roles = {
            "sensitive": self.sensitive,
            "class": self.classes,
            **{str(role): (name,) for name, role in self.outcomes.items()},
            "attributes": tuple(self.attributes),
        }
        for role, names in roles.items():
            if identifier in names:
                yield ("id",), f'"{identifier}" identifies people, and is never released; {role} names it too'
        for name in dict.fromkeys(self.sensitive):
            if self.sensitive.count(name) > 1:
                yield ("sensitive",), f'"{name}" is listed twice'
            if name in self.attributes:
                yield (
                    ("sensitive",),
                    f'"{name}" is released as it is, and has an attributes table too; drop one',
                )
        if self.class_name is not None and self.class_name in (*self.sensitive, *self.attributes):
            yield ("class",), f'"{self.class_name}" is sensitive or an attribute too; drop one'
        if self.duration is not None and self.duration == self.event:
            yield ("event",), f'"{self.event}" is the duration too; drop one'
        for name, role in self.outcomes.items():
            if name in (*self.sensitive, *self.classes, *self.attributes):
                text = "a request may name it for that as it is; drop one"
                yield (role,), f'"{name}" is sensitive, the class or an attribute too; {text}'

    @property
    def classes(self) -> tuple[str, ...]:
        """The class, if there is one."""
        return (self.class_name,) if self.class_name is not None else ()

    @property
    def outcomes(self) -> dict[str, OutcomeRole]:
        """The columns that models of survival are learned from, and nothing else is made of."""
        named: dict[OutcomeRole, str | None] = {"duration": self.duration, "event": self.event}
        return {name: role for role, name in named.items() if name is not None}


def _about_source(source: str) -> Iterator[tuple[Key, str]]:
    try:
        if database_scheme(source) in FILE_SCHEMES:
            database_path(source, Path())
    except DataError as error:
        yield ("source",), str(error)
