"""The page of `compare`: methods side by side, and risk against loss in one chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from masquerade.anonymize.side_by_side import Row, SideBySide
from masquerade.methods import described
from masquerade.report.charts import Series, line_chart
from masquerade.report.html import render
from masquerade.report.wording import METRICS, bare_name, count, duration, figure, percent


def render_comparison(found: SideBySide) -> str:
    """Return the page's HTML."""
    headline = found.headline
    others = [
        name
        for name in found.rows[0].metrics
        if name not in headline and any(row.metrics[name] is not None for row in found.rows)
    ]
    best = found.best
    return render(
        "side_by_side.html",
        source=bare_name(found.source),
        chart=risk_chart(found),
        measure=found.measure.replace("_", " "),
        best=[(_k(row), described(row.method), figure(row.metrics[found.measure])) for row in best],
        metrics=_named(headline),
        others=_named(others),
        rows=[_row(row, headline, others, row in best) for row in found.rows],
        refused=[(name, [str(each) for each in problems]) for name, problems in found.refused.items()],
    )


def _named(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return each figure's name and meaning."""
    return [(name.replace("_", " "), METRICS.get(name, "")) for name in names]


def risk_chart(found: SideBySide) -> Markup:
    """Draw the mean risk of being found against the measure: a point for each release, a line for each method."""
    series: dict[str, list[tuple[float, float | None]]] = {}
    for row in found.rows:
        if row.risk.mean > 0:
            series.setdefault(described(row.method), []).append((row.risk.mean, row.metrics[found.measure]))
    drawn = [Series(name, points) for name, points in series.items() if _has_figure(points)]
    if not drawn:
        return Markup()
    measure = found.measure.replace("_", " ")
    return line_chart(
        drawn,
        title=f"Risk of being found against {measure}",
        x_name="mean risk of being found",
        y_name=measure,
        x_scale="log",
    )


def _has_figure(points: Sequence[tuple[float, float | None]]) -> bool:
    return any(value is not None for _, value in points)


def _row(row: Row, headline: Sequence[str], others: Sequence[str], is_best: bool) -> dict[str, Any]:
    return {
        "name": described(row.method),
        "k": _k(row),
        "best": is_best,
        "figures": [figure(row.metrics.get(name)) for name in headline],
        "others": [figure(row.metrics[name]) for name in others],
        "highest": percent(row.risk.highest),
        "mean": percent(row.risk.mean),
        "unique": count(row.risk.unique),
        "groups": count(row.groups),
        "suppressed": count(row.suppressed),
        "seconds": duration(row.seconds),
    }


def _k(row: Row) -> str:
    return "" if row.k is None else count(row.k)
