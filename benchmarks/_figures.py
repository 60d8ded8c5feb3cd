"""What every experiment prints and returns: measured, reference, ratio, goal."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Say = Callable[[str], None]
Durations = Mapping[str, float]


@dataclass(frozen=True)
class Spent:
    """Seconds of one thing, measured several times."""

    best: float
    median: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spent:
        """The best and the median."""
        return cls(min(seconds), statistics.median(seconds))

    def __str__(self) -> str:
        return f"{duration(self.best)} (median {duration(self.median)})"


@dataclass(frozen=True)
class Figure:
    """One row of an experiment's table; `met` is None where nothing was promised."""

    what: str
    measured: str
    reference: str = ""
    ratio: str = ""
    goal: str = ""
    met: bool | None = None


def in_turn(calls: Mapping[str, Callable[[], Durations]], repeats: int) -> dict[str, dict[str, Spent]]:
    """Call each once to warm up, then all of them in turn: whatever else the machine does, it does to all.

    A call returns the durations it measured, by name.
    """
    for call in calls.values():
        call()
    seen: dict[str, list[Durations]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            seen[name].append(call())
    return {
        name: {part: Spent.of([each[part] for each in durations]) for part in durations[0]}
        for name, durations in seen.items()
    }


def clocked(call: Callable[[], object]) -> Callable[[], Durations]:
    """The call, returning its own duration as `total`."""

    def timed() -> Durations:
        started = time.perf_counter()
        call()
        return {"total": time.perf_counter() - started}

    return timed


def duration(seconds: float) -> str:
    """For reading: 18.2 ms, 0.31 s, 12 s."""
    if seconds < 0.1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def tell(say: Say, figures: Iterable[Figure]) -> list[dict[str, Any]]:
    """Print the table; returns it for the JSON."""
    rows = list(figures)
    header = Figure("", "measured", "reference", "ratio", "goal")
    verdicts = {None: "", True: "met", False: "NOT MET"}
    cells = [(each.what, each.measured, each.reference, each.ratio, each.goal) for each in (header, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(5)]
    for row, verdict in zip(cells, ("", *(verdicts[each.met] for each in rows)), strict=True):
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        say("  ".join([*padded, verdict]).rstrip())
    return [asdict(each) for each in rows]


def save_chart(save: Path | None, name: str, svg: str) -> None:
    """Write a chart as a file of its own when results are kept."""
    if save is not None:
        from masquerade.report.charts import standalone

        (save / f"{name}.svg").write_text(standalone(svg), encoding="utf-8")
