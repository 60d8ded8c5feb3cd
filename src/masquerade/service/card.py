"""What a party publishes about a dataset so that it can be found: names and kinds of columns, never values.

Published: the columns' names, kinds and roles; each taxonomy's fingerprint, height and root name; the name of the
identifier's column; the number of records, rounded up; a commitment to the snapshot. Not published: the leaves of a
taxonomy, bounds, distinct values or their number, and nothing about a flat taxonomy, because it is made of the values
that occur.

A card is declared once: a node sends it to the coordinator, and the API shows it to users. Nothing here needs the
dependencies of a server. A card of a newer node may have keys that are not known here. They are ignored: a card only
describes, and its party decides on every request itself. What says who may ask (`service/control.py`) is refused
instead when it is not understood.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from masquerade.errors import hint

ColumnRole = Literal["attribute", "sensitive", "class", "duration", "event"]

FLAT = "flat"  # the source of a taxonomy that was made of the values that occur


def declare_exactly(schema: dict[str, Any], model: type) -> None:
    """Declare exactly these keys, and describe a model that has no docstring of its own (`Page[Session]`)."""
    schema["additionalProperties"] = False
    schema.setdefault("description", inspect.getdoc(model))


class _Card:
    __pydantic_config__: ClassVar = ConfigDict(
        json_schema_extra=declare_exactly, json_schema_serialization_defaults_required=True
    )


@dataclass(frozen=True)
class TaxonomyCard(_Card):
    """A taxonomy without its values; the root's name is included unless it is a value itself."""

    fingerprint: Annotated[str, Field(description="a digest of the whole tree: equal for equal trees")]
    height: Annotated[int, Field(description="levels below the root")]
    root: Annotated[
        str | None, Field(description="the name of the root; null: not published", examples=["Any job"])
    ] = None


@dataclass(frozen=True)
class ColumnCard(_Card):
    """A column that can be asked for."""

    name: Annotated[str, Field(description="the column's name", examples=["age"])]
    kind: Annotated[Literal["categorical", "continuous", "date"], Field(description="what its values are")]
    role: Annotated[
        ColumnRole,
        Field(
            description="only an attribute can be in a QID; sensitive columns and the class are released as they are;"
            " duration and event are for models of survival, and never released"
        ),
    ] = "attribute"
    taxonomy: Annotated[TaxonomyCard | None, Field(description="its taxonomy; null: none is published")] = (
        None
    )


@dataclass(frozen=True)
class SchemaCard(_Card):
    """A dataset, as its party has published it: never a value."""

    party: Annotated[str, Field(description="whose it is", examples=["bank"])]
    dataset: Annotated[str, Field(description="its name", examples=["customers"])]
    identifier: Annotated[
        str, Field(description="the column that identifies people, which is never released")
    ]
    columns: Annotated[tuple[ColumnCard, ...], Field(description="what can be asked for")]
    schema: Annotated[str, Field(description="a digest of how the columns are generalised, bounds included")]
    records: Annotated[
        int | None, Field(description="the number of records, rounded up; null: not published")
    ] = None
    snapshot: Annotated[
        str | None, Field(description="the commitment to the table as it stands; null: not read yet")
    ] = None
    horizontal: Annotated[
        bool, Field(description="whether it may be published together with others that have the same columns")
    ] = False

    def column(self, name: str) -> ColumnCard | None:
        """Return the column of that name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)


def unknown_column(card: SchemaCard, name: str) -> str:
    """Return ` has no column "…"`, followed by the columns it has."""
    return f'{card.dataset} has no column "{name}"{hint(name, card.names)}; it has {", ".join(card.names)}'
