"""Which role a column has, by what it is called and what its holder says of it: nobody looks at its cells.

For requests, where each party describes its columns and shows none. `roles.py` goes on from here where a table is at
hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from masquerade.job.draft.column_names import (
    always_identifies,
    known_of_people,
    may_identify,
    names_people,
    sounds_sensitive,
)

Role = Literal["identifier", "quasi-identifier", "sensitive", "class", "other"]

MOST_QUASI_IDENTIFIERS = 10
KNOWN = "others know this of a person, or can look it up"
MIGHT_BE_KNOWN = "others might know it"
CLASS = "its holder offers it to classifiers; choose none if no classifier will predict it"
ANOTHER_CLASS = "its holder offers it to classifiers, too; choose it in place of the other, or none"
TOO_MANY = "left out: the more attributes, the less is left of each; add it if needed"


@dataclass(frozen=True)
class Proposal:
    """The role proposed for a column, and why."""

    role: Role
    reason: str


@dataclass(frozen=True)
class DescribedColumn:
    """A column as its holder describes it."""

    name: str
    kind: Literal["categorical", "continuous", "date"]
    role: Literal["attribute", "sensitive", "class", "duration", "event"] = "attribute"


def identifier_by_name(name: str, *, holds_words: bool = True) -> Proposal | None:
    """Return the proposal for a column whose name is that of something that identifies people.

    `holds_words` is whether it may hold people's names: numbers and dates are none.
    """
    if holds_words and names_people(name):
        return Proposal("identifier", f'its name, "{name}", is that of people\'s names')
    if not always_identifies(name):
        return None
    return Proposal("identifier", f'its name, "{name}", is that of something that identifies people')


def propose_by_name(columns: Sequence[DescribedColumn]) -> list[Proposal]:
    """Propose a role for each column, at most ten of them quasi-identifiers; those that people are known by first."""
    settled = [_settled(column) for column in columns]
    left = [at for at, proposal in enumerate(settled) if proposal is None]
    order = sorted(left, key=lambda at: not known_of_people(columns[at].name))
    chosen = {*order[:MOST_QUASI_IDENTIFIERS]}
    return [
        proposal or (_quasi_identifier(columns[at]) if at in chosen else Proposal("other", TOO_MANY))
        for at, proposal in enumerate(settled)
    ]


def _settled(column: DescribedColumn) -> Proposal | None:
    if column.role == "sensitive":
        return Proposal("sensitive", "its holder says so; it is released as it is")
    if column.role == "class":
        return Proposal("class", CLASS)
    if column.role in ("duration", "event"):
        return Proposal("other", "its holder offers it to models of survival; no table has it")
    named = identifier_by_name(column.name, holds_words=column.kind == "categorical")
    if named is not None:
        return named
    if may_identify(column.name) and not known_of_people(column.name):
        return Proposal(
            "identifier", f'its name, "{column.name}", may be that of something that identifies people'
        )
    return None


def _quasi_identifier(column: DescribedColumn) -> Proposal:
    hint = (
        "; it sounds sensitive, and is generalised like the others" if sounds_sensitive(column.name) else ""
    )
    if known_of_people(column.name):
        return Proposal("quasi-identifier", KNOWN + hint)
    if column.kind == "date":
        return Proposal(
            "quasi-identifier", f"days on which something happened to a person: {MIGHT_BE_KNOWN}{hint}"
        )
    return Proposal("quasi-identifier", MIGHT_BE_KNOWN + hint)
