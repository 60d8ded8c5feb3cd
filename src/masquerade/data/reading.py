"""What the readers of files and databases have in common: their result, the types of its cells, and checks of names."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from masquerade.data.continuum import days
from masquerade.data.encoding import is_text
from masquerade.data.schema import repeated
from masquerade.data.table import Origin
from masquerade.errors import DataError, hint

EXCEL = "a spreadsheet, which is not read; save its sheet as CSV (UTF-8), and name that file"

_WHOLE = r"^-?[0-9]{1,18}$"
_ALLOWED = "text, numbers, dates, times and booleans"
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_DECIMAL = r"^-?[0-9]+([.][0-9]+)?$"


@dataclass(frozen=True, eq=False)
class RawTable:
    """A reader's result, before anybody says what it means: some columns, the names of all, and how to name a row."""

    table: pa.Table
    all_columns: tuple[str, ...]
    origin: Origin


def why_unreadable(path: Path, error: OSError | ValueError) -> DataError:
    """Explain in one line why a file cannot be opened."""
    if isinstance(error, FileNotFoundError):
        try:
            neighbours = [entry.name for entry in path.parent.iterdir()]
        except OSError:
            return DataError.about(path, f"there is no such file, and no such folder {path.parent}")
        return DataError.about(path, f"there is no such file{hint(path.name, neighbours)}")
    if isinstance(error, IsADirectoryError):
        return DataError.about(path, "a folder, where a file is expected")
    if isinstance(error, PermissionError):
        return DataError.about(path, "the file may not be read (permission denied)")
    reason = error.strerror if isinstance(error, OSError) else error
    return DataError.about(path, f"the file cannot be read ({reason})")


def check_names(name: str, names: Sequence[str]) -> None:
    """Check that every column has a name, and that no name occurs twice."""
    for position, column in enumerate(names, start=1):
        if not column:
            raise DataError.about(name, f"column {position} has no name")
    doubled = repeated(names)
    if doubled:
        raise DataError.about(name, *(f"column {column} occurs more than once" for column in doubled))


def chosen(name: str, names: Sequence[str], asked: Sequence[str] | None) -> list[str]:
    """Return the requested columns, each once, or all; report all those that do not exist together."""
    if asked is None:
        return list(names)
    known = set(names)
    columns = list(dict.fromkeys(asked))
    absent = [column for column in columns if column not in known]
    if absent:
        there = f"; the columns are: {', '.join(names)}"
        raise DataError.about(name, *(f'no column "{word}"{hint(word, names)}{there}' for word in absent))
    return columns


def plain_table(table: pa.Table, name: str, coded: Container[str] = (), *, advice: str = "") -> pa.Table:
    """Convert every column to text, numbers, booleans, dates or times; reject columns of any other type."""
    problems, arrays = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        try:
            array = plain_column(field, column)
            array.validate(full=True)
        except pa.ArrowInvalid:
            problems.append(f"column {field.name} holds text that is not UTF-8, or is damaged")
        except TypeError as error:
            problems.append(f"column {field.name} is of type {error}; allowed are {_ALLOWED}{advice}")
        else:
            if _leaves_the_calendar(array):
                problems.append(f"column {field.name} holds a date outside the years 1 to 9999")
            as_code = field.name in coded and is_text(array.type)
            arrays.append(array.dictionary_encode() if as_code else array)
    if problems:
        raise DataError.about(name, *problems)
    return pa.table(arrays, names=table.column_names) if arrays else table


def plain_column(field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert one column to a plain type; raise TypeError with the type's name if there is none."""
    kind = column.type
    if (field.metadata or {}).get(b"POSTGRESQL:type") == b"money":
        raise TypeError("money")  # arrives as a bare number of cents
    if isinstance(kind, pa.BaseExtensionType):
        return _unwrapped(kind, column)
    base = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not _is_plain(base):
        raise TypeError(str(kind))
    return column


def _unwrapped(kind: pa.BaseExtensionType, column: pa.ChunkedArray) -> pa.ChunkedArray:
    storage = pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
    if kind.extension_name == "arrow.uuid":
        texts = [None if value is None else str(uuid.UUID(bytes=value)) for value in storage.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    type_name = getattr(kind, "type_name", kind.extension_name)
    if type_name == "numeric":
        return _numbers(storage)
    if not _is_plain(kind.storage_type):
        raise TypeError(type_name)
    return storage


def _numbers(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Parse decimals that a database wrote as text: as integers if possible, else decimals, else (NaN) floats."""
    if _all_match(texts, _WHOLE):
        return texts.cast(pa.int64())
    if _all_match(texts, _DECIMAL):
        fraction = pc.utf8_length(pc.replace_substring_regex(texts, r"^[^.]*[.]?", ""))
        whole = pc.utf8_length(pc.replace_substring_regex(texts, r"^-|[.].*$", ""))
        scale, digits = pc.max(fraction).as_py(), pc.max(whole).as_py()
        if scale + digits <= 38:
            return texts.cast(pa.decimal128(38, scale))
    return texts.cast(pa.float64())


def _all_match(texts: pa.ChunkedArray, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py() is True


def _leaves_the_calendar(column: pa.ChunkedArray) -> bool:
    """Return whether a date lies outside Python's calendar, whose range is smaller than Arrow's."""
    kind = column.type
    if pa.types.is_date32(kind):
        numbers, per_day = column.cast(pa.int32()), 1
    elif pa.types.is_date64(kind) or pa.types.is_timestamp(kind):
        numbers, per_day = column.cast(pa.int64()), _PER_DAY["ms" if pa.types.is_date64(kind) else kind.unit]
    else:
        return False
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is not None and (
        ends["min"] // per_day < days(datetime.date.min) or ends["max"] // per_day > days(datetime.date.max)
    )


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        is_text(kind)
        or types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or (types.is_timestamp(kind) and _knows_zone(kind))
        or types.is_time(kind)
        or types.is_null(kind)
    )


def _knows_zone(kind: pa.DataType) -> bool:
    """Return whether this machine knows a timestamp's time zone, if it has one."""
    try:
        pa.array([0], kind).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True
