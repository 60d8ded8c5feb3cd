"""The cells of a released column as leaves that an anonymizer can merge, and the cell that covers several of them.

Each different cell is one leaf, whatever it covers, so records that a release does not tell apart stay together.
Categories are leaves under their taxonomy (where a value and its ancestor both occur, the ancestor is a leaf of its own
below itself); where it is not known, all lie below one root. Intervals are ordered by their ends, and a run of them
becomes the smallest interval that covers all: they may overlap, as those of Mondrian do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.data.column import Domain, Generalised
from masquerade.data.continuum import (
    MISSING_CELL,
    Continuum,
    Kind,
    Number,
    read_interval,
    read_number,
    write_interval,
)
from masquerade.data.encode import distinct, missing_rows, texts
from masquerade.data.released_range import released_range
from masquerade.data.schema import Attribute
from masquerade.data.table import Table
from masquerade.data.taxonomy import Branch, Taxonomy
from masquerade.errors import DataError, shown

Range = tuple[int, int]
Ends = tuple[Number, Number]  # those of a single number are equal


@dataclass(frozen=True, eq=False)
class ReleasedCells(ABC):
    """A released column: its different cells in the order of the leaves, and each row's leaf."""

    name: str
    labels: tuple[str, ...]
    leaves: NDArray[np.int64]

    @property
    @abstractmethod
    def attribute(self) -> Attribute:
        """The attribute whose values are the leaves' numbers, for an anonymizer."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What the cells are values of."""

    @abstractmethod
    def cover(self, lo: int, hi: int) -> tuple[str, Range]:
        """Return the cell that covers the leaves `[lo, hi)`, and its ranks in the domain."""

    @property
    def numbers(self) -> pa.Array:
        """Each row's leaf, as a cell of `attribute`."""
        return pa.array(self.leaves)

    def merged(self, column: Generalised) -> Generalised:
        """Write the leaves that an anonymizer merged as cells; different runs may have one cover."""
        found: dict[str, Range] = {}
        covers = []
        for lo, hi in zip(column.lo.tolist(), column.hi.tolist(), strict=True):
            label, covered = self.cover(lo, hi)
            found.setdefault(label, covered)
            covers.append(label)
        code = {label: number for number, label in enumerate(found)}
        codes = np.array([code[label] for label in covers], np.int32).take(column.codes)
        starts, ends = np.array(list(found.values()), np.int64).reshape(-1, 2).T
        return Generalised(self.name, codes, tuple(found), starts, ends, self.domain)


def released_cells(table: Table, name: str, root: str = "*") -> ReleasedCells:
    """Read a column of a release; DataError names a cell that is missing, or no value of the column's taxonomy.

    `root` is above categories whose taxonomy the table's schema does not have.
    """
    column = table.cells(name)
    if (empty := missing_rows(column, ("",))) is not None:
        raise DataError(table.problem("the cell is missing", int(np.argmax(empty)), name))
    codes, values = distinct(column)
    labels: list[str] = texts(values).to_pylist()
    attribute = table.schema[name] if name in table.schema else Attribute(name)
    taxonomy = attribute.taxonomy
    if not isinstance(taxonomy, Taxonomy):
        for kind in _kinds(attribute):
            ends = [_ends(label, kind) for label in labels]
            found = [each for each in ends if each is not None]
            if len(found) == len(ends) and (
                attribute.kind != "categorical" or any(lo < hi for lo, hi in found)
            ):
                return _intervals(name, labels, codes, found, kind)
        taxonomy = _flat(labels, root)
    elif MISSING_CELL in labels and MISSING_CELL not in taxonomy.rank:
        taxonomy = taxonomy.with_missing(MISSING_CELL)
    ranges = [released_range(taxonomy, label) for label in labels]
    unknown = np.array([each is None for each in ranges], bool)
    if unknown.any():
        row = int(np.argmax(unknown[codes]))
        text = f"{shown(labels[codes[row]])} is no value of taxonomy {taxonomy.source}"
        raise DataError(table.problem(text, row, name))
    return _categories(name, labels, codes, [each for each in ranges if each is not None], taxonomy)


def _flat(labels: Iterable[str], root: str) -> Taxonomy:
    """Put one root, which may be among the cells, above cells of which no more is known."""
    values = sorted(set(labels) - {root})
    if len(values) == 1:  # a root with a single child would be that child
        values.append(f"not {values[0]}")
    return Taxonomy.flat(values, root)


# --- categories ---


