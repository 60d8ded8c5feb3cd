"""Several QIDs on chunks, as `anonymize/mondrian/method.py` has them: those that share attributes are cut together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from masquerade.anonymize.mondrian.counted_cuts import whole_groups
from masquerade.anonymize.mondrian.cuts import Choice
from masquerade.anonymize.mondrian.judge import Merge
from masquerade.anonymize.mondrian.linked_counts import cut_linked
from masquerade.anonymize.mondrian.method import begins_with_union, by_qid, certainty_lost
from masquerade.anonymize.mondrian.multidimensional import (
    Dimensions,
    Released,
    cut_qid,
    groups_of_qid,
    judge_of_records,
)
from masquerade.data.records import Records
from masquerade.engine.chunks import Chunk
from masquerade.engine.counts import Counts, value_counts
from masquerade.privacy.requirement import GroupRequirement


def cut_by_value(
    table: Records,
    dimensions: Dimensions,
    parts: Sequence[GroupRequirement],
    choice: Choice,
    strict: bool,
    classes: str | None,
    merge: Merge,
    both_ways: bool = True,
) -> Released:
    """Cut the attributes of requirements whose QIDs are linked by common attributes; return the released columns.

    Without `both_ways` several QIDs are cut from the release for their union alone, wherever they can be.
    """
    qids = by_qid(parts)
    whole = judge_of_records(table, parts, classes, merge)
    if len(qids) == 1:
        return cut_qid(table, dimensions, whole, choice, strict)
    judges = {qid: judge_of_records(table, own, classes, merge) for qid, own in qids.items()}
    from_union = begins_with_union(parts, whole_groups(table, dimensions.columns, "linked").sizes)
    made = []
    if both_ways or not from_union:
        # From the top first, while nothing else is beside the records: it needs most room for counts.
        made.append(cut_linked(table, dimensions, judges, choice, strict))
    if from_union:
        union = groups_of_qid(table, dimensions, whole, choice, strict)
        made.insert(0, cut_linked(table, dimensions, judges, choice, strict, union))
    if len(made) == 1:
        return made[0]
    records = table.chunks.total(_CountValues(tuple(made)))
    lost = [
        certainty_lost(zip((column for column, _ in released.values()), counts, strict=True))
        for released, counts in zip(made, records, strict=True)
    ]
    return made[lost.index(min(lost))]


@dataclass(frozen=True, eq=False)
class _CountValues:
    """Counts the records with each released value, of several ways to release the same columns."""

    ways: tuple[Released, ...]

    def __call__(self, chunk: Chunk) -> tuple[tuple[Counts, ...], ...]:
        return tuple(
            tuple(value_counts(codes(chunk), len(column.labels)) for column, codes in released.values())
            for released in self.ways
        )
