"""Several QIDs: those that share attributes are cut together, all others apart from each other.

A release for the union of QIDs satisfies each of them, but keeps people apart who need not be: groups that look alike
over a QID are one group there, and may be cut further. So those that share attributes are cut as their union first, and
then together (`linked_qids.py`): every cell is as narrow as in the release for the union, or narrower. Where they share
little, cutting them together from the start loses less, as each is cut along fewer attributes. One table is therefore
cut both ways, and what lost less is kept; parties make the first alone, as the other would show cuts of no release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from masquerade.anonymize.mondrian.judge import Judge, Merge
from masquerade.data.column import Coded, Generalised
from masquerade.engine.counts import Counts
from masquerade.privacy.requirement import GroupRequirement
from masquerade.utility.penalties import certainty_penalties


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
    return fsum(
        lost for column, records in released for lost in (records * certainty_penalties(column)).tolist()
    )