@dataclass(frozen=True, eq=False)
class _Categories(ReleasedCells):
    tree: Taxonomy  # over the leaves' numbers
    taxonomy: Taxonomy
    ranges: tuple[Range, ...]  # of each leaf

    @property
    def attribute(self) -> Attribute:
        return Attribute(self.name, taxonomy=self.tree)

    @property
    def domain(self) -> Taxonomy:
        return self.taxonomy

    @property
    def numbers(self) -> pa.Array:
        names = pa.array([str(leaf) for leaf in range(len(self.labels))], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(self.leaves, pa.int32()), names)

    def cover(self, lo: int, hi: int) -> tuple[str, Range]:
        """Return the lowest node above the leaves."""
        start = min(each[0] for each in self.ranges[lo:hi])
        end = max(each[1] for each in self.ranges[lo:hi])
        node = self.taxonomy.node(*self.ranges[lo])
        while not (node.lo <= start and end <= node.hi):
            node = self.taxonomy.nodes[node.parent]
        return self.labels[lo] if hi - lo == 1 else node.name, (node.lo, node.hi)


def _categories(
    name: str, labels: Sequence[str], codes: NDArray[np.int32], ranges: Sequence[Range], taxonomy: Taxonomy
) -> _Categories:
    at: dict[Range, list[int]] = {}
    for code, covered in enumerate(ranges):
        at.setdefault(covered, []).append(code)
    order: list[int] = []  # codes, from left to right in the tree
    for node in taxonomy.nodes:
        order += at.get((node.lo, node.hi), [])
    leaf_of = {code: leaf for leaf, code in enumerate(order)}
    branches: dict[int, Branch] = {}
    for position, node in reversed(list(enumerate(taxonomy.nodes))):  # children before their parent
        own = [Branch(str(leaf_of[code])) for code in at.get((node.lo, node.hi), [])]
        below = (*own, *(branches[child] for child in node.children if child in branches))
        if below:
            branches[position] = below[0] if len(below) == 1 else Branch(f"above {position}", below)
    return _Categories(
        name,
        tuple(labels[code] for code in order),
        _by_code(leaf_of).take(codes),
        Taxonomy(branches[0], taxonomy.source),
        taxonomy,
        tuple(ranges[code] for code in order),
    )


# --- numbers and dates ---


@dataclass(frozen=True, eq=False)
class _Intervals(ReleasedCells):
    kind: Kind
    ends: tuple[Ends, ...]  # of each leaf

    @property
    def attribute(self) -> Attribute:
        return Attribute(self.name, "continuous")

    @property
    def domain(self) -> Continuum:
        finite = sorted({lo for lo, _ in self.ends if np.isfinite(lo)})
        lower = min(lo for lo, _ in self.ends)
        return Continuum(np.array(finite), self.kind, lower, max(hi for _, hi in self.ends))

    def cover(self, lo: int, hi: int) -> tuple[str, Range]:
        """Return the smallest interval that covers the leaves and ends where one of the column's does."""
        if hi - lo == 1:
            return self.labels[lo], (0, 0)
        run = self.ends[lo:hi]
        start, end = min(each[0] for each in run), max(each[1] for each in run)
        if (end, end) in run:  # a number is not inside an interval that ends with it
            known = {each for ends in self.ends for each in ends}
            end = min((each for each in known if each > end), default=float("inf"))
        return write_interval(start, end, self.kind), (0, 0)


def _intervals(
    name: str, labels: Sequence[str], codes: NDArray[np.int32], ends: Sequence[Ends], kind: Kind
) -> _Intervals:
    order = sorted(range(len(labels)), key=lambda code: ends[code])
    leaf_of = {code: leaf for leaf, code in enumerate(order)}
    return _Intervals(
        name,
        tuple(labels[code] for code in order),
        _by_code(leaf_of).take(codes),
        kind,
        tuple(ends[code] for code in order),
    )


def _kinds(attribute: Attribute) -> tuple[Kind, ...]:
    """Return the kinds to try: cells do not tell numbers from categories, but intervals they do."""
    return ("date",) if attribute.kind == "date" else ("continuous", "date")


def _ends(label: str, kind: Kind) -> Ends | None:
    if (ends := read_interval(label, kind)) is not None:
        return ends
    try:
        number = read_number(label, kind)
    except ValueError:
        return None
    return (number, number) if np.isfinite(number) else None


def _by_code(leaf_of: dict[int, int]) -> NDArray[np.int64]:
    return np.array([leaf_of[code] for code in range(len(leaf_of))], np.int64)
