"""A coarser release made from an earlier one alone: fewer columns, a larger k, a stricter requirement.

Two releases of the same people can be intersected, unless one of them follows from the other. Here it does: the cells
of the earlier release become leaves (rollup.py), and an anonymizer merges them as it would merge raw values.
Each new group is a union of earlier groups, each new cell covers the earlier one, no record is left out, and nothing
but the earlier release goes in. So whoever has both knows what whoever has the first knows.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from masquerade.anonymize.method import TableMethod, WholeTableMethod
from masquerade.anonymize.mondrian.algorithm import Mondrian
from masquerade.anonymize.preparation import prepare
from masquerade.anonymize.publication import anonymised
from masquerade.anonymize.release import Provenance, VerifiedRelease, shuffled
from masquerade.anonymize.tds.method import TopDownSpecialization
from masquerade.data import (
    MISSING_CELL,
    Attribute,
    Branch,
    Continuum,
    Domain,
    Generalised,
    Kind,
    Number,
    OnStep,
    Outcome,
    Schema,
    Table,
    Taxonomy,
    distinct,
    missing_rows,
    read_interval,
    read_number,
    released_range,
    texts,
    without_unused,
    write_interval,
)
from masquerade.engine import Counts, group_rows, rows_by_rank, value_counts
from masquerade.errors import Bug, DataError, ParameterError, RequirementUnreachable, hint, shown
from masquerade.forms import whole
from masquerade.privacy import GroupRequirement, Requirement, Verdict, limit, plural, qid, verify, without_redundant
from masquerade.utility import AttributeLoss, Comparison, losses_of, ncp

# --- certain records ----------------------------------------------------------------------------------------
# A least size against colluding providers, shown by merging groups of which each withstands them.
#
# When m providers take their records out of an earlier group, at least k₀ records stay, whoever they are;
# of a union of g such groups at least g · k₀ stay. A release does not tell which records those are, and
# nobody needs to know: k₀ of each earlier group are marked, and a new group must have k that are.

MARKS = "stays for certain"  # a column beside the release, which is not published
_MARKED = "yes"


@dataclass(frozen=True)
class CertainRecords(GroupRequirement):
    """Groups in which at least k records are marked; over the groups of `with_marks`.

    Monotone under specialization, as k-anonymity is: a union has the marks of its parts.
    """

    model: ClassVar[str] = "k-anonymity against providers"
    promise = "at least k records in each group, whoever of the providers takes theirs out"
    figure_meaning = "records in the smallest group that stay for certain"
    sensitive = MARKS
    provider_column = MARKS  # for the check, and not to be released

    qid: Sequence[str] = qid()
    k: int = limit(whole(), stricter="larger", symbol="k", example=5, help="records that stay, at least")

    @property
    def limit(self) -> int:
        """k."""
        return self.k

    def figures(self, histogram: Counts, whole: Counts, labels: Sequence[str] = ()) -> Counts:
        """Each group's marked records."""
        marked: Counts = histogram[:, [label == _MARKED for label in labels]].sum(axis=1)
        return marked

    def allows(self, figures: NDArray[Any]) -> NDArray[np.bool_]:
        """At least k marked records."""
        return figures >= self.k

    def complaint(self, figure: float, size: int) -> str:
        """How many stay, and how many must."""
        return f"keeps {plural(int(figure), 'record')} for certain; at least {self.k} are required"


def with_marks(release: pa.Table, names: Sequence[str], least: int) -> pa.Table:
    """Mark `least` records of each group over these columns; each group is known to keep that many."""
    columns = [distinct(release.column(name)) for name in names]
    labels, n_groups = group_rows(((codes, len(values)) for codes, values in columns), release.num_rows)
    order = rows_by_rank(labels, n_groups)
    starts = np.cumsum(value_counts(labels, n_groups)) - value_counts(labels, n_groups)
    place = np.empty(release.num_rows, np.int64)
    place[order] = np.arange(release.num_rows) - starts[labels[order]]
    return release.append_column(MARKS, pa.array(np.where(place < least, _MARKED, "no")))


# --- released cells -----------------------------------------------------------------------------------------
# The cells of a released column as leaves that an anonymizer can merge, and the cell that covers several of
# them.
#
# Each different cell is one leaf, whatever it covers, so records that a release does not tell apart stay
# together. Categories are leaves under their taxonomy (where a value and its ancestor both occur, the
# ancestor is a leaf of its own below itself); where it is not known, all lie below one root. Intervals are
# ordered by their ends, and a run of them becomes the smallest interval that covers all: they may overlap,
# as those of Mondrian do.

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
            if len(found) == len(ends) and (attribute.kind != "categorical" or any(lo < hi for lo, hi in found)):
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


