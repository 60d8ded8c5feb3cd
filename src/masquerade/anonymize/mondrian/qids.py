"""Several QIDs: those that share attributes are cut together, all others apart from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from masquerade.anonymize.mondrian.axes import axes_of
from masquerade.anonymize.mondrian.judge import Judge, Merge
from masquerade.anonymize.mondrian.linked_qids import cut_linked
from masquerade.anonymize.mondrian.partition import Choice, partition
from masquerade.anonymize.mondrian.predicate_axes import predicate_axes_of
from masquerade.anonymize.preparation import Prepared
from masquerade.data.column import Coded, Column, Generalised
from masquerade.engine.counts import Counts
from masquerade.privacy.requirement import GroupRequirement


def linked(parts: Sequence[GroupRequirement]) -> list[list[GroupRequirement]]:
    """Return the requirements whose QIDs are linked by common attributes, together."""
    linked: list[list[GroupRequirement]] = []
    for part in parts:
        near = [each for each in linked if any(set(part.qid) & set(other.qid) for other in each)]
        linked = [each for each in linked if each not in near]
        linked.append([*(other for each in near for other in each), part])
    return linked


def judge_of(
    parts: Sequence[GroupRequirement],
    sensitive: Mapping[str, Coded],
    n_rows: int,
    classes: Coded | None = None,
    merge: Merge = "violating",
) -> Judge:
    """Return the judge of requirements on one QID, which counts just the sensitive attributes that they name."""
    named = {part.sensitive for part in parts}
    counted = {name: coded for name, coded in sensitive.items() if name in named}
    return Judge(parts, counted, n_rows, classes, merge)


def columns_of_parts(task: Prepared, parts: Sequence[GroupRequirement]) -> list[Column]:
    """Return the columns in the QIDs of these requirements, in the order of the schema."""
    return [column for column in task.columns if any(column.name in part.qid for part in parts)]


def cut_by_value(
    task: Prepared,
    parts: Sequence[GroupRequirement],
    choice: Choice,
    n_rows: int,
    strict: bool,
    classes: Coded | None = None,
    merge: Merge = "violating",
    edges: Mapping[str, Counts] | None = None,
) -> tuple[Generalised, ...]:
    """Cut the attributes of requirements whose QIDs are linked by common attributes, first at the edges."""
    columns = columns_of_parts(task, parts)
    axes = axes_of(columns, edges)
    first = predicate_axes_of(columns, edges) if edges else ()
    judges = {
        qid: judge_of(
            [part for part in parts if frozenset(part.qid) == qid], task.sensitive, n_rows, classes, merge
        )
        for qid in dict.fromkeys(frozenset(part.qid) for part in parts)
    }
    if len(judges) > 1:
        return cut_linked(axes, judges, choice, n_rows, strict, first)
    (judge,) = judges.values()
    return partition(axes, judge, choice, n_rows, strict, first).released(axes)
