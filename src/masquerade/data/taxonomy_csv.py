"""Taxonomies as rows `leaf;parent;…;root`, as ARX writes them; rows may differ in depth."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from masquerade.data.encode import SPACE
from masquerade.data.taxonomy_outline import Outline, Path, Place, outline, refuse
from masquerade.errors import shown


def outline_of_rows(text: str, source: str) -> Outline:
    """The tree that the rows describe."""
    if ";" not in text and "," in text:
        refuse(source, ['there is no ";" in it, but ","; rows are leaf;parent;…;root, separated by ";"'])
    problems: list[str] = []
    paths: list[Path] = []
    for line, cells in _rows(text, source):
        while cells and not cells[-1]:  # spreadsheets fill short rows with empty cells
            cells.pop()
        if not cells:
            problems.append(f"line {line}: all cells are empty")
        elif "" in cells:
            problems.append(
                f"line {line}: cell {cells.index('') + 1} is empty, before {shown(cells[-1])}; "
                "a short row just has fewer cells"
            )
        else:
            paths.append([Place(cell, line) for cell in cells])
    return outline(paths, source, problems)


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, with the line where it begins."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=";", skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            refuse(source, [f"line {line}: {error}"])
            raise  # never: refuse has raised
        if row is None:
            return
        cells = [cell.strip(SPACE) for cell in row]
        if cells and cells != [""]:
            yield line, cells
