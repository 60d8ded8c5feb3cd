"""What providers and the third party tell each other beside the shares."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from masquerade.data.encode import texts
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message
from masquerade.utility.losses import AttributeLoss


class Records(Message, tag="collaborate-records", frozen=True):
    """A provider's records, for a trusted third party: an Arrow stream of the columns of the contract."""

    table: bytes
    left_out: tuple[str, ...]
    seconds: dict[str, float]


class Values(Message, tag="collaborate-values", frozen=True):
    """The different values of each sensitive attribute: a provider's own, then those of all."""

    values: tuple[tuple[tuple[str, ...], ...], ...]


class Size(Message, tag="collaborate-size", frozen=True):
    """About how many records a provider has: the number of binary digits."""

    bits: int


class Rows(Message, tag="collaborate-rows", frozen=True):
    """A provider's rows of the release, in an order of chance, and figures for the summary."""

    table: bytes
    losses: dict[str, AttributeLoss]
    left_out: tuple[str, ...]
    seconds: dict[str, float]
    attempts: int  # cuts that were tried by all together


def stacked(tables: dict[str, pa.Table], provider: str) -> pa.Table:
    """The rows of all providers below each other, with a column that names each row's provider.

    A column of different kinds (numbers here, text there) becomes text.
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
    """A list that a provider sent has as many entries as agreed."""
    if got != expected:
        raise PeerBrokeProtocol(sender, f"sent {got} {what}; {expected} were expected")


def plain_columns(columns: dict[str, pa.ChunkedArray | pa.Array], names: Sequence[str]) -> pa.Table:
    """Columns without dictionaries, which may name values of rows that are not there."""
    return pa.table({name: _without_dictionary(columns[name]) for name in names})


def _without_dictionary(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
