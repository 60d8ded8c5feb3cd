"""m-privacy group by group: who feeds each one, whether it is m-private, who breaches it, after how many checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from masquerade.data.table import Table
from masquerade.engine.counts import pair_counts
from masquerade.privacy.check import Reading
from masquerade.privacy.m_privacy import MPrivacy, MPrivateGroups


@dataclass(frozen=True)
class GroupVerdict:
    """One group of a table: its cells on the quasi-identifier, its providers, and the verdict.

    `coalition` are providers without whose records the others' violate; () are outsiders, None is nobody.
    """

    group: Mapping[str, str]
    providers: tuple[str, ...]
    size: int
    private: bool
    coalition: tuple[str, ...] | None
    checks: int


def verify_m_privacy(
    frame: Any, requirement: MPrivacy, verification: str | None = None
) -> tuple[GroupVerdict, ...]:
    """Verify each group of a table that has a column of providers; `verification` names another way to do it."""
    table = frame if isinstance(frame, Table) else Table(frame)
    wanted = requirement if verification is None else replace(requirement, verification=verification)
    reading = Reading(table, [*wanted.qid_attributes, *wanted.special_columns])
    verdicts: list[GroupVerdict] = []
    for part in wanted.parts:
        assert isinstance(part, MPrivateGroups)
        verdicts += _verdicts(reading, part)
    return tuple(verdicts)


def _verdicts(reading: Reading, part: MPrivateGroups) -> list[GroupVerdict]:
    labels, n_groups = reading.groups(part.qid)
    coded = reading.sensitive(part.sensitive)
    part.bind(coded.labels)
    if not n_groups:
        return []
    whole = np.bincount(coded.codes, minlength=len(coded.labels)).reshape(1, -1)
    layout, check = part.check(whole, coded.labels)
    rows = np.empty(n_groups, np.intp)
    rows[labels[::-1]] = np.arange(labels.size - 1, -1, -1)
    histograms = pair_counts(labels, coded.codes, n_groups, len(coded.labels))
    verdicts = []
    for group in np.argsort(rows):  # in the order of the rows
        histogram = histograms[group]
        counts = layout.counts(histogram[None])[0]
        found = check.outcome(counts)
        feeding = np.flatnonzero(counts.sum(axis=1))
        verdicts.append(
            GroupVerdict(
                {name: reading.cell(name, int(rows[group])) for name in part.qid},
                tuple(layout.providers[each] for each in feeding),
                int(histogram.sum()),
                found.private,
                None
                if found.coalition is None
                else tuple(layout.providers[each] for each in found.coalition),
                found.checks,
            )
        )
    return verdicts
