"""What a party hands to the assembler at the end: its columns in the common order, and figures about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa
from msgspec import Meta

from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message
from masquerade.protocol.align import MOST_RECORDS
from masquerade.protocol.arrow_stream import BadStream, read_stream, write_stream
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
