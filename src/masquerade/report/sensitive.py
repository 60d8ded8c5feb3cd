"""The distribution of sensitive values, in the release and, as far as it may be shown, before it."""

from __future__ import annotations

from typing import Any

from masquerade.anonymize.release import Release
from masquerade.data.column import Coded
from masquerade.data.encode import code
from masquerade.report.charts import share_bar
from masquerade.report.wording import count, counted, percent

_SHOWN = 12  # values, the most frequent first


def distributions(release: Release) -> list[dict[str, Any]]:
    """Return a section for each sensitive column; only values of the release are named."""
    return [_distribution(release, name) for name in release.sensitive]


def _distribution(release: Release, name: str) -> dict[str, Any]:
    after = release.values_after.get(name) or _counted(code(name, release.table.column(name)))
    before = release.sensitive_before.get(name) if release.suppressed else after
    ordered = sorted(after, key=lambda value: (-after[value], value))
    total, total_before = sum(after.values()), sum((before or {}).values())

    def row(label: str, n: int, n_before: int | None) -> dict[str, Any]:
        share = n / total if total else 0.0
        share_before = None if n_before is None else n_before / total_before if total_before else 0.0
        return {
            "value": label,
            "before": "" if share_before is None else percent(share_before),
            "before_bar": "" if share_before is None else share_bar(share_before, "quiet"),
            "after": percent(share),
            "after_bar": share_bar(share),
            "records": count(n),
        }

    rows = [row(value, after[value], before.get(value, 0) if before else None) for value in ordered[:_SHOWN]]
    rest = ordered[_SHOWN:]
    gone = [value for value in before or {} if value not in after]
    if rest or gone:
        words = f"{counted(len(rest), 'other value')}" if rest else "values that no released record has"
        others = [*rest, *gone]
        n_before = sum(before.get(value, 0) for value in others) if before else None
        rows.append(row(words, sum(after[value] for value in rest), n_before))
    return {
        "name": name,
        "values": counted(len(after), "value"),
        "rows": rows,
        "same": not release.suppressed,
        "untold": bool(release.suppressed) and before is None,
        "suppressed": counted(release.suppressed, "suppressed row"),
    }


def _counted(coded: Coded) -> dict[str, int]:
    return dict(zip(coded.labels, coded.histogram()[0].tolist(), strict=True))
