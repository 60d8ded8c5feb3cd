"""A table, figure or claim of a paper, the experiment that repeats it, and the rule by which its results are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

REPRODUCED, BETTER, NOT_REPRODUCED = "reproduced", "better", "not reproduced"
NOT_COMPARABLE = "not comparable"  # generated data, or too little of it
NOT_RUN = "not run"  # something that it needs is missing

Results = Mapping[str, Any]  # what an experiment returns; `figures` has its rows


@dataclass(frozen=True)
class Verdict:
    """Whether the paper's exhibit was seen again, and why not."""

    word: str
    why: str = ""


Judge = Callable[[Results, Sequence[Mapping[str, Any]]], Verdict]  # all results, and the rows of the exhibit


@dataclass(frozen=True)
class Exhibit:
    """One exhibit. `rows` are the beginnings of the figures that belong to it; `code` is where it lives."""

    name: str
    shows: str
    judge: Judge
    rows: tuple[str, ...] = ("",)
    charts: tuple[str, ...] = ()
    code: str = ""

    def own_rows(self, results: Results) -> list[Mapping[str, Any]]:
        """Return the figures that belong to it."""
        return [each for each in results["figures"] if each["what"].startswith(self.rows)]


@dataclass(frozen=True)
class Experiment:
    """A file of benchmarks/ that serves exhibits; `quick` are constants of it that make it short."""

    name: str
    settings: str
    exhibits: tuple[Exhibit, ...]
    quick: Mapping[str, Any] = field(default_factory=dict)
    on_uci_data: bool = True  # False: on data of its own, so that figures can be compared everywhere


@dataclass(frozen=True)
class Paper:
    """A paper by the name that --paper takes; `text` is the collection that it stands in, if any."""

    name: str
    title: str
    experiments: tuple[Experiment, ...]
    text: str = ""


def by_goals(why_not: str = "", word: str = REPRODUCED) -> Judge:
    """Judge by the goals that the rows state themselves."""

    def judge(results: Results, rows: Sequence[Mapping[str, Any]]) -> Verdict:
        missed = [row["what"] for row in rows if row["met"] is False]
        if not any(row["met"] is not None for row in rows):
            return Verdict(NOT_COMPARABLE, "nothing was measured")
        return Verdict(NOT_REPRODUCED, _sentence(missed, why_not)) if missed else Verdict(word)

    return judge


def by_claims(
    claims: Callable[[Results], Iterable[tuple[str, bool]]], why_not: str = "", word: str = REPRODUCED
) -> Judge:
    """Judge by what the paper says, claim by claim, each with whether it holds on our results."""

    def judge(results: Results, rows: Sequence[Mapping[str, Any]]) -> Verdict:
        failed = [claim for claim, holds in claims(results) if not holds]
        return Verdict(NOT_REPRODUCED, _sentence(failed, why_not)) if failed else Verdict(word)

    return judge


def _sentence(failed: Sequence[str], why: str) -> str:
    shown = "; ".join(failed[:3]) + (f"; {len(failed) - 3} more" if len(failed) > 3 else "")
    return f"not: {shown}. {why}".strip()
