"""Datafly: generalise the attribute with the most different values, step by step, until the requirement holds.

As Jiang and Clifton use it (Algorithm 1), records whose group already satisfies are not generalised further, so one
column may hold a value and its ancestor. Sweeney's Datafly generalises whole columns. Fewer than k records that are
left over at the end are left out, and counted; so are, of records whose group is not generalised further, all that
violate even in one group, where more than its size matters. Within boundaries that would be fewer than k in each of
many small groups, so there they join a group that satisfies, unless whole columns are generalised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from masquerade.anonymize.bottom_up import BottomUpColumns
from masquerade.anonymize.boundaries import rows_by_boundary
from masquerade.anonymize.chunked.combinations import Combinations
from masquerade.anonymize.method import TableMethod
from masquerade.anonymize.outcome import OnStep, Outcome
from masquerade.anonymize.preparation import (
    different_qids,
    prepare,
    refuse_violating_whole,
)
from masquerade.data.column import Column
from masquerade.data.records import Records
from masquerade.data.schema import Schema
from masquerade.engine.counts import Counts, Rows, weighted_counts
from masquerade.errors import Problem
from masquerade.forms.declared import parameter
from masquerade.forms.rules import switch
from masquerade.privacy.requirement import (
    GroupRequirement,
    Requirement,
)


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
        rows = self._generalise(generalised, judge, found.columns, n_found)
        if not rows.size:
            sensitive = {name: (found.whole[name], labels) for name, labels in found.labels.items()}
            refuse_violating_whole(records.name, len(task.records), task.parts, sensitive)
        return found.outcome(generalised.released(rows), None if rows.size == n_found else rows)

    def _generalise(
        self, generalised: BottomUpColumns, judge: _Judge, columns: Sequence[Column], n_rows: int
    ) -> Rows:
        """Generalise the rows, and return those that satisfy in the end."""
        if self.whole_columns:
            return _by_columns(generalised, judge, n_rows)
        rows = _by_records(generalised, judge, n_rows)
        if rows.size == n_rows or all(column.boundary is None for column in columns):
            return rows
        _join_leftovers(generalised, judge, rows, rows_by_boundary(columns, n_rows))
        return np.arange(n_rows)


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


def _join_leftovers(
    generalised: BottomUpColumns, judge: _Judge, satisfying: Rows, blocks: Sequence[Rows]
) -> None:
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

    def __call__(self, rows: Rows, labels: Counts, n_groups: int) -> NDArray[np.bool_]:
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
