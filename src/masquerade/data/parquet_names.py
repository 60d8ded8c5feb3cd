"""Which files make up a table in many Parquet files, or a release in parts, by their names alone.

The files are in the order of their names; hidden ones and those that begin with "_" (a cluster's own notes) are no part
of the table. No file is opened here, so that a job can be checked before any reader is loaded.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from masquerade.data.file_kinds import PARQUET_SUFFIXES, SIGNS
from masquerade.errors import DataError


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
        return names[: whole.index("**")] == whole[: whole.index("**")] and fnmatchcase(
            file.name, source.name
        )
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
