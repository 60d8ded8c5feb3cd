"""What a workload asks of a release: the subpopulations that its queries select, and the edges of its predicates.

A predicate on an attribute holds for some of the attribute's ranks. Where it begins or ends to hold is an **edge**; the
ranks between two neighbouring edges are the attribute's part of the min-terms, which no query of the workload tells
apart. A release whose cells cross no edge answers every selection exactly.

Of a cell that crosses an edge nobody can tell whether its record is meant. Precision takes every record that a query
*may* mean: which share of them it does mean. Recall takes those that it means *for certain*: which share they are of
all that it means. Both are 1 where the selection is exact.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.data import (
    KEPT,
    MISSING_CELL,
    All,
    Attribute,
    AttributeKind,
    Compared,
    Condition,
    Continuum,
    Domain,
    Generalised,
    Kind,
    Not,
    Outcome,
    QueryLog,
    Some,
    Table,
    TablePart,
    Wanted,
    comparisons,
    complete_rows,
    encode,
    read_interval,
    read_number,
)
from masquerade.engine import Chunk, Counts, Flags, Rows
from masquerade.errors import BadInput, Problem
from masquerade.forms import file, optional, parameter
from masquerade.utility.comparison import WORKLOAD, Comparison


def workload(help: str) -> Any:
    """Declare the parameter `workload`."""
    return parameter(optional(file('a file of SQL queries, such as "queries.sql"')), None, help=help)


def workload_problems(path: str | None) -> Iterator[Problem]:
    """Say what is wrong with the file, if one is named."""
    if path is not None:
        from masquerade.data import kept_query_log  # few jobs have one

        try:
            kept_query_log(path)
        except BadInput as error:
            yield from (problem.within("", (WORKLOAD,)) for problem in error.problems)


# --- workload -----------------------------------------------------------------------------------------------

_DECIMALS = 4


@dataclass(frozen=True, eq=False)
class Chance:
    """For each of some things, whether a condition may hold, and whether it does for certain."""

    may: Flags
    must: Flags


def ranks_where(compared: Compared, domain: Domain, kind: AttributeKind) -> Chance | None:
    """Return for which ranks of a domain a comparison holds; None where that cannot be known."""
    if compared.operator == "missing":
        return _sure(_missing(domain))
    if isinstance(domain, Continuum):
        found = _of_numbers(compared, domain.values, kind)
        return None if found is None else _sure(np.concatenate([np.zeros(domain.first, bool), found]))
    if domain.edges is not None:
        return _of_intervals(compared, np.array(domain.edges, np.float64), kind)
    if kind != "categorical" and any(read_interval(leaf, _scale(kind)) for leaf in domain.leaves):
        return None  # intervals with a leaf for missing cells among them
    if compared.operator == "=" and (cell := domain.range_of(compared.value)) is not None:
        ranks = np.arange(domain.size)
        return _sure((ranks >= cell[0]) & (ranks < cell[1]))
    return _sure(_of_texts(compared, domain.leaves))


def edges_of(
    log: QueryLog, known: Sequence[str], domains: Mapping[str, tuple[Domain, AttributeKind]]
) -> dict[str, Counts]:
    """Return the ranks of each attribute at which a predicate of the log begins or ends to hold, in order.

    `known` are the columns that the log may name; another is a DataError.
    """
    meant = log.check_columns(known)
    found: dict[str, set[int]] = {}
    asked = {each for query in log.queries for wanted in query.wanted for each in comparisons(wanted)}
    for each in asked:
        name = meant.get(each.column)
        if name is None or name not in domains:
            continue
        chance = ranks_where(each, *domains[name])
        for flags in () if chance is None else (chance.may, chance.must):
            found.setdefault(name, set()).update((np.flatnonzero(np.diff(flags)) + 1).tolist())
    return {name: np.array(sorted(edges), np.int64) for name, edges in found.items() if edges}


@dataclass(frozen=True)
class Selections:
    """How exactly a release answers the selections of a workload, on average over its queries."""

    queries: int
    precision: float | None
    recall: float | None
    exact: float | None  # the share of the queries that mean the same records as on the original
    not_measured: int  # selections that ask for what one table does not tell

    def summary(self) -> dict[str, float | int | None]:
        """Return the entry of a JSON summary."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class SelectionMeasurer:
    """The selections of a log on one table, whose rows are all complete."""

    table: Table
    log: QueryLog

    def measure(self, comparison: Comparison) -> Selections:
        """Hold the records that each selection means in the release against those that it means in the table."""
        return selections_of(self.log, self.counts(comparison))

    def counts(self, comparison: Comparison) -> Counts:
        """Count the records of each different selection, in the order of the log; counts of chunks add up.

        A row has the records that it means; those of the release that it may mean, means for certain, and may mean and
        does; and 1 where one table cannot tell them.
        """
        released = {column.name: column for column in comparison.released}
        rows: list[list[int]] = []
        for wanted in _different(self.log):
            truth = self._meant(wanted, {}, comparison)
            chance = self._meant(wanted, released, comparison)
            if truth is None or chance is None:
                rows.append([0, 0, 0, 0, 1])
                continue
            here = truth.must if comparison.kept is None else truth.must[comparison.kept]
            flags = (truth.must, chance.may, chance.must, here & chance.may)
            rows.append([*(int(np.count_nonzero(each)) for each in flags), 0])
        return np.array(rows, np.int64).reshape(-1, 5)

    @cached_property
    def _names(self) -> dict[str, str]:
        return self.log.check_columns([*self.table.arrow.column_names, *self.table.schema.identifiers])

    def _meant(
        self, condition: Condition, released: Mapping[str, Generalised], comparison: Comparison
    ) -> Chance | None:
        """Return which rows a condition means: by the released columns, as they are, and by the others raw."""
        if isinstance(condition, Compared):
            return self._compared(condition, released, comparison)
        if isinstance(condition, Not):
            part = self._meant(condition.part, released, comparison)
            return None if part is None else Chance(~part.must, ~part.may)
        if isinstance(condition, All | Some):
            return self._joined(condition, released, comparison)
        return None

    def _joined(
        self, condition: All | Some, released: Mapping[str, Generalised], comparison: Comparison
    ) -> Chance | None:
        joined = np.logical_and if isinstance(condition, All) else np.logical_or
        by_attribute: dict[str, list[Compared]] = {}
        others: list[Condition] = []
        for part in condition.parts:
            name = self._names.get(part.column) if isinstance(part, Compared) else None
            if isinstance(part, Compared) and name is not None and name in released:
                by_attribute.setdefault(name, []).append(part)
            else:
                others.append(part)
        chances = [self._meant(part, released, comparison) for part in others]
        for name, parts in by_attribute.items():  # ranges of one attribute are joined before cells are asked
            kind = self.table.schema[name].kind
            found = [ranks_where(part, released[name].domain, kind) for part in parts]
            ranks = [each for each in found if each is not None]
            if len(ranks) < len(found):
                return None
            both = Chance(joined.reduce([each.may for each in ranks]), joined.reduce([each.must for each in ranks]))
            chances.append(_of_cells(both, released[name]))
        known = [each for each in chances if each is not None]
        if len(known) < len(chances):
            return None
        return Chance(joined.reduce([each.may for each in known]), joined.reduce([each.must for each in known]))

    def _compared(
        self, compared: Compared, released: Mapping[str, Generalised], comparison: Comparison
    ) -> Chance | None:
        name = self._names.get(compared.column)
        if name is None:
            return None
        if name in released:
            ranks = ranks_where(compared, released[name].domain, self.table.schema[name].kind)
            return None if ranks is None else _of_cells(ranks, released[name])
        flags = self._rows_where(name, compared)
        if flags is None:
            return None
        if released and comparison.kept is not None:
            flags = flags[comparison.kept]
        return _sure(flags)

    def _rows_where(self, name: str, compared: Compared) -> Flags | None:
        """Return for which rows a comparison holds on the raw cells."""
        table = self.table
        if name not in table.arrow.column_names:  # an identifier is not in the release
            return None
        attribute = table.schema[name] if name in table.schema.names else Attribute(name)
        if attribute.kind == "categorical":
            if attribute.taxonomy is not None:
                column = table.column(name)
                ranks = ranks_where(compared, column.domain, "categorical")
                return None if ranks is None else ranks.must[column.ranks]
            coded = table.coded(name)
            if compared.operator == "missing":
                return np.array([label == MISSING_CELL for label in coded.labels], bool)[coded.codes]
            return _of_texts(compared, coded.labels)[coded.codes]
        plain = Attribute(
            name,
            attribute.kind,
            format=attribute.format,
            decimal=attribute.decimal,
            thousands=attribute.thousands,
            unit=attribute.unit,
        )
        raw = encode(plain, table.cells(name), table.problem, keep_missing=table.keeps_missing)
        found = ranks_where(compared, raw.domain, attribute.kind)
        return None if found is None else found.must[raw.ranks]


