"""Partitioned Parquet: a folder or glob of files with the same columns, read a few row groups at a time.

Which files those are follows from their names (`parquet_names.py`). A file that changes while the table is in use is an
error: its rows would not be those that were counted.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from masquerade.data.cell_types import plain_table
from masquerade.data.encode import is_text
from masquerade.data.parquet_names import listed_files
from masquerade.data.reading import Source, check_names, chosen, why_unreadable
from masquerade.data.table import Origin
from masquerade.errors import DataError

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData


@dataclass(frozen=True)
class Part:
    """Some row groups of one file."""

    path: str
    row_groups: tuple[int, ...]
    first_row: int  # of the file
    rows: int
    state: tuple[int, int]  # of the file when it was listed: its size and time
    name: str = ""  # in errors, where the file is a copy of something else

    def read(self, columns: Sequence[str], coded: Container[str] = ()) -> pa.Table:
        """Read these columns; text columns in `coded` are dictionary-encoded."""
        import pyarrow.parquet  # here, because every job asks this module whether its table is in parts

        path = Path(self.path)
        try:
            if _state(path) != self.state:
                raise DataError.about(path, "the file has changed while it was in use; run the job again")
            with path.open("rb") as file:
                schema = pyarrow.parquet.read_schema(file)
                file.seek(0)
                texts = [name for name in columns if name in coded and is_text(schema.field(name).type)]
                opened = pyarrow.parquet.ParquetFile(file, read_dictionary=texts)
                table = opened.read_row_groups(
                    list(self.row_groups), columns=list(columns), use_threads=False
                )
        except (OSError, pa.ArrowException, UnicodeError) as error:
            raise _unreadable(path, error) from None
        return plain_table(table.select(columns), self.path, coded).unify_dictionaries()

    def origin(self, missing_values: Sequence[str]) -> Origin:
        """Return how errors name its rows: by their place in the file."""
        return Origin(self.name or self.path, missing_values=tuple(missing_values), first_row=self.first_row)


@dataclass(frozen=True)
class PartedFiles:
    """The files of a table, what columns they have, and how large they are."""

    name: str  # as it was asked for
    paths: tuple[Path, ...]  # absolute, for whoever reads them elsewhere
    columns: tuple[str, ...]
    rows: int
    row_bytes: float  # uncompressed, of all columns
    largest_group: tuple[int, str]  # rows of the largest row group, and its file
    copy_of: str = ""  # what its one file is a copy of

    def parts(self, most_rows: int) -> list[Part]:
        """Cut the files into parts of at most `most_rows` rows, or of one row group."""
        parts = [part for path in self.paths for part in _parts(path, most_rows)]
        return [replace(part, name=self.copy_of) for part in parts] if self.copy_of else parts


def parted_files(source: str, base: Path, columns: Sequence[str] = ()) -> PartedFiles:
    """List the Parquet files of a file, folder or glob; raise unless all have these columns, of the same types.

    Without `columns` all must have the same ones; otherwise files may have others besides.
    """
    paths = listed_files(base / source)
    names: dict[str, None] = {}
    first: pa.Schema | None = None
    rows, size, largest = 0, 0, (0, "")
    for path in paths:
        metadata, schema = _looked_at(path)
        names |= dict.fromkeys(schema.names)
        rows += metadata.num_rows
        for at in range(metadata.num_row_groups):
            group = metadata.row_group(at)
            size += group.total_byte_size
            largest = max(largest, (group.num_rows, str(path)))
        if first is None:
            first = schema
            check_names(str(path), schema.names)
            chosen(str(path), schema.names, columns)
        _check_same(path, schema, paths[0], first, columns)
    assert first is not None
    if rows == 0:
        raise DataError.about(base / source, "there is no row of data")
    return PartedFiles(str(base / source), tuple(paths), tuple(names), rows, size / rows, largest)


def read_parted(
    source: str, base: Path, *, columns: Sequence[str] | None = None, coded: Container[str] = ()
) -> Source:
    """Read all rows of partitioned Parquet."""
    found = parted_files(source, base, columns or ())
    wanted = chosen(found.name, found.columns, columns)
    tables = [part.read(wanted, coded) for part in found.parts(found.rows)]
    return Source(pa.concat_tables(tables).unify_dictionaries(), found.columns, Origin(found.name))


def _looked_at(path: Path) -> tuple[FileMetaData, pa.Schema]:
    import pyarrow.parquet

    try:
        with path.open("rb") as file:
            metadata = pyarrow.parquet.read_metadata(file)
            return metadata, metadata.schema.to_arrow_schema()
    except (OSError, pa.ArrowException, UnicodeError) as error:
        raise _unreadable(path, error) from None


def _check_same(
    path: Path, schema: pa.Schema, first_path: Path, first: pa.Schema, columns: Sequence[str]
) -> None:
    if not columns and (other := [name for name in schema.names if name not in first.names]):
        raise DataError.about(first_path, f'no column "{other[0]}", which {path.name} has')
    for name in columns or first.names:
        if name not in schema.names:
            raise DataError.about(path, f'no column "{name}", which {first_path.name} has')
        mine, theirs = (_plain_type(each.field(name).type) for each in (schema, first))
        if mine != theirs:
            raise DataError.about(path, f"column {name} is of type {mine}, and in {first_path.name} {theirs}")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if is_text(plain) else plain


def _parts(path: Path, most_rows: int) -> list[Part]:
    state, (metadata, _) = _state(path), _looked_at(path)
    parts: list[Part] = []
    groups: list[int] = []
    first = rows = 0
    for at in range(metadata.num_row_groups):
        here = metadata.row_group(at).num_rows
        if groups and rows + here > most_rows:
            parts.append(Part(str(path), tuple(groups), first, rows, state))
            groups, first, rows = [], first + rows, 0
        groups.append(at)
        rows += here
    if rows:
        parts.append(Part(str(path), tuple(groups), first, rows, state))
    return parts


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _unreadable(path: Path, error: Exception) -> DataError:
    if isinstance(error, OSError) and error.errno is not None:
        return why_unreadable(path, error)
    first_line = str(error).strip().partition("\n")[0].rstrip(".")
    return DataError.about(path, f"not a sound Parquet file ({first_line})")
