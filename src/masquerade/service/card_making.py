"""Make the card of a dataset: what is published about it, from what its party holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from masquerade.data.continuum import write_number
from masquerade.data.schema import Attribute, AttributeKind, Schema
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import ParameterError
from masquerade.net.identity import check_name
from masquerade.protocol.contract import OutcomeRole
from masquerade.service.canonical import digest
from masquerade.service.card import FLAT, ColumnCard, ColumnRole, SchemaCard, TaxonomyCard

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
