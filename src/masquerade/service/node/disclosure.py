"""What leaves a party's machine, and who gets to see it, as a preview shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from masquerade.data.schema import Schema
from masquerade.data.taxonomy import Taxonomy

OTHERS, COORDINATOR, RECIPIENTS = "other parties", "coordinator", "recipients"


@dataclass(frozen=True)
class DisclosedColumn:
    """A column of this party that leaves. `coarse_enough_for` are the requirements that its cells satisfy."""

    name: str
    form: Literal["generalised", "as it is"]
    cells: str
    coarse_enough_for: tuple[str, ...]
    shown_to: dict[str, str]


@dataclass(frozen=True)
class DisclosedClass:
    """The class, as far as it concerns this party."""

    name: str
    from_here: bool  # whether this party's own cells leave
    shown_to: dict[str, str]


@dataclass(frozen=True)
class Disclosure:
    """Everything that a contract discloses."""

    columns: tuple[DisclosedColumn, ...]
    class_column: DisclosedClass | None
    peers_learn: tuple[str, ...]
    figures: dict[str, str]
    stays: tuple[str, ...]
    protocol: dict[str, str]


def kind_of_cell(name: str, schema: Schema | None) -> str:
    """Say what a generalised cell is made of, as far as the schema is known."""
    if schema is None or name not in schema:
        return "a node of its taxonomy, or an interval,"
    attribute = schema[name]
    if isinstance(attribute.taxonomy, Taxonomy):
        return "a node of its taxonomy"
    if attribute.kind == "categorical":
        return "its value, or the one word for all values,"
    return "an interval"
