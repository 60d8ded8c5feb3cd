"""What comes of a question about joint keys: a ratio for each set of columns, and what it means in one sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from masquerade.risk.separation import Measure


@dataclass(frozen=True)
class JointRatios:
    """The ratio of each set of columns, over the common records or a sample of them."""

    sets: tuple[tuple[str, ...], ...]
    ratios: tuple[float, ...]
    measure: Measure
    precision: float | None  # ratios are rounded down to its multiples; None: they are exact
    records: int  # that all parties have in common
    compared: int
    parties: tuple[str, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def sampled(self) -> int | None:
        """How many of the common records were compared; None if all were."""
        return self.compared if self.compared < self.records else None

    def answers(self) -> list[dict[str, Any]]:
        """Return each set with its ratio and its meaning."""
        return [
            {"key": list(columns), "ratio": ratio, "meaning": self.meaning(columns, ratio)}
            for columns, ratio in zip(self.sets, self.ratios, strict=True)
        ]

    def meaning(self, columns: tuple[str, ...], ratio: float) -> str:
        """Say what a ratio tells of the people whom all parties have."""
        least = "" if self.precision is None else "at least "
        share = f"{least}{100 * ratio:.4g} %"
        whom = f"{self.compared:,} of the common records" if self.sampled else "the common records"
        named = ", ".join(columns)
        if self.measure == "separation":
            return f"of all pairs of {whom}, {share} differ in one of {named} or more"
        if ratio == 1:
            return f"{named} are a key: every one of {whom} is alone with its values"
        return f"{share} of {whom} would be left, if of those alike in {named} only one were kept"

    def summary(self) -> dict[str, Any]:
        """Return it as the JSON summary has it."""
        return {
            "ratios": self.answers(),
            "measure": self.measure,
            "precision": self.precision,
            "sampled": self.sampled,
            "common_records": self.records,
            "seconds": {part: round(took, 3) for part, took in self.seconds.items()},
        }

    def file(self) -> str:
        """Return the text of the answer's file."""
        told = {key: value for key, value in self.summary().items() if key != "seconds"}
        return json.dumps({**told, "parties": list(self.parties)}, indent=2, ensure_ascii=False) + "\n"
