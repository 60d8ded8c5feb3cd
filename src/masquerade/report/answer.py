"""The page about joint keys: the ratio of each set of columns, and what it means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from masquerade.protocol.joint_keys.ratios import JointRatios
from masquerade.report.charts import Bar, bar_chart
from masquerade.report.html import render
from masquerade.report.wording import count, duration, figure
from masquerade.risk.separation import Measure

LEADS: dict[Measure, str] = {
    "distinct": "Different records / records. Near 1, whoever knows these columns of a person finds that person.",
    "separation": "The share of all pairs of records that differ. Near 1, hardly two are alike in these columns.",
}


def render_answer(found: JointRatios) -> str:
    """Return the page's HTML, which is deterministic for an answer."""
    return render(
        "answer.html",
        measure=found.measure,
        precision=found.precision,
        records=count(found.records),
        compared="" if found.sampled is None else count(found.sampled),
        parties=list(found.parties),
        lead=LEADS[found.measure],
        chart=ratio_chart(found.answers()),
        answers=[{**each, "ratio": figure(each["ratio"])} for each in found.answers()],
        seconds=[(part, duration(took)) for part, took in found.seconds.items()],
    )


def ratio_chart(answers: Sequence[dict[str, Any]]) -> Markup:
    """Draw the ratios, each between 0 and 1."""
    bars = [Bar(", ".join(each["key"]), float(each["ratio"])) for each in answers]
    return bar_chart(bars, title="Ratio of each set of columns", maximum=1.0)
