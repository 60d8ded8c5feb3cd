"""What a party publishes about a dataset so that it can be found: names and kinds of columns, never values.

Published: the columns' names, kinds and roles; each taxonomy's fingerprint, height and root name; the name of the
identifier's column; the number of records, rounded up; a commitment to the snapshot. Not published: the leaves of a
taxonomy, bounds, distinct values or their number, and nothing about a flat taxonomy, because it is made of the values
that occur.

A card is declared once: a node sends it to the coordinator, and the API shows it to users. Nothing here needs the
dependencies of a server. A card of a newer node may have keys that are not known here. They are ignored: a card only
describes, and its party decides on every request itself. What says who may ask (`service/wire/control.py`) is refused
instead when it is not understood.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from masquerade.data import Attribute, AttributeKind, Schema, Taxonomy, write_number
from masquerade.errors import ParameterError, hint
from masquerade.net import check_name
from masquerade.protocol import OutcomeRole
from masquerade.service.canonical import digest

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
    taxonomy: Annotated[TaxonomyCard | None, Field(description="its taxonomy; null: none is published")] = None


@dataclass(frozen=True)
class SchemaCard(_Card):
    """A dataset, as its party has published it: never a value."""

    party: Annotated[str, Field(description="whose it is", examples=["bank"])]
    dataset: Annotated[str, Field(description="its name", examples=["customers"])]
    identifier: Annotated[str, Field(description="the column that identifies people, which is never released")]
    columns: Annotated[tuple[ColumnCard, ...], Field(description="what can be asked for")]
    schema: Annotated[str, Field(description="a digest of how the columns are generalised, bounds included")]
    records: Annotated[int | None, Field(description="the number of records, rounded up; null: not published")] = None
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


# --- card making --------------------------------------------------------------------------------------------
# Make the card of a dataset: what is published about it, from what its party holds.

_FINEST = 100
_KINDS: Mapping[ColumnRole, AttributeKind] = {"duration": "continuous"}  # of columns outside the schema


def card_of(
    party: str,
    dataset: str,
    schema: Schema,
    *,
    identifier: str,
    key: bytes,
    sensitive: Iterable[str] = (),
    classes: Iterable[str] = (),
    outcomes: Mapping[str, OutcomeRole] = {},
    records: int | None = None,
    snapshot: str | None = None,
    horizontal: bool = False,
) -> SchemaCard:
    """Make the card of a dataset.

    `schema` has the attributes; `sensitive` and `classes` name columns that are released unchanged, in the schema or
    not; `outcomes` those of survival, which models alone are learned from. `key` is the dataset's secret: bounds are
    few enough to be guessed from a plain digest. `records` is the true number, which is rounded here.
    """
    check_name(party)
    roles: dict[str, ColumnRole] = dict.fromkeys(schema.names, "attribute")
    roles |= dict.fromkeys(sensitive, "sensitive")
    roles |= dict.fromkeys(classes, "class")
    roles |= outcomes
    if identifier in roles:
        raise ParameterError(f'{dataset}: "{identifier}" identifies people; it is never released')
    columns = [
        _column(schema[name] if name in schema else Attribute(name, _KINDS.get(role, "categorical")), role)
        for name, role in roles.items()
    ]
    described = [_described(schema[name]) for name in schema.names if roles[name] == "attribute"]
    return SchemaCard(
        party=party,
        dataset=dataset,
        identifier=identifier,
        columns=tuple(columns),
        schema=digest([key.hex(), described]).hex(),
        records=None if records is None else rounded_up(records),
        snapshot=snapshot,
        horizontal=horizontal,
    )


def rounded_up(records: int) -> int:
    """Round up to two significant digits, and never finer than hundreds: 7 → 100, 30162 → 31000."""
    step = max(_FINEST, int(10 ** (len(str(records)) - 2)))
    return -(-records // step) * step


def fingerprint_of(taxonomy: Taxonomy) -> str:
    """Return a digest of the whole tree, by which parties can compare taxonomies."""
    edges = None if taxonomy.edges is None else [write_number(edge) for edge in taxonomy.edges]
    return digest([[[node.name, node.parent] for node in taxonomy.nodes], edges]).hex()


def _column(attribute: Attribute, role: ColumnRole) -> ColumnCard:
    taxonomy = attribute.taxonomy
    told = None
    if isinstance(taxonomy, Taxonomy) and taxonomy.source != FLAT and role == "attribute":
        root = taxonomy.nodes[0].name if taxonomy.size > 1 else None
        told = TaxonomyCard(fingerprint_of(taxonomy), taxonomy.height, root)
    return ColumnCard(attribute.name, attribute.kind, role, told)


def _described(attribute: Attribute) -> list[str | None]:
    taxonomy = attribute.taxonomy
    tree = fingerprint_of(taxonomy) if isinstance(taxonomy, Taxonomy) else taxonomy
    bounds = [None if bound is None else write_number(bound) for bound in (attribute.lower, attribute.upper)]
    return [attribute.name, attribute.kind, tree, *bounds]
