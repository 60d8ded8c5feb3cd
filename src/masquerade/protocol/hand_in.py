"""Tables as they travel: Arrow streams whose size in memory follows from their size on the wire.

Arrow's format has several ways to say much in a few bytes: compressed bodies, nested and run-length types, views, and
schemas whose parts are shared. A stream here has none of them: it holds as many columns as were agreed, of plain types,
and is looked at before Arrow decodes it. Decoding then takes no copy of the cells.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from masquerade.data import Attribute, Coded, Origin, Schema, Table, is_text
from masquerade.errors import PeerBrokeProtocol
from masquerade.net import Agreement, Message
from masquerade.protocol.contract import MOST_RECORDS
from masquerade.protocol.pairs import BackEnd
from masquerade.utility import MOST_ERROR, AttributeLoss, error_of

_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # what a message holds (Message.fbs)


class BadStream(ValueError):
    """A stream that is refused; the text says why, and shows none of its content."""


def write_columns(table: pa.Table) -> bytes:
    """Encode a table of plain columns, without its metadata; dictionaries hold the values of the cut and no others."""
    columns = {
        name: column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    plain = pa.table(columns) if columns else table.replace_schema_metadata(None)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return sink.getvalue()


def digest_of_cells(table: pa.Table) -> bytes:
    """Return a digest of a table's cells, however they are stored."""
    digest = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        codes = in_order_of_occurrence(plain.combine_chunks())
        digest.update(json.dumps([name, len(codes), codes.dictionary.to_pylist()], default=str).encode())
        digest.update(codes.indices.fill_null(-1).to_numpy().astype("<i4").tobytes())
    return digest.digest()


def in_order_of_occurrence(values: pa.Array) -> pa.DictionaryArray:
    """Number values as they occur."""
    return values.dictionary_encode()


def read_stream(data: bytes, names: Sequence[str], most_rows: int) -> pa.Table:
    """Decode a peer's table, or raise BadStream; its columns should be these, in this order."""
    try:
        for message in _messages(data):
            _look_at(_Table.root(message.metadata.to_pybytes()), names)
        reader = pa.ipc.open_stream(data)
        for field in reader.schema:
            if not _is_plain(field.type):
                raise _not_plain(field.name)
        table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, struct.error, IndexError):
        raise BadStream("it is no well-formed Arrow stream") from None
    if table.num_rows > most_rows:
        raise BadStream(f"it has {table.num_rows} records; at most {most_rows} are agreed")
    if sum(map(_named_bytes, table.columns)) > Agreement.most_bytes:
        raise BadStream(f"its cells would take more than the {Agreement.most_bytes} bytes of a message")
    return table


def _messages(data: bytes) -> Iterator[pa.ipc.Message]:
    reader = pa.ipc.MessageReader.open_stream(data)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


class _Table:
    """A table of a FlatBuffer, the encoding of Arrow's metadata: enough of it to find a field by its number."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data)[0])

    def byte(self, field: int) -> int:
        at = self._place(field)
        return self._data[at] if at else 0

    def table(self, field: int) -> _Table:
        return _Table(self._data, self._follow(self._place(field)))

    def tables(self, field: int) -> list[_Table]:
        first = self._follow(self._place(field)) + 4
        return [_Table(self._data, self._follow(first + 4 * number)) for number in range(self.count(field))]

    def count(self, field: int) -> int:
        """Return the length of a vector; 0 where there is none."""
        at = self._place(field)
        return int(struct.unpack_from("<I", self._data, self._follow(at))[0]) if at else 0

    def has(self, field: int) -> bool:
        return self._place(field) > 0

    def _place(self, field: int) -> int:
        layout = self._at - struct.unpack_from("<i", self._data, self._at)[0]
        slot = 4 + 2 * field
        if slot >= struct.unpack_from("<H", self._data, layout)[0]:
            return 0
        offset = struct.unpack_from("<H", self._data, layout + slot)[0]
        return self._at + offset if offset else 0

    def _follow(self, at: int) -> int:
        return at + int(struct.unpack_from("<I", self._data, at)[0])


def _look_at(message: _Table, names: Sequence[str]) -> None:
    """Refuse what could grow when it is decoded. Fields are numbered as in Message.fbs and Schema.fbs."""
    kind, header = message.byte(1), message.table(2)
    if message.count(4):
        raise BadStream("it has metadata")
    if kind == _SCHEMA:
        if header.count(1) > len(names):
            raise BadStream(f"it has {header.count(1)} columns; agreed are {len(names)}")
        fields = header.tables(1)
        if header.count(2) or any(field.count(6) for field in fields):
            raise BadStream("it has metadata")
        for field, name in zip(fields, names, strict=False):
            if field.count(5):  # it has columns of its own
                raise _not_plain(name)
    elif kind in (_DICTIONARY, _BATCH):
        batch = header.table(1) if kind == _DICTIONARY else header
        if batch.has(3):
            raise BadStream("it is compressed")
    else:
        raise BadStream("it holds something else than columns")


def _not_plain(name: str) -> BadStream:
    return BadStream(f"it has a column {name} of a kind that no table here has")


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    numbers = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    times = (types.is_date, types.is_timestamp, types.is_time, types.is_duration)
    return _is_text(kind) or any(is_kind(kind) for is_kind in (*numbers, *times))


def _is_text(kind: pa.DataType) -> bool:
    """Return whether it is text of which each cell has its own bytes."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _named_bytes(column: pa.ChunkedArray) -> int:
    """Return how long the cells of a dictionary column are when they are written out."""
    if not pa.types.is_dictionary(column.type):
        return 0
    lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in column.chunks)
    return sum(pc.sum(each).as_py() or 0 for each in lengths)


