"""What could still go wrong with a published release: what somebody gets who has it and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from masquerade.console.elements import table, tag
from masquerade.console.wording import number
from masquerade.report.risks import attack_title


def draw_risks(summary: Mapping[str, Any]) -> None:
    """Draw the attacks that were played on the release when it was published; releases of before have none."""
    attacks = summary.get("attacks") or []
    if not attacks:
        return
    with tag("section"):
        tag("h2", "What could still go wrong")
        tag(
            "p",
            "What somebody gets who has this table and nothing else. The report shows it by what is known of a person; "
            "masquerade attack goes on with an outside table, or an earlier release.",
            "quiet",
        )
        table(
            "Attacks on the release",
            ["Attack", "Figure", "Meaning"],
            [[attack_title(each["name"]), number(each["value"]), each["meaning"]] for each in attacks],
            numbers=(1,),
        )
