"""An exhibit as it was repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from _exhibits.exhibit import Exhibit, Experiment, Paper, Verdict


@dataclass(frozen=True)
class Seen:
    """An exhibit with its verdict and its rows; `seconds` are of the whole experiment, which may serve several."""

    paper: Paper
    experiment: Experiment
    exhibit: Exhibit
    verdict: Verdict
    rows: Sequence[Mapping[str, Any]]
    seconds: float
    quick: bool

    @property
    def settings(self) -> str:
        """What was run, for people; a short run says what was made smaller."""
        if not self.quick:
            return self.experiment.settings
        smaller = ", ".join(f"{key.lower()} = {value}" for key, value in self.experiment.quick.items())
        return f"{self.experiment.settings}; quick: {smaller}"
