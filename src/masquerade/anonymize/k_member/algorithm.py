"""Greedy k-member clustering (Byun et al.) and GreedyCKA, which runs it within boundaries of generalisation.

Clusters are made over all attributes of all QIDs together, and each satisfies every requirement; so do the groups of
each QID, which are unions of clusters. Large tables are cut into blocks first, because clustering takes time with the
square of the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from masquerade.anonymize.blocks import blocks
from masquerade.anonymize.cheapest_box.algorithm import refuse_not_monotone
from masquerade.anonymize.cheapest_box.groups import NONE, merged_by_cells
from masquerade.anonymize.cheapest_box.leftovers import join_cheapest, with_everybody
from masquerade.anonymize.cheapest_box.space import Records
from masquerade.anonymize.k_member.growth import clusters
from masquerade.anonymize.k_member.losses import levels_by_height, losses_of
from masquerade.anonymize.k_member.variety import Variety
from masquerade.anonymize.method import TableMethod, WholeTableMethod
from masquerade.anonymize.mondrian.groups import released_column
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.anonymize.mondrian.qids import judge_of
from masquerade.anonymize.outcome import OnStep, Outcome
from masquerade.anonymize.preparation import Prepared, prepare
from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.engine.counts import Counts, Ints, Rows, value_counts
from masquerade.engine.numbering import renumber
from masquerade.errors import Problem, RequirementUnreachable
from masquerade.privacy.requirement import Conjunction, GroupRequirement, Requirement

_BLOCK = 1 << 13  # rows that are clustered at once, at least; twice as many need no blocks
_SEED = 7


@dataclass(frozen=True)
class KMember(WholeTableMethod):
    """Clusters of at least k records, each grown by the record that it loses least with.

    It pays no attention to boundaries of generalisation; `violations` counts the cells that go beyond them.
    """

    name: ClassVar[str] = "k-member"
    summary: ClassVar[str] = (
        "grows clusters of k records, each by the record that it loses least with: fine cells, and slow on large tables"
    )
    answers_queries: ClassVar[bool] = True
    seconds_per_million: ClassVar[float] = 20.0

    seed: int = field(default=_SEED, kw_only=True)  # of the first record

    def seeded(self, seed: int) -> TableMethod:
        """Start at another record."""
        return replace(self, seed=seed)

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Requirements that are not monotone over fewer attributes than all; and those about boundaries."""
        yield from refuse_not_monotone(parts, self.name)
        for part in parts:
            if part.within_boundaries:
                yield Problem(
                    f"{self.name} pays no attention to the boundaries of {part.model}; use greedy-cka"
                )

    def run_on_table(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Cluster block by block."""
        task = prepare(table, requirement, self)
        judge = judge_of(task.parts, task.sensitive, task.n_rows)
        groups, lo, hi = _clustered(task, judge, self.seed, everybody=True)
        return task.outcome(
            released_column(column, first, after, groups)
            for column, first, after in zip(task.columns, lo, hi, strict=True)
        )


@dataclass(frozen=True)
class GreedyCka(KMember):
    """GreedyCKA: k-member clustering of the records that have the same boundaries.

    Records that cannot satisfy within them are left out. For k-anonymity those are exactly OUT, the fewest possible.
    """

    name: ClassVar[str] = "greedy-cka"
    summary: ClassVar[str] = (
        "grows clusters of k records within the boundaries of generalisation, and leaves out those that fit in none"
    )
    boundaries = "parts"

    def refusals(self, parts: Sequence[GroupRequirement], schema: Schema) -> Iterator[Problem]:
        """Tables without boundaries, too."""
        yield from refuse_not_monotone(parts, self.name)
        names = dict.fromkeys(name for part in parts for name in part.qid)
        if not any(name in schema and schema[name].is_bounded for name in names):
            yield Problem(
                f"{self.name} keeps to boundaries, and no attribute of the QID has max_generalization or max_width; "
                "give one, or use k-member"
            )

    def run_on_table(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Cluster block by block, and leave out what satisfies nowhere."""
        task = prepare(table, requirement, self)
        judge = judge_of(task.parts, task.sensitive, task.n_rows)
        groups, lo, hi = _clustered(task, judge, self.seed, everybody=False)
        kept = _still_satisfying(task, groups, lo.shape[1])
        if not kept.size:
            raise RequirementUnreachable(
                f"{table.origin.name}: {Conjunction(task.parts)} cannot be reached within max_generalization and "
                "max_width; allow more, or ask for less",
                violated=tuple(map(str, task.parts)),
            )
        everybody = kept.size == groups.size
        return task.outcome(
            (
                released_column(column, first, after, groups[kept])
                for column, first, after in zip(task.columns, lo, hi, strict=True)
            ),
            kept=None if everybody else kept,
        )


def _clustered(task: Prepared, judge: Judge, seed: int, *, everybody: bool) -> tuple[Counts, Counts, Counts]:
    """Return each row's group, and the ranks `[lo, hi)` of each group's cells, attribute × group.

    With `everybody` each row has one, as it has where its whole block satisfies; otherwise those that no cluster can
    take have `NONE`.
    """
    random = np.random.default_rng(seed)
    losses = [losses_of(column) for column in task.columns]
    levels = [levels_by_height(column) for column in task.columns]
    variety = Variety(task.parts, task.sensitive, task.n_rows, judge)
    groups, n_groups = np.full(task.n_rows, NONE, np.int64), 0
    cells = [np.zeros((2, len(task.columns), 0), np.int64)]
    for rows in blocks(task.columns, task.parts, task, _BLOCK):
        of_row, n_clusters = clusters(task.columns, losses, rows, judge.least, variety, random)
        records = _records(task, judge, rows)
        if everybody or judge.holds(tuple(each.sum(axis=0, keepdims=True) for each in records.counts))[0]:
            of_row, lo, hi = with_everybody(levels, records, of_row, n_clusters, judge)
        elif n_clusters:
            join_cheapest(levels, records, of_row, n_clusters, judge)
            some = np.flatnonzero(of_row != NONE)
            merged, made = merged_by_cells(levels, records.of_records(some), of_row[some])
            good = judge.holds(made.counts)  # groups with equal cells are one
            of_row[some] = np.where(good[merged], merged, NONE)
            lo, hi = made.cells()
        else:
            continue
        groups[rows] = np.where(of_row == NONE, NONE, of_row + n_groups)
        n_groups += lo.shape[1]
        cells.append(np.stack([lo, hi]))
    lo, hi = np.concatenate(cells, axis=2)
    return groups, lo, hi


def _records(task: Prepared, judge: Judge, rows: Rows) -> Records:
    """Return these rows as records of their own: equal ones may be in different clusters."""
    everyone, ones = np.arange(rows.size), np.ones(rows.size, np.int64)
    ranks = np.stack([column.ranks.take(rows) for column in task.columns]).astype(np.int64)
    return Records(ranks, ones, judge.count(lambda: everyone, rows, ones), None, everyone)


def _still_satisfying(task: Prepared, groups: Counts, n_groups: int) -> Rows:
    """Return the rows whose groups satisfy when just they are released: some requirements compare with all of them."""
    kept = np.flatnonzero(groups != NONE)
    if not any(part.compares_with_whole for part in task.parts):
        return kept
    while kept.size:
        sensitive = {name: coded.of_rows(kept) for name, coded in task.sensitive.items()}
        judge = judge_of(task.parts, sensitive, int(kept.size))
        labels, found = renumber(groups[kept], n_groups)
        counts = judge.count(partial(_same, labels), np.arange(kept.size), value_counts(labels, found.size))
        good = judge.holds(counts)
        if good.all():
            break
        kept = kept[good[labels]]
    return kept


def _same(labels: Ints) -> Ints:
    return labels
