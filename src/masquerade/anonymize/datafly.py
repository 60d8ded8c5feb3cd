"""Datafly: generalise the attribute with the most different values, step by step, until the requirement holds.

As Jiang and Clifton use it (Algorithm 1), records whose group already satisfies are not generalised further, so one
column may hold a value and its ancestor. Sweeney's Datafly generalises whole columns. Fewer than k records that are
left over at the end are left out, and counted; so are, of records whose group is not generalised further, all that
violate even in one group, where more than its size matters. Within boundaries that would be fewer than k in each of
many small groups, so there they join a group that satisfies, unless whole columns are generalised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.preparation import Prepared, different_qids, prepare, refuse_violating_whole, rows_by_boundary
from masquerade.data import (
    Column,
    Generalised,
    OnStep,
    Outcome,
    Records,
    ReleasedCodes,
    Schema,
    Taxonomy,
    codes_of,
    ranks_of,
)
from masquerade.engine import (
    Arrays,
    Chunk,
    Counts,
    Flags,
    Rows,
    SparseCounts,
    counted_keys,
    group_rows,
    weighted_counts,
    which_occur,
)
from masquerade.errors import DataError, ParameterError, Problem
from masquerade.forms import parameter, switch
from masquerade.privacy import GroupRequirement, Requirement
from masquerade.utility import number_groups

# --- bottom up ----------------------------------------------------------------------------------------------
# Columns that are generalised one step at a time up their taxonomies, as Datafly and its kin do.
#
# Each record has a node of the taxonomy for each attribute, at first its leaf. `climb` finds the attribute
# with the most different values among some records, and moves the most specific of those values one step
# up.


class BottomUpColumns:
    """The columns of one party, each record at its present generalisation."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._attributes = tuple(_Attribute(column) for column in columns)

    def climb(self, rows: Rows) -> str | None:
        """Generalise these records one step. Return the attribute's name, or None when all are at the top.

        The attribute is the one with the most different values, the first one on a tie; its most specific values are
        those deepest in the taxonomy.
        """
        present = [(each, each.present(rows)) for each in self._attributes]
        able = [(each, values) for each, values in present if each.movable[values].any()]
        if not able:
            return None
        widest, values = max(able, key=lambda each: np.count_nonzero(each[1]))  # max takes the first on a tie
        widest.climb(rows, values)
        return widest.name

    def join(self, rows: Rows) -> None:
        """Generalise these records to the lowest values that cover all of them."""
        for each in self._attributes:
            each.join(rows)

    def groups(self, rows: Rows) -> tuple[Counts, int]:
        """Return the group of each of these records, numbered from 0, and the number of groups."""
        codes = ((each.codes[rows], each.size) for each in self._attributes)
        return group_rows(codes, rows.size)

    def released(self, rows: Rows) -> tuple[Generalised, ...]:
        """Return the columns of these records as generalised so far."""
        return tuple(each.released(rows) for each in self._attributes)


