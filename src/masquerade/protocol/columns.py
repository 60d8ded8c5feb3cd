"""What a party hands to the assembler at the end: its columns in the common order, and figures about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import pyarrow as pa
from msgspec import Meta

from masquerade.data.encode import is_text
from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message
from masquerade.protocol.arrow_stream import BadStream, read_stream, write_stream
from masquerade.protocol.contract import MOST_RECORDS
from masquerade.protocol.joint_histogram.pair import BackEnd
from masquerade.utility.losses import AttributeLoss
from masquerade.utility.queries import MOST_ERROR

# More than any table has. Short texts take many times their bytes in memory, so lists of them are bounded.
MOST_COLUMNS = Meta(max_length=10_000)
ColumnNames = Annotated[tuple[str, ...], MOST_COLUMNS]
Losses = Annotated[dict[str, AttributeLoss], MOST_COLUMNS]
HoldersError = Annotated[int, Meta(ge=0, le=MOST_ERROR)]  # see utility/queries.py
Seconds = Annotated[dict[str, float], Meta(max_length=16)]  # by part of the session


class ReportedStep(Message, tag="reported-step", frozen=True):
    """One specialization, reported by its holder."""

    round: int
    attribute: str
    value: str
    children: tuple[str, ...]
    score: float


class Columns(Message, tag="columns", frozen=True):
    """A party's part of the release: an Arrow stream of its columns, and figures for the summary."""

    table: bytes
    steps: tuple[ReportedStep, ...]
    losses: Losses
    left_out: ColumnNames
    seconds: Seconds
    suppressed: int = 0  # common records that are not in the table
    histograms_by: Annotated[
        tuple[BackEnd, ...], Meta(max_length=2)
    ] = ()  # the back ends it used for joint histograms
    query_error: HoldersError | None = None  # of queries about its own columns


class Received(Message, tag="received", frozen=True):
    """The assembler has everybody's columns, and the release satisfies its requirement."""

    error: Annotated[int, Meta(ge=0, le=100)] | None = (
        None  # of classifying by the release, in percent: gain.py
    )


def compact(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Write each text once, and a cell as its number in as few bytes as all numbers fit in.

    A raw column's own dictionary may name values of people who are not in common, in an order of its holder's: its
    texts are numbered as they occur.
    """
    if isinstance(column, pa.ChunkedArray):
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        if not is_text(plain.type):
            return plain
        column = plain.combine_chunks().dictionary_encode()
    numbers = pa.from_numpy_dtype(np.min_scalar_type(-max(len(column.dictionary), 1)))
    return pa.DictionaryArray.from_arrays(column.indices.cast(numbers), column.dictionary)


def restored(column: pa.ChunkedArray, *, generalised: bool) -> pa.ChunkedArray:
    """Return a column as it was before `compact`: with numbers of four bytes if it is generalised, else written out."""
    if not pa.types.is_dictionary(column.type):
        return column
    text = column.type.value_type
    return column.cast(pa.dictionary(pa.int32(), text) if generalised else text)


def write_columns(columns: pa.Table) -> bytes:
    """Encode columns as an Arrow stream. Dictionaries hold the values of the cut and nothing else."""
    return write_stream(columns)


def read_columns(
    message: Columns, sender: str, names: Sequence[str], most_records: int = MOST_RECORDS
) -> pa.Table:
    """Decode a party's columns, which must be those that it agreed to hand in."""
    try:
        table = read_stream(message.table, names, most_records)
    except BadStream as error:
        raise PeerBrokeProtocol(sender, f"sent columns that cannot be read: {error}") from None
    if table.column_names != list(names):
        raise PeerBrokeProtocol(sender, f"sent the columns {table.column_names}; agreed are {list(names)}")
    return table
