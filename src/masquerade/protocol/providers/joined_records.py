"""The records of all providers at a trusted third party: read, checked against their common schema, and joined.

Records that do not fit are reported as their provider's fault, in words that show no cell.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from masquerade.data import Attribute, Origin, Schema, Table, missing_rows
from masquerade.errors import BadInput, DataError, PeerBrokeProtocol
from masquerade.protocol.contract import Contract, agreed_table
from masquerade.protocol.providers.domains import ranges_of
from masquerade.protocol.providers.messages import ProviderRecords, difference, read_rows, read_schema, stacked
from masquerade.protocol.providers.method import collaboration_of, column_names, provider_column, qid_names


def told_schema(contract: Contract, handed: Mapping[str, ProviderRecords]) -> Schema:
    """Return the schema that all providers sent; attributes that are not generalised have only a name."""
    names, first = qid_names(contract), contract.parties[0]
    told = {name: read_schema(message.schema, name, names) for name, message in handed.items()}
    for name, message in handed.items():
        for ours, theirs in zip(handed[first].schema, message.schema, strict=True):
            if how := difference(ours, theirs):
                raise PeerBrokeProtocol(name, f"generalises attribute {theirs.name} otherwise than {first} does: {how}")
    known = {attribute.name: attribute for attribute in told[first]}
    columns = [column.name for column in contract.columns if column.role == "attribute"]
    return Schema(known.get(name, Attribute(name)) for name in columns)


def joined(contract: Contract, handed: Mapping[str, ProviderRecords], schema: Schema) -> Table:
    """Stack all records, with their providers; raise PeerBrokeProtocol for records that do not fit."""
    parts = {
        name: _with_dates(read_rows(message.table, name, column_names(contract), contract.most_records), schema)
        for name, message in handed.items()
    }
    for name, part in parts.items():
        for column in part.column_names:
            if missing_rows(part.column(column), ()) is not None:
                raise PeerBrokeProtocol(name, f"handed in column {column} with missing cells")
    stack = Table(stacked(parts, provider_column(contract)), schema, origin=Origin("the joined records"))
    table = agreed_table(stack, contract.attributes)
    try:
        refuse_unusable(contract, table)
    except BadInput:  # its text may show another provider's cell
        for name, part in parts.items():
            _blame_unusable(contract, name, Table(part, table.schema))
        raise DataError(
            "the joined records: they fit the schema at each provider, but not together; "
            "columns of a quasi-identifier must be stored alike everywhere"
        ) from None
    return table


def _blame_unusable(contract: Contract, name: str, table: Table) -> None:
    try:
        refuse_unusable(contract, table)
    except BadInput:
        raise PeerBrokeProtocol(name, "handed in records that do not fit how they are generalised") from None


def _with_dates(part: pa.Table, schema: Schema) -> pa.Table:
    """Convert dates, which providers may store with a time of day or as text, to one type for stacking."""
    for at, name in enumerate(part.column_names):
        if name in schema and schema[name].kind == "date" and pa.types.is_timestamp(part.column(at).type):
            part = part.set_column(at, name, part.column(at).cast(pa.date32(), safe=False))
    return part


def refuse_unusable(contract: Contract, table: Table) -> None:
    """Raise DataError for records that cannot be generalised as their schema says."""
    names = qid_names(contract)
    table.columns(names)
    if collaboration_of(contract).at_public_places:
        for name, each in ranges_of(table, names).items():
            each.signals(table.column(name))
