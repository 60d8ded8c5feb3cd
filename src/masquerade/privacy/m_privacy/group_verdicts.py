"""m-privacy group by group: who feeds each one, whether it is m-private, who breaches it, after how many checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from masquerade.data import Table, columns_of
from masquerade.engine import Counts, first_rows
from masquerade.forms import checked, number, parameter_error
from masquerade.privacy.check import Reading, Verdict, WholeTable
from masquerade.privacy.m_privacy.constraint import VERIFICATION_WEIGHT
from masquerade.privacy.m_privacy.requirement import MPrivacy, MPrivateGroups
from masquerade.privacy.m_privacy.strategies import TOP_DOWN_FROM, Strategy, adaptive
from masquerade.privacy.requirement import with_sensitive_given_once


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
    frame: Any,
    requirement: MPrivacy,
    verification: str | None = None,
    *,
    alpha: float = VERIFICATION_WEIGHT,
    threshold: float = TOP_DOWN_FROM,
) -> tuple[GroupVerdict, ...]:
    """Verify each group of a table that has a column of providers; `verification` names another way to do it.

    `alpha` and `threshold` are those of "adaptive", and change how many checks it makes: what constraints on values
    weigh in a provider's fitness, and from which mean fitness of a group's providers on it goes top-down.
    """
    table = frame if isinstance(frame, Table) else Table(frame)
    wanted = replace(
        requirement,
        requirement=with_sensitive_given_once(requirement.requirement),
        verification=verification or requirement.verification,
    )
    checked(verify_m_privacy, "alpha", number(0, 1), alpha)
    checked(verify_m_privacy, "threshold", number(0), threshold)
    chosen = (alpha, threshold) != (VERIFICATION_WEIGHT, TOP_DOWN_FROM)
    if chosen and wanted.verification != "adaptive":
        must_be = '"adaptive" where alpha or threshold is given'
        raise parameter_error(verify_m_privacy, "verification", must_be, wanted.verification)
    strategy = partial(adaptive, alpha=alpha, threshold=threshold) if chosen else None
    reading = Reading(table, [*wanted.qid_attributes, *wanted.special_columns])
    verdicts: list[GroupVerdict] = []
    for part in wanted.parts:
        assert isinstance(part, MPrivateGroups)
        verdicts += _verdicts(reading, part, strategy)
    return tuple(verdicts)


def with_coalitions(
    table: Table, verdicts: Sequence[Verdict], times: Counts | None = None, whole: WholeTable | None = None
) -> tuple[Verdict, ...]:
    """The verdicts on a table; those on m-privacy with who breaches the first violating group, and the checks made.

    `times` and `whole` as for `verify`.
    """
    parts = [each.requirement for each in verdicts if isinstance(each.requirement, MPrivateGroups)]
    if not parts:
        return tuple(verdicts)
    names = [name for part in parts for name in (*part.qid, *columns_of(part.sensitive))]
    reading = Reading(table, names, times, whole)

    def completed(verdict: Verdict) -> Verdict:
        if not isinstance(verdict.requirement, MPrivateGroups):
            return verdict
        groups = _verdicts(reading, verdict.requirement)
        coalition = next((group.coalition for group in groups if not group.private), None)
        return replace(verdict, coalition=coalition, checks=sum(group.checks for group in groups))

    return tuple(map(completed, verdicts))


def _verdicts(reading: Reading, part: MPrivateGroups, strategy: Strategy | None = None) -> list[GroupVerdict]:
    labels, n_groups = reading.groups(part.qid)
    coded = reading.sensitive(part.sensitive)
    part.bind(coded.labels)
    if not n_groups:
        return []
    whole = reading.whole(coded)
    layout, check = part.check(whole, coded.labels, strategy)
    rows = first_rows(labels, n_groups)
    n_values = len(coded.labels)
    histograms = reading.counts(labels * n_values + coded.codes, n_groups * n_values)
    verdicts = []
    for group in np.argsort(rows):  # in the order of the rows
        histogram = histograms[group * n_values : (group + 1) * n_values]
        counts = layout.counts(histogram[None])[0]
        found = check.outcome(counts)
        feeding = np.flatnonzero(counts.sum(axis=1))
        verdicts.append(
            GroupVerdict(
                {name: reading.cell(name, int(rows[group])) for name in part.qid},
                tuple(layout.providers[each] for each in feeding),
                int(histogram.sum()),
                found.private,
                None if found.coalition is None else tuple(layout.providers[each] for each in found.coalition),
                found.checks,
            )
        )
    return verdicts
