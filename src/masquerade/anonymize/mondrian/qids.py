"""Several QIDs: those that share attributes are cut together, all others apart from each other.

A release for the union of QIDs satisfies each of them, but keeps people apart who need not be: groups that look alike
over a QID are one group there, and may be cut further. So those that share attributes are cut as their union first,
and then together (`linked.py`): every cell is as narrow as in the release for the union, or narrower. Where they
share little, cutting them together from the start loses less, as each is cut along fewer attributes. Whoever has all
records therefore cuts them both ways and keeps what lost less; parties cut the first way alone, as the other would show
them cuts of no release.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import fsum

from masquerade.anonymize.mondrian.counted_cuts import whole_groups
from masquerade.anonymize.mondrian.cuts import Choice
from masquerade.anonymize.mondrian.judge import Merge
from masquerade.anonymize.mondrian.linked import cut_linked
from masquerade.anonymize.mondrian.multidimensional import (
    Dimensions,
    Released,
    cut_qid,
    groups_of_qid,
    judge_of_records,
)
from masquerade.data import Generalised, Records
from masquerade.engine import Chunk, Counts, value_counts
from masquerade.privacy import GroupRequirement
from masquerade.utility import certainty_penalties


def linked(parts: Sequence[GroupRequirement]) -> list[list[GroupRequirement]]:
    """Return the requirements whose QIDs are linked by common attributes, together."""
    linked: list[list[GroupRequirement]] = []
    for part in parts:
        near = [each for each in linked if any(set(part.qid) & set(other.qid) for other in each)]
        linked = [each for each in linked if each not in near]
        linked.append([*(other for each in near for other in each), part])
    return linked


def by_qid(parts: Sequence[GroupRequirement]) -> dict[frozenset[str], list[GroupRequirement]]:
    """Return the requirements on each QID."""
    found: dict[frozenset[str], list[GroupRequirement]] = {}
    for part in parts:
        found.setdefault(frozenset(part.qid), []).append(part)
    return found


def begins_with_union(parts: Sequence[GroupRequirement], sizes: Counts) -> bool:
    """Return whether QIDs that share attributes are cut as their union first; `sizes` has its groups at the start.

    Groups that satisfy over the union must satisfy together. Where there are boundaries, the groups at those of all
    attributes may violate although no QID's do; parties can tell so of sizes alone.
    """
    if not all(part.monotone for part in parts):
        return False
    if sizes.size <= 1:
        return True
    return all(part.only_sizes and part.implied_size <= sizes.min() for part in parts)


def certainty_lost(released: Iterable[tuple[Generalised, Counts]]) -> float:
    """Add up the certainty penalty of all cells; `released` has columns, and how many records have each value."""
    return fsum(lost for column, records in released for lost in (records * certainty_penalties(column)).tolist())


def cut_by_value(
    records: Records,
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
    whole = judge_of_records(records, parts, classes, merge)
    if len(qids) == 1:
        return cut_qid(records, dimensions, whole, choice, strict)
    judges = {qid: judge_of_records(records, own, classes, merge) for qid, own in qids.items()}
    from_union = begins_with_union(parts, whole_groups(records, dimensions.columns, "linked").sizes)
    made = []
    if both_ways or not from_union:
        # From the top first, while nothing else is beside the records: it needs most room for counts.
        made.append(cut_linked(records, dimensions, judges, choice, strict))
    if from_union:
        union = groups_of_qid(records, dimensions, whole, choice, strict)
        made.insert(0, cut_linked(records, dimensions, judges, choice, strict, union))
    if len(made) == 1:
        return made[0]
    counted = records.chunks.total(partial(_count_values, ways=tuple(made)))
    lost = [
        certainty_lost(zip((column for column, _ in released.values()), counts, strict=True))
        for released, counts in zip(made, counted, strict=True)
    ]
    return made[lost.index(min(lost))]


def _count_values(chunk: Chunk, *, ways: tuple[Released, ...]) -> tuple[tuple[Counts, ...], ...]:
    """Count the records with each released value, of several ways to release the same columns."""
    return tuple(
        tuple(value_counts(codes(chunk), len(column.labels)) for column, codes in released.values())
        for released in ways
    )
