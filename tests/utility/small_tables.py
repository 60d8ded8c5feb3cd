"""Small random tables, each with a release that generalises every cell on its own.

Brute force needs only the words of a table: the names from a root to a leaf, the ends of an interval.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from numpy.typing import NDArray

from masquerade.data import Attribute, Branch, Generalised, Schema, Table, Taxonomy
from masquerade.utility import Comparison, compare

Path = tuple[str, ...]  # the names from the root to a leaf, chains of single children already one
Ends = tuple[float, float]


@dataclass(frozen=True)
class Cell:
    """One cell: what it was, what it was released as, and what that covers."""

    original: str | int
    released: str
    path: Path = ()  # categorical
    ends: Ends | None = None  # continuous, generalised


@dataclass(frozen=True)
class Case:
    """A table of cells by attribute, the `paths` of each categorical one, a class, and the kept rows."""

    cells: dict[str, list[Cell]]
    paths: dict[str, list[Path]]
    branches: dict[str, Branch]
    classes: list[str]
    weights: dict[str, int]
    kept: list[int]

    @property
    def rows(self) -> int:
        return len(self.classes)

    @property
    def table(self) -> Table:
        columns = {name: [cell.original for cell in cells] for name, cells in self.cells.items()}
        schema = Schema(
            Attribute(name, taxonomy=Taxonomy(self.branches[name]), weight=self.weights[name])
            if name in self.branches
            else Attribute(name, "continuous", weight=self.weights[name])
            for name in self.cells
        )
        return Table(pa.table({**columns, "class": self.classes}), schema)

    @property
    def release(self) -> pa.Table:
        """All rows, in input order."""
        return pa.table({name: [cell.released for cell in cells] for name, cells in self.cells.items()})

    def comparison(self) -> Comparison:
        """The release read back, without the suppressed rows."""
        whole = compare(self.table, self.release, self.cells, "class")
        if len(self.kept) == self.rows:
            return whole
        kept = np.array(self.kept, np.intp)
        released = tuple(without(column, kept) for column in whole.released)
        return dataclasses.replace(whole, released=released, kept=kept)


def without(column: Generalised, kept: NDArray[np.intp]) -> Generalised:
    return dataclasses.replace(column, codes=column.codes[kept])


def collapsed(branch: Branch) -> Branch:
    """The tree with each chain of single children as one node, by its lowest name."""
    while len(branch.children) == 1:
        branch = branch.children[0]
    return Branch(branch.name, tuple(collapsed(child) for child in branch.children))


def paths(branch: Branch, above: Path = ()) -> list[Path]:
    """The way to each leaf, left to right."""
    here = (*above, branch.name)
    return [path for child in branch.children for path in paths(child, here)] if branch.children else [here]


@st.composite
def branches(draw: st.DrawFn, name: str = "n", depth: int = 3) -> Branch:
    width = draw(st.integers(0, 3)) if depth else 0
    return Branch(name, tuple(draw(branches(f"{name}{child}", depth - 1)) for child in range(width)))


@st.composite
def categories(draw: st.DrawFn, ways: list[Path], rows: int) -> list[Cell]:
    chosen = draw(st.lists(st.sampled_from(ways), min_size=rows, max_size=rows))
    return [Cell(path[-1], draw(st.sampled_from(path)), path) for path in chosen]


@st.composite
def numbers(draw: st.DrawFn, rows: int) -> list[Cell]:
    cells = []
    for value in draw(st.lists(st.integers(-4, 9), min_size=rows, max_size=rows)):
        if draw(st.booleans()):
            cells.append(Cell(value, str(value)))
            continue
        lo = draw(st.sampled_from([float("-inf"), value, value - 0.5, value - 2]))
        hi = draw(st.sampled_from([float("inf"), value + 1, value + 0.5, value + 3]))
        cells.append(Cell(value, f"[{lo:g}, {hi:g})", ends=(lo, hi)))
    return cells


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A table of one to three attributes and a class, every cell released in some way that covers it."""
    rows = draw(st.integers(1, 9))
    cells, ways, trees = {}, {}, {}
    for name in ["a", "b", "c"][: draw(st.integers(1, 3))]:
        if draw(st.booleans()):
            trees[name] = draw(branches(f"{name}-"))
            ways[name] = paths(collapsed(trees[name]))
            cells[name] = draw(categories(ways[name], rows))
        else:
            cells[name] = draw(numbers(rows))
    kept = draw(st.one_of(st.just(list(range(rows))), st.sets(st.integers(0, rows - 1)).map(sorted)))
    classes = draw(st.lists(st.sampled_from("xyz"), min_size=rows, max_size=rows))
    weights = {name: draw(st.integers(1, 3)) for name in cells}
    return Case(cells, ways, trees, classes, weights, kept)
