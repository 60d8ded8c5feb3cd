"""The tree of a sensitive attribute's values, by which some are nearer to each other than others.

It is a parameter of a requirement, so that whoever holds the requirement can check it: as rows `leaf;parent;…;root`,
which a contract can hold. Rows are sorted, because the order of leaves makes no difference.

Li, Li and Venkatasubramanian (2007): two values are as far apart as their lowest common ancestor is high, beside the
height of the tree. That is the length of the path between them when every edge is as long as its ends differ in
height, over twice the height of the tree. On a tree the earth mover carries what a subtree has too much over the edge
above it, so the distance of two distributions is a sum over edges, of length times surplus. The sum is the paper's.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data.encode import MISSING_VALUES
from masquerade.data.taxonomy import Taxonomy
from masquerade.data.taxonomy_csv import outline_of_rows
from masquerade.errors import ParameterError, TaxonomyError, hint, shown
from masquerade.forms.declared import parameter
from masquerade.forms.rules import Rule, optional

Rows = tuple[str, ...]

_LISTED = 10  # values that an error names


def taxonomy(help: str) -> Any:
    """Declare the tree of the sensitive values; in a job file it is the attribute's taxonomy."""
    schema = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}
    return parameter(
        optional(Rule('a taxonomy: a list of rows "leaf;parent;…;root"', _checked, schema)), None, help=help
    )


def rows_of(tree: Taxonomy) -> Rows:
    """Write a taxonomy as sorted rows."""
    return tuple(sorted(_row(tree, leaf) for leaf in tree.leaves))


def edges_above(rows: Rows, labels: Sequence[str], name: str) -> NDArray[np.float64]:
    """A row a label and a column an edge that leads to some of them: its length where it leads to this one, else 0.

    A missing cell hangs on the root. ParameterError tells which labels of the attribute are no leaf of the tree.
    """
    tree = _tree(rows)
    unknown = [label for label in labels if label not in tree.rank and label not in MISSING_VALUES]
    if unknown:
        more = f" and {len(unknown) - _LISTED} more" if len(unknown) > _LISTED else ""
        named = ", ".join(map(shown, unknown[:_LISTED])) + more
        text = f"the taxonomy of {name} lacks {named}{hint(unknown[0], tree.rank)}"
        raise ParameterError(text)
    return _edges(rows, tuple(labels))


def edges_by_path(rows: Rows) -> tuple[list[tuple[str, int, int]], int]:
    """The leaves below each edge with its number and length, from the rows alone; the unit is what counts as 1.

    It is for the check in SQL, which shares nothing with the other.
    """
    paths = [tuple(next(csv.reader([row], delimiter=";"))) for row in rows]
    heights: dict[tuple[str, ...], int] = {}
    for path in paths:
        for at in range(len(path)):
            heights[path[at:]] = max(heights.get(path[at:], 0), at)
    number = {node: at for at, node in enumerate(heights)}
    height = max(heights.values())
    edges = [
        (path[0], number[path[at:]], heights[path[at + 1 :]] - heights[path[at:]])
        for path in paths
        for at in range(len(path) - 1)
    ]
    leaves = {path[0] for path in paths}
    absent = [value for value in ("", "?") if value not in leaves]
    edges += [(value, len(number) + at, max(height, 1)) for at, value in enumerate(absent)]
    return edges, 2 * max(height, 1)


@lru_cache(maxsize=64)
def _edges(rows: Rows, labels: tuple[str, ...]) -> NDArray[np.float64]:
    tree = _tree(rows)
    height = max(tree.height, 1)
    lengths = [
        (node.lo, node.hi, (tree.nodes[node.parent].height - node.height) / (2 * height))
        for node in tree.nodes[1:]
    ]
    places = [tree.rank.get(label, -1) for label in labels]
    columns = [[length * (lo <= at < hi) for at in places] for lo, hi, length in lengths]
    columns += [
        [0.5 * (other == at) for other in range(len(labels))] for at, place in enumerate(places) if place < 0
    ]
    used = [column for column in columns if any(column)]
    return np.array(used, float).reshape(len(used), len(labels)).T


@lru_cache(maxsize=64)
def _tree(rows: Rows) -> Taxonomy:
    return Taxonomy(outline_of_rows("\n".join(rows), "taxonomy").branch())


def _checked(value: Any) -> Rows:
    if isinstance(value, Taxonomy):
        return rows_of(value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError
    rows = tuple(value)
    if not rows or not all(isinstance(row, str) and row for row in rows):
        raise ValueError
    try:
        return rows_of(_tree(rows))
    except TaxonomyError as error:
        raise ValueError(f"a taxonomy ({error.problems[0]})") from None


def _row(tree: Taxonomy, leaf: str) -> str:
    path, at = [leaf], tree.find(leaf).parent
    while at >= 0:
        path.append(tree.nodes[at].name)
        at = tree.nodes[at].parent
    written = io.StringIO()
    csv.writer(written, delimiter=";", lineterminator="").writerow(path)
    return written.getvalue()
