"""What a job file says of an attribute: its type, and the taxonomy that is found or made for it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from masquerade.data.continuum import ISO_DATE, USUAL_NUMBERS, NumberStyle
from masquerade.data.interval_taxonomy import interval_taxonomy
from masquerade.data.taxonomy import Taxonomy
from masquerade.data.taxonomy_csv import outline_of_rows
from masquerade.errors import TaxonomyError
from masquerade.job.draft.hierarchies import beside
from masquerade.job.draft.profile import ColumnType, Profile, also_read_as
from masquerade.job.draft.toml_text import quoted, relative
from masquerade.job.draft.trees import (
    Paths,
    balanced,
    calendar,
    has_short_names,
    prefixes,
    round_intervals,
    words_of_order,
)

_TREES: dict[ColumnType, tuple[Callable[[Profile], Paths], str]] = {
    "number": (
        round_intervals,
        "intervals with round ends, each level in about two",
    ),
    "date": (calendar, "days, months, quarters, years, decades"),
    "code": (prefixes, "prefixes"),
}
_KINDS: dict[ColumnType, str] = {"number": "continuous", "date": "date"}


@dataclass(frozen=True)
class AttributeText:
    """The lines of an attribute's section; the taxonomy's file and text, if one is made; and what it is.

    Of `has_short_names`, the labels leave out values: a release needs the list of them beside it.
    """

    lines: tuple[str, ...]
    file: Path | None
    text: str
    tree: str
    has_short_names: bool = False


def attribute_text(
    column: Profile, table: Path | None, job: Path, taken: set[Path], likeness: Sequence[float] | None
) -> AttributeText:
    """Find a taxonomy beside the table, or make one; where neither works, it is flat, or grows at run time."""
    found = beside(table, column) if table is not None else None
    misfit = ""
    if found is not None and not found.misfit:
        lines = (*_written(column, found.kind), f"taxonomy = {quoted(relative(found.path, job))}")
        return AttributeText(lines, None, "", f"the taxonomy in {found.path.name}")
    if found is not None:
        misfit = f"; {found.path.name} does not fit: {found.misfit}"
    kind = _KINDS.get(column.type, "categorical")
    made, words = _made(column, likeness)
    words += _reading(column)
    if made is None:
        flat = () if kind != "categorical" else ('taxonomy = "flat"',)
        return AttributeText((*_written(column, kind), *flat), None, "", f"{words}{misfit}")
    file = _free_name(column.name, job, taken)
    lines = (*_written(column, kind), f"taxonomy = {quoted(relative(file, job))}")
    short = column.type not in _TREES and has_short_names(column, likeness)
    return AttributeText(lines, file, made, f"{words}{misfit}", short)


def _reading(column: Profile) -> str:
    """Say how numbers and dates were read that somebody may have meant otherwise."""
    if column.type == "number" and not column.numbers.is_usual:
        return f"; {_numbers_read(column.numbers)}"
    if column.type == "date" and column.format != ISO_DATE:
        other = also_read_as(column)
        return f"; its dates are read as {column.format}" + (f", though {other} fits, too" if other else "")
    return ""


def _numbers_read(style: NumberStyle) -> str:
    words = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}
    parts = ["its commas are taken for decimal points"] if style.decimal == "," else []
    if style.thousands:
        parts.append(f"its {words[style.thousands]} stand between thousands")
    return ", ".join([*parts, *([f'"{style.unit}" is its unit'] if style.unit else [])])


def _written(column: Profile, kind: str) -> tuple[str, ...]:
    """The type, and how dates and numbers are written where that is not the usual way."""
    if kind == "categorical":
        return ()
    lines = [f"type = {quoted(kind)}"]
    if kind == "date" and column.format != ISO_DATE:
        lines.append(f"format = {quoted(column.format)}")
    if kind == "continuous":
        for word in ("decimal", "thousands", "unit"):
            if (sign := getattr(column.numbers, word)) != getattr(USUAL_NUMBERS, word):
                lines.append(f"{word} = {quoted(sign)}")
    return tuple(lines)


def _made(column: Profile, likeness: Sequence[float] | None) -> tuple[str | None, str]:
    """Return the file of a taxonomy that fits the column, and what it is; None if none could be made."""
    if column.type in _TREES:
        make, words = _TREES[column.type]
        paths = make(column)
    else:
        words = words_of_order(column, likeness)
        paths = balanced(column, likeness)
    text = _rows(paths)
    try:
        tree = outline_of_rows(text, column.name)
        if column.type in _KINDS:
            interval_taxonomy(tree, "date" if column.type == "date" else "continuous", column.name)
        elif not Taxonomy(tree.branch(), column.name).rank.keys() >= set(column.cells):
            return None, "one root over all values"
    except TaxonomyError:  # names that stand for something in the format
        return None, "one root over all values"
    return text, words


def _rows(paths: Paths) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";", lineterminator="\n").writerows(paths)
    return text.getvalue()


def _free_name(name: str, job: Path, taken: set[Path]) -> Path:
    """Return a new file for a column's taxonomy, in the job's own folder of taxonomies."""
    stem = re.sub(r"[^\w-]+", "-", name).strip("-") or "column"
    folder, at = job.parent / f"{job.stem}-taxonomies", 1
    path = folder / f"{stem}.csv"
    while path in taken:
        at += 1
        path = folder / f"{stem}-{at}.csv"
    taken.add(path)
    return path
