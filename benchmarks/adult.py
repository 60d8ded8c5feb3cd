"""Adult, 45,222 records: reading and anonymising beside what pandas takes to read the same CSV.

The quasi-identifiers Top5 (k = 100) and all 14 attributes (k = 50), by gain-ratio, through the job that a user runs: in
this process, warmed up as pandas is, and as a command of its own. The paper takes 20 s for each experiment on Adult.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

import _adult
from _figures import Durations, Figure, Say, Spent, clocked, in_turn, tell
from masquerade.jobs import anonymize_job

REPEATS = 15
PAPER_SECONDS = 20.0
GOALS = {"Top5": 1, "all 14": 4}  # at most so many times what pandas takes


def run(say: Say, save: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        source = _adult.write_csv(_adult.adult(), Path(folder) / "adult.csv")
        jobs = {
            "Top5": _adult.write_job(source, _adult.TOP5, 100, _adult.TOP5),
            "Top5 and 9 raw": _adult.write_job(source, _adult.TOP5, 100),
            "all 14": _adult.write_job(source, _adult.ALL14, 50),
        }
        inside = {name: partial(_in_process, job) for name, job in jobs.items()}
        spent = in_turn({"pandas": clocked(lambda: pd.read_csv(source)), **inside}, REPEATS)
        commands = in_turn({name: partial(_as_command, job) for name, job in jobs.items()}, REPEATS // 3)
    pandas = spent.pop("pandas")["total"]
    figures = [figure for name, parts in spent.items() for figure in _figures(name, parts, pandas)]
    for name, parts in commands.items():
        figures.append(_beside(f"{name}: anonymise, verify, as a command", parts["anonymize"], pandas, GOALS.get(name)))
        figures.append(Figure(f"{name}: the whole command, with process start", str(parts["whole"])))
    return {"figures": tell(say, figures)}


def _in_process(job: Path) -> Durations:
    seconds = anonymize_job(job).release.seconds
    return {**seconds, "read and anonymize": seconds["read"] + seconds["anonymize"]}


def _as_command(job: Path) -> Durations:
    command: list[str | Path] = [Path(sys.executable).with_name("masquerade"), "anonymize", job, "--json"]
    started = time.perf_counter()
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    whole = time.perf_counter() - started
    return {**json.loads(finished.stdout)["seconds"], "whole": whole}


def _figures(name: str, parts: dict[str, Spent], pandas: Spent) -> Iterator[Figure]:
    goal = GOALS.get(name)
    yield _beside(f"{name}: anonymise, verify", parts["anonymize"], pandas, goal)
    yield _beside(f"{name}: read, anonymise, verify", parts["read and anonymize"], pandas, goal)
    factor = PAPER_SECONDS / parts["read and anonymize"].best
    yield Figure(
        f"{name}: beside the paper",
        str(parts["read and anonymize"]),
        f"paper {PAPER_SECONDS:.0f} s",
        f"1/{factor:,.0f}",
    )


def _beside(what: str, measured: Spent, pandas: Spent, goal: int | None) -> Figure:
    """A goal is met when the best times and the medians both say so: near a limit, the best alone flatter."""
    best, median = measured.best / pandas.best, measured.median / pandas.median
    return Figure(
        what,
        str(measured),
        f"pandas.read_csv {pandas}",
        f"{best:.2f} (median {median:.2f})",
        f"at most {goal} ×" if goal else "",
        max(best, median) <= goal if goal else None,
    )
