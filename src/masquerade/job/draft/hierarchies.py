"""Taxonomies that lie beside a table already, such as ARX's hierarchies, where they fit its cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from masquerade.data.taxonomy import Taxonomy
from masquerade.data.taxonomy_files import read_taxonomy
from masquerade.errors import TaxonomyError
from masquerade.job.draft.profile import Profile

_FOLDERS = (".", "hierarchies", "taxonomies")
_SUFFIXES = (".csv", ".yaml", ".yml", ".txt")


@dataclass(frozen=True)
class Found:
    """A file for a column; `misfit` says why it cannot be used."""

    path: Path
    kind: str  # "categorical" or, where its leaves are intervals, the column's own
    misfit: str = ""


def beside(table: Path, column: Profile) -> Found | None:
    """Return the taxonomy of a column: `COLUMN.csv`, or as ARX calls it `TABLE_hierarchy_COLUMN.csv`."""
    found = None
    for path in _candidates(table, column.name):
        found = _fits(path, column)
        if not found.misfit:
            return found
    return found


def _candidates(table: Path, name: str) -> Iterator[Path]:
    if "/" in name or "\0" in name:
        return
    for folder in _FOLDERS:
        for stem in (name, f"{table.stem}_hierarchy_{name}", f"{table.stem}_int_hierarchy_{name}"):
            for suffix in _SUFFIXES:
                path = table.parent / folder / f"{stem}{suffix}"
                if path != table and path.is_file():
                    yield path


def _fits(path: Path, column: Profile) -> Found:
    if column.type in ("number", "date"):
        kind = "continuous" if column.type == "number" else "date"
        try:
            if read_taxonomy(path, kind).edges is not None:  # type: ignore[arg-type] # one of the two
                return Found(path, kind)
        except TaxonomyError:
            pass  # perhaps of categories
    try:
        taxonomy: Taxonomy = read_taxonomy(path)
    except TaxonomyError as error:
        return Found(path, "categorical", error.problems[0].text)
    lacking = [cell for cell in column.cells if cell not in taxonomy.rank]
    if lacking:
        words = (
            "a value of the column is" if len(lacking) == 1 else f"{len(lacking):,} values of the column are"
        )
        return Found(path, "categorical", f"{words} no leaf of it")
    return Found(path, "categorical")
