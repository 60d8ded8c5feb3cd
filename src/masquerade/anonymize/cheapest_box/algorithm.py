"""Cheapest box first: make the group that loses least, then the next, of the records that are left.

Each group is a box: one value for each attribute. Boxes of different groups may overlap, so one column holds values of
all levels, as after Mondrian; unlike Mondrian's, groups need not come from cutting a larger one, and lose less. Equal
records are always in one group. Requirements whose QIDs share attributes are reached together, by groups over all their
attributes that satisfy each of them; QIDs without a common attribute are recoded apart from each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from masquerade.anonymize.blocks import blocks
from masquerade.anonymize.cheapest_box.leftovers import with_everybody
from masquerade.anonymize.cheapest_box.levels import levels_of
from masquerade.anonymize.cheapest_box.search import cheapest_boxes
from masquerade.anonymize.cheapest_box.space import Boxes, distinct_records
from masquerade.anonymize.cheapest_box.vectors import vectors_of
from masquerade.anonymize.method import WholeTableMethod
from masquerade.anonymize.mondrian.groups import released_column
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.anonymize.mondrian.qids import judge_of, linked
from masquerade.anonymize.outcome import OnStep, Outcome
from masquerade.anonymize.preparation import Prepared, prepare
from masquerade.data.column import Coded, Column, Generalised
from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.engine.counts import Counts, Rows
from masquerade.errors import Problem
from masquerade.forms.declared import parameter
from masquerade.forms.rules import number
from masquerade.privacy.requirement import GroupRequirement, Requirement

_BLOCK = 1 << 14  # rows that are searched at once, at least; twice as many need no blocks


@dataclass(frozen=True)
class CheapestBox(WholeTableMethod):
    """Local recoding by the cheapest box that satisfies.

    `purity` is what a box costs more when it mixes classes: that much of an attribute's whole range, times the share
    of its records outside its largest class. It counts only where there is a class.
    """

    name: ClassVar[str] = "cheapest-box"
    summary: ClassVar[str] = (
        "makes the group that loses least, then the next of the records that are left: finer cells than Mondrian's, "
        "in groups that may overlap"
    )
    answers_queries: ClassVar[bool] = True
    boundaries = "records"
    seconds_per_million: ClassVar[float] = 10.0

    purity: float = parameter(
        number(0, 100),
        1.0,
        help="with a class: what a group costs more the more it mixes classes; 0 ignores them",
    )

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Requirements that are not monotone, over fewer attributes than those they are linked to."""
        for each in linked(parts):
            yield from refuse_not_monotone(each, self.name)

    def run_on_table(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Recode the attributes of each set of linked QIDs."""
        task = prepare(table, requirement, self)
        classes = task.here(table.coded(self.target)) if self.target is not None and self.purity else None
        released = {
            column.name: column
            for parts in linked(task.parts)
            for column in self._recoded(task, parts, classes, task.n_rows)
        }
        return task.outcome(released[column.name] for column in task.columns)

    def _recoded(
        self, task: Prepared, parts: Sequence[GroupRequirement], classes: Coded | None, n_rows: int
    ) -> Iterator[Generalised]:
        columns = [column for column in task.columns if any(column.name in part.qid for part in parts)]
        judge = judge_of(parts, task.sensitive, n_rows)
        groups, n_groups = np.empty(n_rows, np.int64), 0
        cells = []
        for rows in blocks(columns, parts, task, _BLOCK):
            of_row, lo, hi = _recode(columns, rows, judge, classes, self.purity)
            groups[rows] = of_row + n_groups
            n_groups += lo.shape[1]
            cells.append((lo, hi))
        lo, hi = (np.concatenate(ends, axis=1) for ends in zip(*cells, strict=True))
        for column, first, after in zip(columns, lo, hi, strict=True):
            yield released_column(column, first, after, groups)


def _recode(
    columns: Sequence[Column], rows: Rows, judge: Judge, classes: Coded | None, purity: float
) -> tuple[Counts, Counts, Counts]:
    """Return the group of each of these rows, and the ranks `[lo, hi)` of each group's cells, attribute × group."""
    levels = [levels_of(column) for column in columns]
    records = distinct_records(levels, rows, judge, classes)
    vectors = vectors_of(levels, records, judge.least)
    groups, n_groups = cheapest_boxes(records, Boxes(levels, records, vectors), judge, purity)
    groups, lo, hi = with_everybody(levels, records, groups, n_groups, judge)
    return groups[records.of_row], lo, hi


def refuse_not_monotone(parts: Sequence[GroupRequirement], method: str) -> Iterator[Problem]:
    """Refuse non-monotone requirements over several QIDs, as each is tested only on groups finer than its own."""
    attributes = {name for part in parts for name in part.qid}
    for part in parts:
        if not part.monotone and set(part.qid) != attributes:
            yield Problem(
                f"{method}: {part.model} over {', '.join(part.qid)} is not monotone, so it must be over all attributes "
                f"of the requirements: {', '.join(sorted(attributes))}"
            )