class _Attribute:
    """One column: each record's node, by its position in the taxonomy."""

    def __init__(self, column: Column) -> None:
        if not isinstance(column.domain, Taxonomy):
            raise ParameterError(
                f"attribute {column.name}: it is generalised step by step, so it needs a taxonomy; "
                "for a number give a tree of fixed intervals"
            )
        self.name, self._domain = column.name, column.domain
        nodes = column.domain.nodes
        self.size = len(nodes)
        self._parent = np.array([max(node.parent, 0) for node in nodes], np.int32)
        self._depth = np.array([node.depth for node in nodes], np.int32)
        self.movable = self._depth > 0
        if (boundary := column.boundary) is not None:  # whoever is at its boundary stays there
            ends = {*zip(boundary.lo.tolist(), boundary.hi.tolist(), strict=True)}
            self.movable &= np.array([(node.lo, node.hi) not in ends for node in nodes])
        leaves = np.flatnonzero([not node.children for node in nodes]).astype(np.int32)
        self.codes: NDArray[np.int32] = leaves.take(column.ranks)

    def climb(self, rows: Rows, present: Flags) -> None:
        """Move the most specific of the values that are present among these rows one step up."""
        present = present & self.movable
        deepest = self._depth[present].max(initial=0)
        climbs = present & (self._depth == deepest)
        to = np.where(climbs, self._parent, np.arange(self.size, dtype=np.int32))
        self.codes[rows] = to.take(self.codes[rows])

    def join(self, rows: Rows) -> None:
        nodes = self._domain.nodes
        present = [nodes[at] for at in np.flatnonzero(self.present(rows))]
        first, last = min(node.lo for node in present), max(node.hi for node in present)
        at = int(self.codes[rows[0]])
        while nodes[at].lo > first or nodes[at].hi < last:
            at = nodes[at].parent
        self.codes[rows] = at

    def released(self, rows: Rows) -> Generalised:
        nodes = self._domain.nodes
        whole = Generalised(
            self.name,
            self.codes,
            tuple(node.name for node in nodes),
            np.array([node.lo for node in nodes]),
            np.array([node.hi for node in nodes]),
            self._domain,
        )
        return whole.of_rows(rows)

    def present(self, rows: Rows) -> Flags:
        return which_occur(self.codes[rows], self.size)


# --- combinations -------------------------------------------------------------------------------------------
# The different combinations of values that records in chunks have, and how many records have each.
#
# A method that treats equal records alike needs no more. Combinations are numbered over all chunks; there
# may be as many as records, so their number is bounded by the memory of whoever decides.

MOST = 50_000_000  # combinations, of which a few dozen bytes each are held
_NUMBER, _RELEASED = "combination", "released"


@dataclass(frozen=True, eq=False)
class Combinations:
    """The combinations that occur: their values as columns, and the records of each."""

    task: Prepared
    columns: tuple[Column, ...]  # a row for each combination
    times: Counts  # how many records have it
    values: Mapping[str, SparseCounts]  # by sensitive attribute, the records of each (combination, value)
    whole: Mapping[str, Counts]
    labels: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, task: Prepared) -> Combinations:
        """Number the combinations of a task's columns, and count."""
        table, columns = task.records, task.columns
        sensitive = [part.sensitive for part in task.parts if part.sensitive is not None]
        as_they_are = []  # every rank is a value of its own
        for column in columns:
            every = np.arange(column.domain.size)
            names = tuple(column.domain.label(rank, rank + 1) for rank in every.tolist())
            as_they_are.append(Generalised(column.name, np.empty(0, np.int32), names, every, every + 1, column.domain))
        codes = {column.name: ReleasedCodes(ranks_of(column.name)) for column in columns}
        times = number_groups(table, Outcome(tuple(as_they_are), codes=codes), _NUMBER, MOST)
        if times.size > MOST:
            raise DataError.about(
                table.name,
                f"{times.size:,} different combinations of values; this method takes at most {MOST:,} on chunks: "
                'leave attributes out of the QID, or use "tds" or "mondrian"',
            )
        ranked = []
        for column in columns:
            sums = table.chunks.total(partial(_rank_sums, name=ranks_of(column.name), n_combinations=times.size))
            sums /= times
            ranked.append(replace(column, ranks=np.rint(sums, out=sums).astype(np.int32)))
        labels = {name: table.coded[name].labels for name in dict.fromkeys(sensitive)}
        values = {
            name: counted_keys(
                table.chunks,
                partial(_count_values, codes=codes_of(name), n_values=len(known), n_combinations=times.size),
                table.engine,
            )
            for name, known in labels.items()
        }
        return cls(task, tuple(ranked), times, values, table.whole, labels)

    def histograms(self, name: str, rows: Rows, labels: Counts, n_groups: int) -> Counts:
        """Count the values of a sensitive attribute in groups of combinations; `labels` are the groups of `rows`."""
        n_values = len(self.labels[name])
        group = np.full(self.times.size, -1)
        group[rows] = labels
        combination, value = np.divmod(self.values[name].keys, n_values)
        of_pair = group.take(combination)
        there = of_pair >= 0
        keys = of_pair[there] * n_values + value[there]
        counts = weighted_counts(keys, self.values[name].counts[there], n_groups * n_values)
        return counts.astype(np.int64).reshape(n_groups, n_values)

    def outcome(self, released: Sequence[Generalised], rows: Rows | None = None) -> Outcome:
        """Return the outcome for all records, given the released columns of these combinations; None for all."""
        codes = {}
        for column in released:
            of_combination = np.zeros(self.times.size, np.min_scalar_type(max(len(column.labels) - 1, 0)))
            of_combination[slice(None) if rows is None else rows] = column.codes
            codes[column.name] = ReleasedCodes(_NUMBER, of_combination)
        columns = tuple(replace(column, codes=np.empty(0, np.int32)) for column in released)
        if rows is None:
            return self.task.outcome(columns, codes=codes)
        kept = np.zeros(self.times.size, np.uint8)
        kept[rows] = 1
        self.task.records.chunks.change(partial(_keep_rows, kept=kept))
        return self.task.outcome(columns, codes=codes, released=_RELEASED)


