"""Mondrian: cut groups of records in parts, again and again, while every part satisfies the requirement.

LeFevre, DeWitt and Ramakrishnan's multidimensional partitioning: each group is cut where it serves that group, so one
column may hold a value and its ancestor. Equal records are always in one group. Along a taxonomy a group is cut into
the children of the lowest node that covers it, along numbers beside the median. See `parts.py` for which cuts
are allowed, and `choose` for which of them is made.

The requirements may be over different QIDs: groups are those of all their attributes together. As every requirement
is monotone, it then holds on the groups of fewer attributes too, which are unions of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from masquerade.anonymize.mondrian.axes import Axis, ContinuousAxis, Shares, TaxonomyAxis
from masquerade.anonymize.mondrian.candidates import Candidates
from masquerade.anonymize.mondrian.judge import Judge
from masquerade.anonymize.mondrian.partition import Choice, partition
from masquerade.anonymize.outcome import OnStep, Outcome
from masquerade.anonymize.tds import in_schema_order, refuse_misplaced, refuse_unreachable
from masquerade.data.column import Column
from masquerade.data.table import Table
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import ParameterError
from masquerade.forms.declared import parameter_error
from masquerade.privacy.requirement import (
    GroupRequirement,
    Requirement,
    without_redundant,
)
from masquerade.utility.scores import FIXED_ONE

Preference = Literal["certainty", "widest"]


@dataclass(frozen=True)
class Mondrian:
    """Multidimensional Mondrian over taxonomies and numbers.

    `choose` says which allowed cut of a group is made: "certainty", the one that lowers the normalised certainty
    penalty most for each bit that it tells the parts apart by, or "widest", the one along the attribute on which the
    group is widest, as its authors do. With `strict` a cut into the children of a value is made only as a whole;
    without, children with too few records stay together at the value.
    """

    name: ClassVar[str] = "mondrian"

    target: str | None = None  # released, and used in metrics only
    choose: Preference = "certainty"
    strict: bool = False

    def __post_init__(self) -> None:
        if self.choose not in get_args(Preference):
            raise parameter_error(self, "choose", '"certainty" or "widest"', self.choose)
        if not isinstance(self.strict, bool):
            raise parameter_error(self, "strict", "true or false", self.strict)

    def settings(self) -> dict[str, object]:
        """The name and the variant."""
        return {"name": self.name, "choose": self.choose, "strict": self.strict}

    def run(self, table: Table, requirement: Requirement, on_step: OnStep | None = None) -> Outcome:
        """Cut until no cut is allowed."""
        judge = judge_of(table, requirement, self.target)
        names = in_schema_order(table, requirement.qid_attributes)
        axes = axes_of(table.columns(names))
        groups = partition(axes, judge, CHOICES[self.choose], len(table), self.strict)
        return Outcome(groups.released(axes))


def axes_of(columns: Sequence[Column]) -> list[Axis]:
    """The dimensions of the released attributes."""
    return [
        TaxonomyAxis(column) if isinstance(column.domain, Taxonomy) else ContinuousAxis(column)
        for column in columns
    ]


def judge_of(table: Table, requirement: Requirement, target: str | None) -> Judge:
    """The judge of a requirement that this table can satisfy."""
    parts = without_redundant(requirement.parts)
    refuse_misplaced(parts, target)
    refuse_not_monotone(parts)
    sensitive = {name: table.coded(name) for name in requirement.sensitive_attributes}
    for part in parts:
        part.bind(sensitive[part.sensitive].labels if part.sensitive is not None else ())
    refuse_unreachable(table, parts)
    return Judge(parts, sensitive, len(table))


def refuse_not_monotone(parts: Sequence[GroupRequirement]) -> None:
    """Over several QIDs a requirement is tested on finer groups than its own, which must be enough."""
    attributes = {name for part in parts for name in part.qid}
    problems = [
        f"mondrian: {part.model} over {', '.join(part.qid)} is not monotone, so it must be over all attributes "
        f"of the requirements: {', '.join(sorted(attributes))}"
        for part in parts
        if not part.monotone and set(part.qid) != attributes
    ]
    if problems:
        raise ParameterError(*problems)


def by_certainty(candidates: Candidates) -> Shares:
    """How much less is uncertain after the cut, for each bit that tells a record's part.

    Small parts are what the next cuts will lack, and a cut that splits evenly uses up more of them.
    """
    parts, sizes = candidates.parts, candidates.sizes
    starts = parts.starts(sizes.size)
    of_group = np.repeat(sizes, np.diff(np.append(starts, parts.group.size)))
    kept = np.add.reduceat(parts.sizes * parts.widths, starts)
    bits = np.add.reduceat(parts.sizes * np.log2(of_group / parts.sizes), starts)
    gain = sizes * candidates.widths - kept
    # As fixed point, so that no order of additions decides; a group that is one part has no bits, and is not allowed.
    return np.rint(gain / np.maximum(bits, 1e-9) * FIXED_ONE)


def _by_width(candidates: Candidates) -> Shares:
    """How wide the group is along the dimension."""
    return candidates.widths


CHOICES: dict[str, Choice] = {"certainty": by_certainty, "widest": _by_width}
