"""What the readers of files and databases have in common: their result, and the checks of names and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from masquerade.data.schema import repeated
from masquerade.data.table import Origin
from masquerade.errors import DataError, hint

EXCEL = "a spreadsheet, which is not read; save its sheet as CSV (UTF-8), and name that file"


@dataclass(frozen=True, eq=False)
class Source:
    """A reader's result: the requested columns, the names of all columns, and how to refer to a row."""

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
