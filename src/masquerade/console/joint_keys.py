"""Published ratios of joint keys: each with its meaning in one sentence, on the page of a release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from masquerade.console.elements import drawing, table, tag
from masquerade.console.wording import number
from masquerade.report.answer import LEADS, ratio_chart


def draw_ratios(summary: Mapping[str, Any]) -> None:
    """Draw the ratios of a summary."""
    answers = summary.get("ratios") or []
    with tag("section"):
        tag("h2", "Ratios")
        tag("p", LEADS.get(summary.get("measure", "distinct"), ""), "quiet")
        drawing(ratio_chart(answers))
        table(
            "Each set of columns, its ratio and what it means",
            ["Columns", "Ratio", "Meaning"],
            [[", ".join(each["key"]), number(each["ratio"]), each["meaning"]] for each in answers],
            numbers=(1,),
        )
