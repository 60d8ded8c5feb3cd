"""Private copies of a table, written once and a batch at a time: as Parquet on the disk, or mapped into memory.

A copy in Parquet is what a CSV file or a query's result is read in chunks from. A mapped one is not compressed: its
pages come from the disk when they are looked at, and may go.
"""

from __future__ import annotations

import tempfile
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from masquerade.data.encoding import is_text
from masquerade.data.read import TableFile
from masquerade.data.read_parquet import PartitionedFiles, partitioned_files
from masquerade.data.table import Origin
from masquerade.errors import DataError

_ROWS = 1 << 18  # of a row group


@contextmanager
def staged_parquet(
    file: TableFile, columns: Sequence[str] | None, also: Sequence[str] = ()
) -> Iterator[PartitionedFiles]:
    """Copy these columns of a table, or all, into a private folder until the block ends.

    Columns in `also` are copied where the table has them.
    """
    with file.in_batches() as looked_at:
        first = next(looked_at.batches, None)
        names = tuple(first.column_names) if first is not None else ()
    if columns is not None:
        columns = list(dict.fromkeys([*columns, *(name for name in also if name in names)]))
    with tempfile.TemporaryDirectory(prefix="masquerade-") as folder:
        path = Path(folder) / "table.parquet"
        with file.in_batches(columns) as opened:
            name = opened.origin.name
            _write(opened.batches, path, name)
        yield replace(partitioned_files(str(path), Path(), columns or ()), name=name, columns=names, copy_of=name)


def _write(batches: Iterator[pa.Table], path: Path, name: str) -> None:
    import pyarrow.parquet  # here: jobs that copy nothing do without

    first = next(batches, None)
    if first is None:
        raise DataError.about(name, "there is no row of data")
    with pyarrow.parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first, row_group_size=_ROWS)
        for batch in batches:
            writer.write_table(batch, row_group_size=_ROWS)


# --- mapped -------------------------------------------------------------------------------------------------
# The file has no name any more once it is mapped: nobody else can open it, and it is gone with the process,
# however that ends.


def mapped_columns(file: TableFile, columns: Sequence[str]) -> tuple[pa.Table, Origin]:
    """Copy these columns of a table to a private file; return it mapped, and how errors name its rows."""
    with tempfile.NamedTemporaryFile(prefix="masquerade-", suffix=".arrow") as copy, file.in_batches(columns) as opened:
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