def selections(comparison: Comparison, table: Table | None, log: QueryLog) -> Selections:
    """Return how exactly a release answers which records a log's selections mean.

    `table` has the rows of the comparison; where they are in chunks, each is read once more.
    """
    if comparison.in_chunks is None:
        assert table is not None
        return SelectionMeasurer(table, log).measure(comparison)
    records, outcome = comparison.in_chunks.records, comparison.in_chunks.outcome
    kernels = [
        partial(_count_selections, part=part, wanted=records.wanted, outcome=outcome, log=log) for part in records.parts
    ]
    counts: Counts = np.sum(records.chunks.each(kernels), axis=0)
    return selections_of(log, counts)


def _count_selections(chunk: Chunk, *, part: TablePart, wanted: Wanted, outcome: Outcome, log: QueryLog) -> Counts:
    """Count what a log's selections mean among the records of a chunk, which are read once more."""
    complete = complete_rows(part, wanted)
    rows = outcome.rows(chunk)
    released = tuple(
        replace(column, codes=_of_rows(rows, outcome.codes[column.name](chunk))) for column in outcome.columns
    )
    kept = None
    if (source := chunk.get(KEPT)) is not None or rows is not None:
        here = complete.source_rows
        everybody = np.arange(len(complete)) if here is None else here
        kept = np.searchsorted(everybody, _of_rows(rows, everybody if source is None else source))
    return SelectionMeasurer(complete, log).counts(Comparison((), released, None, kept, {}))