# --- columns ------------------------------------------------------------------------------------------------
# What a party hands to the assembler at the end: its columns in the common order, and figures about them.

# More than any table has. Short texts take many times their bytes in memory, so lists of them are bounded.
MOST_COLUMNS = Meta(max_length=10_000)
ColumnNames = Annotated[tuple[str, ...], MOST_COLUMNS]
Losses = Annotated[dict[str, AttributeLoss], MOST_COLUMNS]
HoldersError = Annotated[int, Meta(ge=0, le=MOST_ERROR)]  # see utility/queries.py
Seconds = Annotated[dict[str, float], Meta(max_length=16)]  # by part of the session


def shown_seconds(seconds: Mapping[str, float], *, exactly: bool) -> dict[str, float]:
    """Return times as the assembler may know them: rounded up to whole seconds, unless it may see the progress."""
    return {part: round(took, 3) if exactly else float(math.ceil(took)) for part, took in seconds.items()}


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
    histograms_by: Annotated[tuple[BackEnd, ...], Meta(max_length=2)] = ()  # the back ends it used for joint histograms
    query_error: HoldersError | None = None  # of queries about its own columns


class Received(Message, tag="received", frozen=True):
    """The assembler has everybody's columns, and the release satisfies its requirement."""

    error: Annotated[int, Meta(ge=0, le=100)] | None = None  # of classifying by the release, in percent: hand_in.py


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


def read_columns(message: Columns, sender: str, names: Sequence[str], most_records: int = MOST_RECORDS) -> pa.Table:
    """Decode a party's columns, which must be those that it agreed to hand in."""
    try:
        table = read_stream(message.table, names, most_records)
    except BadStream as error:
        raise PeerBrokeProtocol(sender, f"sent columns that cannot be read: {error}") from None
    if table.column_names != list(names):
        raise PeerBrokeProtocol(sender, f"sent the columns {table.column_names}; agreed are {list(names)}")
    return table


# --- gain ---------------------------------------------------------------------------------------------------
# What a party gains by taking part: SE − IE (secure data integration, §7).
#
# SE is the error of a decision tree on the party's own raw columns of the common records, IE that of a tree
# on the release. The assembler measures IE and tells it in whole percent; SE stays with the party. Both are
# measured alike (utility/classification.py).

PERCENT = 100


@dataclass(frozen=True)
class Gain:
    """A party's error alone and with the others, as shares of 1."""

    alone: float  # SE
    together: float  # IE

    @property
    def gain(self) -> float:
        """SE − IE: what the others' columns are worth to this party; negative where anonymity costs more."""
        return round(self.alone - self.together, 4)


@dataclass(frozen=True)
class OwnPart:
    """A party's raw columns of the common records with their class, and the release's error."""

    table: Table
    class_name: str
    together: float

    def gain(self) -> Gain | None:
        """Grow the trees; None with too few records to tell."""
        alone = error_of(self.table, self.class_name)
        return Gain(round(alone, 4), self.together) if alone is not None else None


def own_part(own: Table, names: list[str], classes: Coded, percent: int) -> OwnPart:
    """Return what a party has: its columns of these names, and the classes, in the common order."""
    cells = {name: own.cells(name) for name in names if name != classes.name}
    labels = pa.array(classes.labels, pa.string()).take(pa.array(classes.codes))
    schema = Schema(own.schema[name] if name in own.schema else Attribute(name) for name in cells)
    table = Table(pa.table({**cells, classes.name: labels}), schema, origin=Origin("the common records"))
    table.keeps_missing = own.keeps_missing
    return OwnPart(table, classes.name, percent / PERCENT)
