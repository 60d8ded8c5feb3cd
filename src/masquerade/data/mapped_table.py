"""A table as an uncompressed file that is mapped: its pages come from the disk when they are looked at, and may go.

The file is written a batch at a time, and has no name any more once it is mapped: nobody else can open it, and it is
gone with the process, however that ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from masquerade.data.encode import is_text
from masquerade.data.read import TableFile
from masquerade.data.table import Origin
from masquerade.errors import DataError


def mapped_columns(file: TableFile, columns: Sequence[str]) -> tuple[pa.Table, Origin]:
    """Copy these columns of a table to a private file; return it mapped, and how errors name its rows."""
    with (
        tempfile.NamedTemporaryFile(prefix="masquerade-", suffix=".arrow") as copy,
        file.in_batches(columns) as opened,
    ):
        first = next(opened.batches, None)
        if first is None:
            raise DataError.about(opened.origin.name, "there is no row of data")
        plain = _written_out(first.select(columns))
        with pa.ipc.new_file(copy, plain.schema) as writer:
            writer.write_table(plain)
            for batch in opened.batches:
                writer.write_table(_written_out(batch.select(columns)))
        copy.flush()
        return pa.ipc.open_file(pa.memory_map(copy.name)).read_all(), replace(
            opened.origin, missing_values=file.missing_values
        )


def _written_out(table: pa.Table) -> pa.Table:
    """Return the table without dictionaries, which differ from batch to batch."""
    return pa.table(
        {
            name: column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )


@dataclass(frozen=True)
class MappedParts:
    """A table at hand that is read in parts, without a file that others would have to see."""

    table: pa.Table
    origin: Origin
    paths: tuple[Path, ...] = ()
    largest_group: tuple[int, str] = (1, "")

    @property
    def name(self) -> str:
        """Where it came from."""
        return self.origin.name

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it has."""
        return tuple(self.table.column_names)

    def parts(self, most_rows: int) -> list[MappedPart]:
        """Cut it into parts of at most `most_rows` rows."""
        starts = range(0, self.table.num_rows, max(most_rows, 1))
        return [MappedPart(self.table.slice(at, most_rows), self.origin.name, at) for at in starts]


@dataclass(frozen=True, eq=False)
class MappedPart:
    """Some rows of it; who reads them elsewhere gets those rows alone."""

    table: pa.Table
    name: str
    first_row: int

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.table.num_rows)

    def read(self, columns: Sequence[str], coded: Container[str] = ()) -> pa.Table:
        """Return these columns; text columns in `coded` are dictionary-encoded."""
        found = {
            name: self.table.column(name).dictionary_encode()
            if name in coded and is_text(self.table.schema.field(name).type)
            else self.table.column(name)
            for name in columns
        }
        return pa.table(found).unify_dictionaries()

    def origin(self, missing_values: Sequence[str]) -> Origin:
        """Return how errors name its rows: by their place in the table."""
        return Origin(self.name, missing_values=tuple(missing_values), first_row=self.first_row)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickling a slice would take along all that it is a slice of.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.table.schema) as writer:
            writer.write_table(self.table)
        return _received, (sink.getvalue().to_pybytes(), self.name, self.first_row)


def _received(rows: bytes, name: str, first_row: int) -> MappedPart:
    return MappedPart(pa.ipc.open_stream(rows).read_all(), name, first_row)
