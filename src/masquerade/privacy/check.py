"""The independent check: does this table, as published, satisfy the requirement?

It counts the cells of the finished table and knows nothing of the algorithm that made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from masquerade.data.encode import distinct, texts
from masquerade.data.table import Table
from masquerade.engine.counts import Counts, group_rows, pair_counts
from masquerade.errors import RequirementViolated
from masquerade.privacy.requirement import GroupRequirement, Requirement


@dataclass(frozen=True)
class Verdict:
    """Whether one requirement holds on a table.

    `value` is the worst group's figure; `violation` names the first violating group in the order of the rows.
    """

    requirement: GroupRequirement
    holds: bool
    value: float | int | None
    groups: int
    group: Mapping[str, str] | None = None
    violation: str | None = None

    def summary(self) -> dict[str, object]:
        """The entry of a JSON summary."""
        entry: dict[str, object] = {
            "model": self.requirement.model,
            "qid": list(self.requirement.qid),
            **self.requirement.parameters(),
            "holds": self.holds,
            "value": self.value,
            "groups": self.groups,
        }
        if self.group is not None:
            entry["first_violating_group"] = dict(self.group)
        return entry


def verify(frame: Any, requirement: Requirement) -> tuple[Verdict, ...]:
    """One verdict for each part of the requirement, on any frame or table."""
    table = frame if isinstance(frame, Table) else Table(frame)
    return tuple(_verdict(table, part) for part in requirement.parts)


def insist(verdicts: Sequence[Verdict]) -> None:
    """Raise `RequirementViolated`, one line a verdict that does not hold."""
    problems = [verdict.violation for verdict in verdicts if verdict.violation is not None]
    if problems:
        raise RequirementViolated(*problems)


def _verdict(table: Table, part: GroupRequirement) -> Verdict:
    columns = [distinct(table.cells(name)) for name in part.qid]
    labels, n_groups = group_rows([(codes, len(values)) for codes, values in columns], len(table))
    histogram, whole, names = histograms(table, labels, n_groups, part)
    part.bind(names)
    if n_groups == 0:
        return Verdict(part, True, None, 0)
    figures = part.figures(histogram, whole, names)
    good = part.holds(histogram, whole, names)
    value = _json_number(figures.min() if part.worst == "smallest" else figures.max())
    if good.all():
        return Verdict(part, True, value, n_groups)
    row = int(np.argmax(~good[labels]))
    group = {
        name: str(texts(values.slice(int(codes[row]), 1))[0])
        for name, (codes, values) in zip(part.qid, columns, strict=True)
    }
    label = int(labels[row])
    shown = ", ".join(f"{name} = {value}" for name, value in group.items())
    complaint = part.complaint(float(figures[label]), int(histogram[label].sum()))
    violation = f"{table.origin.name}: {part} does not hold: group ({shown}) {complaint}"
    return Verdict(part, False, value, n_groups, group, violation)


def histograms(
    table: Table, labels: Counts, n_groups: int, part: GroupRequirement
) -> tuple[Counts, Counts, tuple[str, ...]]:
    """The counts of each group and of the whole table over the requirement's sensitive values, and their names."""
    if part.sensitive is None:
        sizes = np.bincount(labels, minlength=n_groups).reshape(n_groups, 1)
        return sizes, sizes.sum(axis=0, keepdims=True), ()
    coded = table.coded(part.sensitive)
    histogram = pair_counts(labels, coded.codes, n_groups, len(coded.labels))
    return histogram, histogram.sum(axis=0, keepdims=True), coded.labels


def _json_number(value: Any) -> float | int | None:
    number = value.item()
    return number if np.isfinite(number) else None
