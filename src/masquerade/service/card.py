"""What a party publishes about a dataset so that it can be found: names and kinds of columns, never values.

Published: the columns' names, kinds and roles; each taxonomy's fingerprint, height and root name; the name of the
identifier's column; the number of records, rounded up; a commitment to the snapshot. Not published: the leaves of a
taxonomy, bounds, distinct values or their number, and nothing about a flat taxonomy, because it is made of the values
that occur.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from masquerade.data.continuum import write_number
from masquerade.data.schema import Attribute, AttributeKind, Schema
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import ParameterError, hint
from masquerade.net.identity import check_name
from masquerade.service.canonical import digest

Role = Literal["attribute", "sensitive", "class"]

FLAT = "flat"  # the source of a taxonomy that was made of the values that occur

_FINEST = 100


class TaxonomyCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is published about a taxonomy; the root's name is included unless it is a value itself."""

    fingerprint: str
    height: int
    root: str | None = None


class ColumnCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column that may be requested. Only attributes can be in a QID; the others are released unchanged."""

    name: str
    kind: AttributeKind
    role: Role = "attribute"
    taxonomy: TaxonomyCard | None = None


class SchemaCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One dataset of a party, as published to others."""

    party: str
    dataset: str
    identifier: str
    columns: tuple[ColumnCard, ...]
    schema: str  # a digest of everything that decides how the columns are generalised, bounds included
    records: int | None = None  # rounded up; None: not published
    snapshot: str | None = None  # the root of the commitment to the table; None: not read yet
    horizontal: bool = False  # whether it may be published together with others that have the same columns

    def column(self, name: str) -> ColumnCard | None:
        """Return the column of that name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)


def card_of(
    party: str,
    dataset: str,
    schema: Schema,
    *,
    identifier: str,
    key: bytes,
    sensitive: Iterable[str] = (),
    classes: Iterable[str] = (),
    records: int | None = None,
    snapshot: str | None = None,
    horizontal: bool = False,
) -> SchemaCard:
    """Make the card of a dataset.

    `schema` has the attributes; `sensitive` and `classes` name columns that are released unchanged, in the schema or
    not. `key` is the dataset's secret: bounds are few enough to be guessed from a plain digest. `records` is the true
    number, which is rounded here.
    """
    check_name(party)
    roles: dict[str, Role] = dict.fromkeys(schema.names, "attribute")
    roles |= dict.fromkeys(sensitive, "sensitive")
    roles |= dict.fromkeys(classes, "class")
    if identifier in roles:
        raise ParameterError(f'{dataset}: "{identifier}" identifies people; it is never released')
    columns = [
        _column(schema[name] if name in schema else Attribute(name), role) for name, role in roles.items()
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


def unknown_column(card: SchemaCard, name: str) -> str:
    """Return ` has no column "…"`, followed by the columns it has."""
    return f'{card.dataset} has no column "{name}"{hint(name, card.names)}; it has {", ".join(card.names)}'


def _column(attribute: Attribute, role: Role) -> ColumnCard:
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