def _of_rows(rows: Rows | None, values: NDArray[Any]) -> NDArray[Any]:
    return values if rows is None else values.take(rows)


def selections_of(log: QueryLog, counts: Counts) -> Selections:
    """Return how exactly selections are answered, given the counts of each different one."""
    figures = []
    for times, (meant, may, must, right, unknown) in zip(_different(log).values(), counts.tolist(), strict=True):
        if not unknown:
            precision, recall = right / may if may else 1.0, must / meant if meant else 1.0
            figures += [(precision, recall, float(may == must == meant))] * times
    not_measured = sum(_different(log).values()) - len(figures)
    if not figures:
        return Selections(0, None, None, None, not_measured)
    precision, recall, exact = (round(float(mean), _DECIMALS) for mean in np.mean(figures, axis=0))
    return Selections(len(figures), precision, recall, exact, not_measured)


def _different(log: QueryLog) -> Counter[Condition]:
    """Count how often each selection is asked for."""
    return Counter(wanted for query in log.queries for wanted in query.wanted)


def _sure(flags: Flags) -> Chance:
    return Chance(flags, flags)


def _of_cells(ranks: Chance, column: Generalised) -> Chance:
    """Return for each row whether some, and whether all, of its cell's ranks are meant."""
    some, every = (np.concatenate([[0], np.cumsum(flags)]) for flags in (ranks.may, ranks.must))
    may = some[column.hi] > some[column.lo]
    must = every[column.hi] - every[column.lo] == column.hi - column.lo
    return Chance(may[column.codes], must[column.codes])


def _missing(domain: Domain) -> Flags:
    if isinstance(domain, Continuum):
        return np.arange(domain.size) < domain.first
    return np.array([leaf == MISSING_CELL for leaf in domain.leaves], bool)


def _compare(values: NDArray[Any], operator: str, value: Any) -> Flags:
    compare = {"=": np.equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
    flags: Flags = compare[operator](values, value)
    return flags


def _scale(kind: AttributeKind) -> Kind:
    return "date" if kind == "date" else "continuous"


def _of_numbers(compared: Compared, values: NDArray[Any], kind: AttributeKind) -> Flags | None:
    try:
        number = read_number(compared.value, _scale(kind))
    except ValueError:
        return None
    return None if compared.operator == "like" else _compare(values, compared.operator, number)


def _of_texts(compared: Compared, labels: Iterable[str]) -> Flags:
    """Compare texts; as numbers where all of them and the value are."""
    texts = list(labels)
    if compared.operator == "like":
        pattern = "".join({"%": ".*", "_": "."}.get(sign, re.escape(sign)) for sign in compared.value)
        matches = re.compile(pattern, re.DOTALL)
        return np.array([matches.fullmatch(text) is not None for text in texts], bool)
    try:
        numbers = np.array([float(text) for text in texts])
        return _compare(numbers, compared.operator, float(compared.value))
    except ValueError:
        return _compare(np.array(texts, object), compared.operator, compared.value).astype(bool)


def _of_intervals(compared: Compared, edges: NDArray[np.float64], kind: AttributeKind) -> Chance | None:
    """Return of which fixed intervals some numbers, and of which all numbers, are meant."""
    try:
        value = read_number(compared.value, _scale(kind))
    except ValueError:
        return None
    lo, hi = edges[:-1], edges[1:]
    chances = {
        "=": ((lo <= value) & (value < hi), np.zeros(lo.size, bool)),
        "<": (lo < value, hi <= value),
        "<=": (lo <= value, hi <= value),
        ">": (hi > value, lo > value),
        ">=": (hi > value, lo >= value),
    }
    return Chance(*chances[compared.operator]) if compared.operator in chances else None
