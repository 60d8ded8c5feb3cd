"""Several QIDs on chunks, as `mondrian/qids.py` has them: those that share attributes are cut together."""

from __future__ import annotations

from collections.abc import Sequence

from masquerade.anonymize.chunked.linked_cuts import cut_linked_chunks
from masquerade.anonymize.chunked.multidimensional import Dimensions, cut_chunks, judge_of_chunks
from masquerade.anonymize.chunked.outcome import ReleasedCodes
from masquerade.anonymize.mondrian.judge import Merge
from masquerade.anonymize.mondrian.partition import Choice
from masquerade.data.chunked_table import ChunkedTable
from masquerade.data.column import Generalised
from masquerade.privacy.requirement import GroupRequirement


def cut_by_value_in_chunks(
    table: ChunkedTable,
    dimensions: Dimensions,
    parts: Sequence[GroupRequirement],
    choice: Choice,
    strict: bool,
    classes: str | None,
    merge: Merge,
) -> dict[str, tuple[Generalised, ReleasedCodes]]:
    """Cut the attributes of requirements whose QIDs are linked by common attributes; return the released columns."""
    judges = {
        qid: judge_of_chunks(table, [part for part in parts if frozenset(part.qid) == qid], classes, merge)
        for qid in dict.fromkeys(frozenset(part.qid) for part in parts)
    }
    if len(judges) > 1:
        return cut_linked_chunks(table, dimensions, judges, choice, strict)
    (judge,) = judges.values()
    return cut_chunks(table, dimensions, judge, choice, strict)
