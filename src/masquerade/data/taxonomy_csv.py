"""Taxonomies as rows `leaf;parent;…;root`, as ARX writes them; rows may differ in depth."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from masquerade.data.encode import SPACE
from masquerade.data.taxonomy_outline import Outline, Path, Place, outline, refuse
from masquerade.errors import Problem, shown


def outline_of_rows(text: str, source: str) -> Outline:
    """Build the tree that the rows describe."""
    if ";" not in text and "," in text:
        text = 'there is no ";" in it, but ","; rows are leaf;parent;…;root, separated by ";"'
        refuse(source, [Problem(text)])
    problems: list[Problem] = []
    paths: list[Path] = []
    for line, cells in _rows(text, source):
        while cells and not cells[-1]:  # spreadsheets fill short rows with empty cells
            cells.pop()
        if not cells:
            problems.append(Problem("all cells are empty", line=line))
        elif "" in cells:
            before = f"cell {cells.index('') + 1} is empty, before {shown(cells[-1])}"
            problems.append(Problem(f"{before}; a short row just has fewer cells", line=line))
        else:
            paths.append([Place(cell, line) for cell in cells])
    return outline(paths, source, problems)


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each non-blank row with its starting line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=";", skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            refuse(source, [Problem(str(error), line=line)])
            raise  # unreachable: refuse has raised
        if row is None:
            return
        cells = [cell.strip(SPACE) for cell in row]
        if cells and cells != [""]:
            yield line, cells
