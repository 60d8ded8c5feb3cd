"""What a party hands to the assembler at the end: its columns in the common order, and figures about them."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa

from masquerade.errors import PeerBrokeProtocol
from masquerade.net.script import Message
from masquerade.protocol.joint_histogram.pair import BackEnd
from masquerade.utility.losses import AttributeLoss


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
    losses: dict[str, AttributeLoss]
    left_out: tuple[str, ...]
    seconds: dict[str, float]
    suppressed: int = 0  # common records that are not in the table
    histograms_by: tuple[BackEnd, ...] = ()  # the back ends it used for joint histograms


class Received(Message, tag="received", frozen=True):
    """The assembler has everybody's columns, and the release satisfies its requirement."""


def write_columns(columns: pa.Table) -> bytes:
    """Encode columns as an Arrow stream. Dictionaries hold the values of the cut and nothing else."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_table(columns)
    return sink.getvalue()


def read_columns(message: Columns, sender: str, names: Sequence[str]) -> pa.Table:
    """Decode a party's columns, which must be those that it agreed to hand in."""
    try:
        table = pa.ipc.open_stream(message.table).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        raise PeerBrokeProtocol(sender, "sent columns that cannot be read") from None
    if table.column_names != list(names):
        raise PeerBrokeProtocol(sender, f"sent the columns {table.column_names}; agreed are {list(names)}")
    return table
