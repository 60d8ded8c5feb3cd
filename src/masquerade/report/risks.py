"""What could still go wrong: what an attacker gets who has the release and nothing else."""

from __future__ import annotations

from typing import Any

from masquerade.anonymize.release import Release
from masquerade.data.schema import Schema
from masquerade.data.table import Table
from masquerade.engine.numbering import group_rows
from masquerade.report.charts import Bar, bar_chart
from masquerade.report.wording import figure, percent
from masquerade.risk.attacks.attack import Scene
from masquerade.risk.attacks.registry import attack
from masquerade.risk.coded_table import CodedTable
from masquerade.risk.greedy_key import greedy_key
from masquerade.risk.partition import Partition, partition_by

_MOST_SETS = 12


def risks_section(release: Release) -> dict[str, Any] | None:
    """Return the findings and the chart; None if nothing was released, or nothing generalised."""
    if not release.table.num_rows or not release.columns:
        return None
    qid = tuple(column.name for column in release.columns)
    scene = Scene(Table(release.table), Schema([]), qid, tuple(release.sensitive))
    findings = [
        {"name": each.name.replace("-", " "), "value": figure(each.value), "meaning": each.meaning}
        for each in attack(scene)
    ]
    return {"findings": findings, "chart": _by_attribute_set(release)}


def _by_attribute_set(release: Release) -> Any:
    """Draw the marketer's risk for whoever knows one attribute, two, and so on: the most telling ones first."""
    columns = release.columns
    table = CodedTable(
        tuple(column.name for column in columns),
        tuple(column.codes for column in columns),
        tuple(max(len(column.labels), 1) for column in columns),
        int(release.table.num_rows),
    )
    _, everything = group_rows(zip(table.codes, table.bounds, strict=True), table.rows)
    key = greedy_key(
        Partition.of(table),
        range(table.width),
        lambda extent: extent.groups == everything,
        [1.0] * table.width,
    )
    order = key or (0,)
    bars = []
    for known in range(1, min(len(order), _MOST_SETS) + 1):
        groups = partition_by(table, order[:known])
        smallest = int(groups.smallest)
        names = ", ".join(table.names[at] for at in order[:known])
        note = f"(highest {percent(1 / smallest)})"
        bars.append(Bar(names, groups.extent.groups / table.rows, note))
    return bar_chart(
        bars, title="Chance of finding a record, by what is known of a person", maximum=1.0, write=percent
    )