# --- rollup -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unchanged(WholeTableMethod):
    """Merge nothing: the earlier groups, without the columns that are left out, satisfy the requirement."""

    name: ClassVar[str] = "unchanged"
    summary: ClassVar[str] = "leaves every cell as it is"

    def run_on_table(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Release each value as itself."""
        columns = prepare(table, requirement, self).columns
        return Outcome(tuple(column.generalise(np.arange(column.domain.size)) for column in columns))


@dataclass(frozen=True, eq=False)
class _RolledUp:
    """One way to merge the earlier groups, and what it loses against them."""

    method: TableMethod
    columns: tuple[Generalised, ...]
    verdicts: tuple[Verdict, ...]
    losses: dict[str, AttributeLoss]
    comparison: Comparison


def roll_up(
    earlier: Table,
    requirement: Requirement,
    *,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    roots: Mapping[str, str] | None = None,
    provenance: Provenance | None = None,
) -> VerifiedRelease:
    """Make a release of a release. RequirementUnreachable where not even all its records together satisfy.

    The schema of `earlier` has taxonomies where they are known, and `roots` names the roots of others. `columns` are
    those to keep, in their order; None for all. Metrics compare with the earlier release, so 0 lost means that nothing
    was merged.
    """
    started = time.perf_counter()
    known = provenance or Provenance()
    kept = _kept(earlier, requirement, columns, target)
    qid = [name for name in kept if name in requirement.qid_attributes]
    cells = {name: released_cells(earlier, name, (roots or {}).get(name, "*")) for name in qid}
    # The release as a table for an anonymizer: leaves' numbers, and the columns that are not generalised.
    arrays: dict[str, Any] = {name: each.numbers for name, each in cells.items()}
    arrays |= {name: earlier.cells(name) for name in (target, *requirement.special_columns) if name is not None}
    leaves = Table(pa.table(arrays), Schema(each.attribute for each in cells.values()), origin=earlier.origin)
    held = all(verdict.holds for verdict in verify(earlier, requirement))
    ways = [_merged(each, cells, leaves, earlier, requirement) for each in _methods(leaves, requirement, held, target)]
    good = [way for way in ways if all(verdict.holds for verdict in way.verdicts)]
    if not good:
        parts = without_redundant(requirement.parts)
        if all(part.monotone for part in parts):
            raise Bug("a roll-up was made that its requirement refuses; nothing was written")
        texts = [f"{earlier.origin.name}: {part} cannot be reached by merging groups" for part in parts]
        raise RequirementUnreachable(*texts, violated=tuple(map(str, parts)))
    best = min(good, key=lambda way: ncp(way.losses) or 0.0)
    released = {column.name: column.to_arrow() for column in best.columns}
    table = pa.table({name: released.get(name, without_unused(earlier.cells(name))) for name in kept})
    return VerifiedRelease.measured(
        shuffled(table),
        best.verdicts,
        best.comparison,
        best.losses,
        steps=(),
        rows=len(earlier),
        dropped_rows=0,
        dropped=tuple(
            name for name in earlier.arrow.column_names if name not in kept and name not in requirement.provider_columns
        ),
        settings={
            "source": earlier.origin.name,
            "rolled_up": True,
            "merged_by": best.method.settings(),
            "class": target,
            **known.settings,  # with the algorithm of the earlier release, where it is known
        },
        seconds={"read": known.read_seconds, "roll_up": time.perf_counter() - started},
    )


def _kept(
    earlier: Table, requirement: Requirement, columns: Sequence[str] | None, target: str | None
) -> tuple[str, ...]:
    """Return the columns to keep; refuse those that the release does not have, and a requirement over others."""
    there = earlier.arrow.column_names
    kept = tuple(dict.fromkeys(there if columns is None else columns))
    for name in kept:
        if name not in there:
            text = f'no column "{name}"{hint(name, there)}; the release has: {", ".join(there)}'
            raise ParameterError(f"{earlier.origin.name}: {text}")
    special = [name for name in requirement.special_columns if name not in requirement.provider_columns]
    for name in dict.fromkeys([*requirement.qid_attributes, *special, *([target] if target is not None else [])]):
        if name not in kept:
            raise ParameterError(
                f'"{name}" is not among the columns of the roll-up: {", ".join(kept)}; keep it, or leave it out of '
                "the requirement and the class"
            )
    return kept


def _methods(leaves: Table, requirement: Requirement, held: bool, target: str | None) -> Sequence[TableMethod]:
    """Return the methods to compare; when each of them refuses the requirement, the one that shall say why."""
    if held:
        return [Unchanged(target)]
    methods = [Mondrian(target), TopDownSpecialization(target)]
    parts = without_redundant(requirement.parts)
    return [each for each in methods if not any(each.refusals(parts, leaves.schema))] or methods[-1:]


def _merged(
    method: TableMethod, cells: dict[str, ReleasedCells], leaves: Table, earlier: Table, requirement: Requirement
) -> _RolledUp:
    """Merge by one method, and check the cells as they will be published: two runs of leaves may have one cover."""
    made = anonymised(leaves, requirement, method, missing="keep")
    columns = tuple(cells[column.name].merged(column) for column in made.comparison.released)
    published: dict[str, Any] = {column.name: column.to_arrow() for column in columns}
    published |= {name: earlier.cells(name) for name in requirement.special_columns}
    verdicts = verify(Table(pa.table(published), origin=earlier.origin), requirement, bind=False)
    compared = made.comparison
    return _RolledUp(method, columns, verdicts, losses_of(compared), replace(compared, released=columns))