def _rank_sums(chunk: Chunk, *, name: str, n_combinations: int) -> NDArray[np.float64]:
    """Add up the ranks of each combination's records: all are the same, so the mean is the rank."""
    return weighted_counts(chunk[_NUMBER], chunk[name], n_combinations)


def _count_values(chunk: Chunk, *, codes: str, n_values: int, n_combinations: int) -> SparseCounts:
    keys = chunk[_NUMBER].astype(np.int64) * n_values + chunk[codes]
    return SparseCounts.of(keys, n_values * n_combinations)


def _keep_rows(chunk: Chunk, *, kept: NDArray[np.uint8]) -> Arrays:
    return {_RELEASED: kept.take(chunk[_NUMBER])}


# --- datafly ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Datafly(TableMethod):
    """Datafly over taxonomies; a continuous attribute needs a tree of fixed intervals.

    With `whole_columns` a column is generalised for all records alike, and fewer than k records that still violate are
    left out. Without, records whose group satisfies are not generalised further.
    """

    name: ClassVar[str] = "datafly"
    summary: ClassVar[str] = (
        "generalises the attribute with the most different values, step by step, until the requirement holds"
    )

    boundaries = "records"
    leaves_out = True
    seconds_per_million: ClassVar[float] = 0.5
    worth_trying: ClassVar[tuple[Mapping[str, Any], ...]] = ({}, {"whole_columns": True})

    whole_columns: bool = parameter(
        switch(), False, help="generalise a column for all records alike, as Sweeney's own Datafly does"
    )

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Requirements under which leaving records out changes other groups; numbers without fixed intervals."""
        for text in different_qids(parts):
            yield Problem(f"{self.name}: {text}")
        for part in parts:
            if part.compares_with_whole:
                yield Problem(
                    f"{self.name}: not possible with {part.model}, which compares with the whole release, and that "
                    "changes with every record that is left out"
                )
        yield from without_steps(self.name, parts, schema)

    def run(self, records: Records, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Generalise the different combinations of values, each of which several records have."""
        task = prepare(records, requirement, self)
        found = Combinations.of(task)
        judge = _Judge(task.parts, found, len(task.records))
        generalised = BottomUpColumns(found.columns)
        n_found = int(found.times.size)
        if self.whole_columns:
            rows = _by_columns(generalised, judge, n_found)
        else:
            rows = _by_records(generalised, judge, n_found)
            if rows.size < n_found and any(column.boundary is not None for column in found.columns):
                _join_leftovers(generalised, judge, rows, rows_by_boundary(found.columns, n_found))
                rows = np.arange(n_found)
        if not rows.size:
            sensitive = {name: (found.whole[name], labels) for name, labels in found.labels.items()}
            refuse_violating_whole(records.name, len(task.records), task.parts, sensitive)
        return found.outcome(generalised.released(rows), None if rows.size == n_found else rows)


