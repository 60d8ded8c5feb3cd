"""A published model: how good it is, and the model drawn, on the page of a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from masquerade.console.elements import drawing, table, tag
from masquerade.console.wording import number
from masquerade.methods import learning_methods
from masquerade.protocol.learn.method import LearningMethod
from masquerade.report.model import METRICS, curves_of, drawings


def method_of_model(summary: Mapping[str, Any]) -> type[LearningMethod] | None:
    """Return the method by which the model of a summary was learned; None if only another version has it."""
    return learning_methods().get(str((summary.get("algorithm") or {}).get("name")))


def draw_model(summary: Mapping[str, Any]) -> None:
    """Draw the model of a summary, and its figures; a table's summary has none."""
    metrics = summary.get("metrics") or {}
    rows = [
        [name, number(value), METRICS.get(name, "")]
        for name, value in metrics.items()
        if isinstance(value, int | float)
    ]
    if rows:
        with tag("section"):
            tag("h2", "How good it is")
            tag("p", f"Measured on {metrics.get('on')}: on others it may do worse.", "quiet")
            table("Figures of the model", ["Figure", "Value", "Meaning"], rows, numbers=(1,))
    method = method_of_model(summary)
    if method is None:  # learned by another version
        return
    model = method.learns.read(summary["model"])
    for section in (*drawings(model), *curves_of(summary.get("curves") or {})):
        with tag("section"):
            tag("h2", section.name)
            tag("p", section.lead, "quiet")
            drawing(section.chart)
            if section.rows:
                numbers = tuple(range(1, len(section.head)))
                table(section.name, list(section.head), [list(row) for row in section.rows], numbers=numbers)
