"""What could still go wrong: what an attacker gets who has the release and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from masquerade.anonymize import VerifiedRelease
from masquerade.data import Schema, Table
from masquerade.privacy import MPrivateGroups
from masquerade.report.charts import Bar, bar_chart
from masquerade.report.verdict import figure, percent
from masquerade.risk import CodedRows, Finding, GroupCounts, Scene, SeparatedRows, attack, greedy_key

_MOST_SETS = 12
_CHART_TITLE = "Chance of finding a person's record, by the columns that are known of them"


def risks_section(release: VerifiedRelease, found: Sequence[Finding]) -> dict[str, Any] | None:
    """Return the findings of `attacks_on` and the chart; None without any."""
    if not found:
        return None
    findings = [
        {"name": attack_title(each.name), "value": figure(each.value), "meaning": each.meaning} for each in found
    ]
    return {"findings": findings, "chart": _by_attribute_set(release), "chart_title": _CHART_TITLE}


def attacks_on(release: VerifiedRelease) -> list[Finding]:
    """Play the attacks that need nothing but the release; none if nothing was released, or nothing generalised.

    Of a release in chunks, by the counts of its groups.
    """
    if not release.table.num_rows or not release.columns:
        return []
    counted = None
    if release.released_rows is not None:
        counted = GroupCounts(release.group_sizes, release.group_values)
    qid = tuple(column.name for column in release.columns)
    providers = [name for each in release.verdicts for name in each.requirement.provider_columns]
    colluding = [each.requirement.m for each in release.verdicts if isinstance(each.requirement, MPrivateGroups)]
    scene = Scene(
        Table(release.table),
        Schema([]),
        qid,
        tuple(release.sensitive),
        release.settings.get("class"),
        provider=next((name for name in providers if name in release.table.column_names), None),
        colluding=max([1, *colluding]),
        counted=counted,
    )
    return attack(scene)


def attack_title(name: str) -> str:
    """Return an attack's name as people read it."""
    return name.replace("-", " ")


def _by_attribute_set(release: VerifiedRelease) -> Any:
    """Draw the marketer's risk for whoever knows one attribute, two, and so on: the most telling ones first."""
    columns, names = release.columns, [column.name for column in release.columns]
    of_groups = release.group_codes  # of a release in chunks, whose rows are elsewhere
    coded = [
        (codes, max(len(column.labels), 1))
        for codes, column in zip(of_groups or [each.codes for each in columns], columns, strict=True)
    ]
    rows = CodedRows.of_codes(names, coded, release.table.num_rows, release.group_sizes if of_groups else None)
    separation = SeparatedRows.of(rows)
    everything = release.group_sizes.size
    key = greedy_key(separation, range(len(columns)), lambda extent: extent.groups == everything, [1.0] * len(columns))
    order = key or (0,)
    bars = []
    for known in range(1, min(len(order), _MOST_SETS) + 1):
        separation = separation.refined(order[known - 1])
        note = f"(highest {percent(1 / separation.smallest)})"
        told = ", ".join(names[at] for at in order[:known])
        bars.append(Bar(told, separation.extent.groups / release.released, note))
    return bar_chart(bars, title=_CHART_TITLE, maximum=1.0, write=percent)
