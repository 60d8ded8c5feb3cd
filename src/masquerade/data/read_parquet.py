"""Read Parquet files, loading only the requested columns."""

from __future__ import annotations

import glob
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from masquerade.data.encoding import is_text
from masquerade.data.file_kinds import PARQUET_SUFFIXES, SIGNS
from masquerade.data.reading import RawTable, check_names, chosen, plain_table, why_unreadable
from masquerade.data.table import Origin
from masquerade.errors import DataError

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

# --- parquet names ------------------------------------------------------------------------------------------
# Which files make up a table in many Parquet files, or a release in parts, by their names alone.
#
# The files are in the order of their names; hidden ones and those that begin with "_" (a cluster's own
# notes) are no part of the table. No file is opened here, so that a job can be checked before any reader is
# loaded.


def listed_files(path: Path) -> list[Path]:
    """Return the files of a folder, a glob or a single path, in the order of their names."""
    if path.is_dir():
        found = [each for each in path.rglob("*") if each.suffix.lower() in PARQUET_SUFFIXES]
        inside = [each.relative_to(path).parts for each in found]
        found = [each for each, names in zip(found, inside, strict=True) if not _hidden(names)]
        kind = "the folder holds no Parquet file"
    elif any(sign in str(path) for sign in SIGNS) and not path.exists():
        found = [Path(each) for each in glob.glob(str(path), recursive=True)]  # noqa: PTH207 # from the root
        found = [each for each in found if each.is_file() and not _hidden(each.parts[-1:])]
        kind = "no file fits the pattern"
    else:
        return [path.absolute()]
    if not found:
        raise DataError.about(path, f"{kind}; allowed are files that end in {' or '.join(PARQUET_SUFFIXES)}")
    return sorted(each.absolute() for each in found)


def is_listed(file: Path, source: Path) -> bool:
    """Return whether a file of this name, there or not, is one of those of a folder or glob."""
    names = file.resolve().parts
    whole = (source.parent.resolve() / source.name).parts
    if source.is_dir():
        whole = source.resolve().parts
        is_below = names[: len(whole)] == whole
        return is_below and file.suffix.lower() in PARQUET_SUFFIXES and not _hidden(names[len(whole) :])
    if "**" in whole:
        return names[: whole.index("**")] == whole[: whole.index("**")] and fnmatchcase(file.name, source.name)
    return len(names) == len(whole) and all(map(fnmatchcase, names, whole)) and not _hidden(names[-1:])


def part_name(number: int) -> str:
    """Return the name of a file of a release in parts."""
    return f"part-{number:05}.parquet"


def is_part_name(name: str) -> bool:
    """Return whether a file may be one of a release in parts."""
    number = name.removeprefix("part-").removesuffix(".parquet")
    return number.isdecimal() and name == part_name(int(number))


def _hidden(names: Sequence[str]) -> bool:
    return any(name.startswith((".", "_")) for name in names)


# --- parquet parts ------------------------------------------------------------------------------------------
# Partitioned Parquet: a folder or glob of files with the same columns, read a few row groups at a time.
#
# Which files those are follows from their names (`read_parquet.py`). A file that changes while the table is
# in use is an error: its rows would not be those that were counted.


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
                table = opened.read_row_groups(list(self.row_groups), columns=list(columns), use_threads=False)
        except (OSError, pa.ArrowException, UnicodeError) as error:
            raise _unreadable(path, error) from None
        return plain_table(table.select(columns), self.path, coded).unify_dictionaries()

    def origin(self, missing_values: Sequence[str]) -> Origin:
        """Return how errors name its rows: by their place in the file."""
        return Origin(self.name or self.path, missing_values=tuple(missing_values), first_row=self.first_row)


@dataclass(frozen=True)
class PartitionedFiles:
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


def partitioned_files(source: str, base: Path, columns: Sequence[str] = ()) -> PartitionedFiles:
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
    return PartitionedFiles(str(base / source), tuple(paths), tuple(names), rows, size / rows, largest)


def read_partitioned(
    source: str, base: Path, *, columns: Sequence[str] | None = None, coded: Container[str] = ()
) -> RawTable:
    """Read all rows of partitioned Parquet."""
    found = partitioned_files(source, base, columns or ())
    wanted = chosen(found.name, found.columns, columns)
    tables = [part.read(wanted, coded) for part in found.parts(found.rows)]
    return RawTable(pa.concat_tables(tables).unify_dictionaries(), found.columns, Origin(found.name))


def _looked_at(path: Path) -> tuple[FileMetaData, pa.Schema]:
    import pyarrow.parquet

    try:
        with path.open("rb") as file:
            metadata = pyarrow.parquet.read_metadata(file)
            return metadata, metadata.schema.to_arrow_schema()
    except (OSError, pa.ArrowException, UnicodeError) as error:
        raise _unreadable(path, error) from None


def _check_same(path: Path, schema: pa.Schema, first_path: Path, first: pa.Schema, columns: Sequence[str]) -> None:
    if not columns and (other := [name for name in schema.names if name not in first.names]):
        raise DataError.about(first_path, f'no column "{other[0]}", which {path.name} has')
    for name in columns or first.names:
        if name not in schema.names:
            raise DataError.about(path, f'no column "{name}", which {first_path.name} has')
        kinds = (each.field(name).type for each in (schema, first))
        plain = (kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds)
        mine, theirs = (pa.string() if is_text(kind) else kind for kind in plain)
        if mine != theirs:
            raise DataError.about(path, f"column {name} is of type {mine}, and in {first_path.name} {theirs}")


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
    if isinstance(error, OSError) and error.errno is not None:  # else raised by Arrow, about the content
        return why_unreadable(path, error)
    first_line = str(error).strip().partition("\n")[0].rstrip(".")
    return DataError.about(path, f"not a sound Parquet file ({first_line})")


# --- read parquet -------------------------------------------------------------------------------------------


def read_parquet(path: Path, *, columns: Sequence[str] | None = None, coded: Container[str] = ()) -> RawTable:
    """Read a Parquet file; only `columns`, if given; text columns in `coded` are dictionary-encoded."""
    import pyarrow.parquet  # not for tables in other formats: it takes longer than most of them

    name = str(path)
    try:
        with path.open("rb") as file:
            schema = pyarrow.parquet.read_schema(file)
            check_names(name, schema.names)
            wanted = chosen(name, schema.names, columns)
            plain_table(schema.empty_table().select(wanted), name)  # checked before any data is read
            file.seek(0)
            texts = [column for column in wanted if column in coded and is_text(schema.field(column).type)]
            opened = pyarrow.parquet.ParquetFile(file, read_dictionary=texts)
            table = opened.read(columns=wanted).select(wanted)  # "a" also reads a column named "a.b"
    except (OSError, pa.ArrowException, UnicodeError) as error:
        raise _unreadable(path, error) from None
    except ValueError as error:  # an impossible path
        raise why_unreadable(path, error) from None
    if table.num_rows == 0:
        raise DataError.about(path, "there is no row of data")
    return RawTable(plain_table(table, name, coded).unify_dictionaries(), tuple(schema.names), Origin(name))