def _by_records(generalised: BottomUpColumns, judge: _Judge, n_rows: int) -> Rows:
    """Generalise only records whose group does not satisfy yet. Return the records that satisfy in the end."""
    done = np.zeros(n_rows, bool)
    rest = np.arange(n_rows)
    while rest.size:
        good = judge(rest, *generalised.groups(rest))
        done[rest[good]] = True
        rest = rest[~good]
        if judge.records(rest) < judge.least or generalised.climb(rest) is None:
            break
    return np.flatnonzero(done)


def _join_leftovers(generalised: BottomUpColumns, judge: _Judge, satisfying: Rows, blocks: Sequence[Rows]) -> None:
    """Let each leftover record join the smallest group within its boundaries, so that nobody else is left out.

    A block is what has the same boundaries. Those that cannot satisfy were left out before, so at worst all of a block
    satisfies as one group.
    """
    done = np.zeros(sum(block.size for block in blocks), bool)
    done[satisfying] = True
    for block in blocks:
        finished = block[done[block]]
        if finished.size == block.size:
            continue
        labels, n_groups = generalised.groups(finished)
        smallest = judge.sizes(finished, labels, n_groups).argmin() if n_groups else 0
        generalised.join(np.concatenate([block[~done[block]], finished[labels == smallest]]))
        if not judge(block, *generalised.groups(block)).all():
            generalised.join(block)


def _by_columns(generalised: BottomUpColumns, judge: _Judge, n_rows: int) -> Rows:
    """Generalise all records until fewer than k do not satisfy. Return the records that do."""
    everybody = np.arange(n_rows)
    while True:
        good = judge(everybody, *generalised.groups(everybody))
        violating = judge.records(everybody[~good])
        if violating < max(judge.least, 1) or generalised.climb(everybody) is None:
            return np.flatnonzero(good)


class _Judge:
    """Decides for each combination of values whether its group satisfies every requirement.

    Each row is a combination, and stands for all records that have it.
    """

    def __init__(self, parts: Sequence[GroupRequirement], found: Combinations, n_records: int) -> None:
        self._parts, self._found, self._n_records = parts, found, n_records
        self.least = max((part.required_size or 1 for part in parts), default=1)  # fewer never satisfy

    def __call__(self, rows: Rows, labels: Counts, n_groups: int) -> Flags:
        good, found = np.ones(n_groups, bool), self._found
        sizes = self.sizes(rows, labels, n_groups).reshape(n_groups, 1)
        for part in self._parts:
            if part.sensitive is None:
                good &= part.holds(sizes, np.array([[self._n_records]]), ())
            else:
                histogram = found.histograms(part.sensitive, rows, labels, n_groups)
                good &= part.holds(histogram, found.whole[part.sensitive], found.labels[part.sensitive])
        return good[labels]

    def sizes(self, rows: Rows, labels: Counts, n_groups: int) -> Counts:
        """Return how many records each group of these rows has."""
        return weighted_counts(labels, self._found.times.take(rows), n_groups).astype(np.int64)

    def records(self, rows: Rows) -> int:
        """Return how many records these rows are."""
        return int(self._found.times.take(rows).sum())


def without_steps(name: str, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
    """Refuse numeric QID attributes that have no taxonomy to generalise along."""
    for attribute in schema:
        stepless = attribute.kind != "categorical" and attribute.taxonomy is None
        if stepless and any(attribute.name in part.qid for part in parts):
            yield Problem(
                f"{name} generalises step by step; give a taxonomy, for a number a tree of fixed intervals",
                key=("attributes", attribute.name),
            )
