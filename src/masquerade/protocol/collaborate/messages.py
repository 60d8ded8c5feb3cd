"""Messages between providers and the third party, other than shares, and how to read their tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa

from masquerade.data.encode import texts
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message
from masquerade.protocol.collaborate.written_schema import WrittenAttribute
from masquerade.protocol.columns import (
    MOST_COLUMNS,
    ColumnNames,
    Columns,
    HoldersError,
    Losses,
    Seconds,
    read_columns,
)
from masquerade.protocol.contract import MOST_RECORDS


class Records(Message, tag="collaborate-records", frozen=True):
    """A provider's records, for a trusted third party: an Arrow stream of the columns of the contract.

    With them goes the schema of the attributes to generalise, which must be the same at all providers.
    """

    table: bytes
    left_out: ColumnNames
    schema: Annotated[tuple[WrittenAttribute, ...], MOST_COLUMNS]


class Axes(Message, tag="collaborate-axes", frozen=True):
    """For each attribute, a digest of how the provider generalises it."""

    digests: Annotated[tuple[bytes, ...], MOST_COLUMNS]


class Values(Message, tag="collaborate-values", frozen=True):
    """The different values of each sensitive attribute: a provider's own, then those of all."""

    values: Annotated[tuple[tuple[tuple[str, ...], ...], ...], MOST_COLUMNS]


class Size(Message, tag="collaborate-size", frozen=True):
    """About how many records a provider has: the number of binary digits."""

    bits: int


class Rows(Message, tag="collaborate-rows", frozen=True):
    """A provider's rows of the release, in random order, and figures for the summary."""

    table: bytes
    losses: Losses
    left_out: ColumnNames
    seconds: Seconds
    query_error: HoldersError | None = None  # of queries about its own records
    suppressed: int = 0  # records of its own that no release within the boundaries can hold


def read_rows(
    data: bytes,
    sender: str,
    names: Sequence[str],
    most_records: int = MOST_RECORDS,
    *,
    may_be_none: bool = False,
) -> pa.Table:
    """Read the rows that a provider hands in, with cells that can be written as text: at least one, unless said."""
    table = read_columns(Columns(data, (), {}, (), {}), sender, names, most_records)
    if not table.num_rows and not may_be_none:
        raise PeerBrokeProtocol(sender, "handed in no record")
    for name in names:
        column = table.column(name)
        if not _is_writable(column):
            raise PeerBrokeProtocol(sender, f"handed in a column {name} of a kind that no table here has")
        if column.null_count:
            raise PeerBrokeProtocol(sender, f"handed in column {name} with missing cells")
    return table


def _is_writable(column: pa.ChunkedArray) -> bool:
    try:
        texts(_without_dictionary(column.slice(0, 1)).combine_chunks())
    except (pa.ArrowException, ValueError):  # for example an unknown time zone
        return False
    return True


def stacked(tables: dict[str, pa.Table], provider: str) -> pa.Table:
    """Stack the rows of all providers, with a column that names each row's provider.

    A column of mixed types (numbers at one provider, text at another) becomes text.
    """
    parts = list(tables.values())
    columns = {}
    for name in parts[0].column_names:
        pieces = [_without_dictionary(part.column(name)) for part in parts]
        if len({piece.type for piece in pieces}) > 1:
            pieces = [pa.chunked_array([texts(piece.combine_chunks())]) for piece in pieces]
        columns[name] = pa.chunked_array(
            [chunk for piece in pieces for chunk in piece.chunks], pieces[0].type
        )
    named = [name for name, part in tables.items() for _ in range(part.num_rows)]
    columns[provider] = pa.chunked_array([pa.array(named, pa.string())])
    return pa.table(columns)


def checked_length(what: str, got: int, expected: int, sender: str) -> None:
    """Raise PeerBrokeProtocol unless a list from a provider has as many entries as agreed."""
    if got != expected:
        raise PeerBrokeProtocol(sender, f"sent {got} {what}; {expected} were expected")


def plain_columns(columns: dict[str, pa.ChunkedArray | pa.Array], names: Sequence[str]) -> pa.Table:
    """Return the columns without dictionaries, which may name values of rows that are left out."""
    return pa.table({name: _without_dictionary(columns[name]) for name in names})


def _without_dictionary(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
