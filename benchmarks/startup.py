"""How long `masquerade --help` and a small `masquerade anonymize` take: heavy libraries are loaded where they are used.

The job is Top5 of Adult with k = 100 and without a report. Beside it: what the libraries that no job can do without
take to load, and one more run of the same job in a process that has everything loaded, which is the work itself.

Modules are compiled before the first run that counts, as they are where the package is installed: Python is told where
to keep what it compiles, whatever the environment says about that. Goals are for seconds of the processor, which other
work on the machine changes least.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _adult
from _figures import Durations, Figure, Say, in_turn, tell
from masquerade.jobs import anonymize_job

REPEATS = 10
GOAL_SECONDS = 0.5
FORMER_SECONDS, FORMER_GOAL = 0.42, 0.5  # of the whole command on idle cores before; what is to be left of it
BARE = "python -c pass"
LIBRARIES = "import numpy, pyarrow.compute, pyarrow.csv, pydantic, typer"


def run(say: Say, save: Path | None) -> dict[str, Any]:
    command = Path(sys.executable).with_name("masquerade")
    with tempfile.TemporaryDirectory() as folder:
        source = _adult.write_csv(_adult.adult(), Path(folder) / "adult.csv")
        job = _adult.write_job(source, _adult.TOP5, 100, _adult.TOP5)
        compiled = Path(folder) / "compiled"
        programs: dict[str, Callable[[], Durations]] = {
            BARE: started(compiled, sys.executable, "-c", "pass"),
            "masquerade --help": started(compiled, command, "--help"),
            "masquerade anonymize --help": started(compiled, command, "anonymize", "--help"),
            LIBRARIES: started(compiled, sys.executable, "-c", LIBRARIES),
            "masquerade anonymize, Adult": started(compiled, command, "anonymize", job, "--json"),
            "the same once everything is loaded": lambda: measured(lambda: anonymize_job(job)),
        }
        spent = in_turn(programs, REPEATS)
    bare = spent[BARE]["processor"]
    goals = {name: GOAL_SECONDS for name in spent if "--help" in name}
    goals["masquerade anonymize, Adult"] = FORMER_GOAL * FORMER_SECONDS
    return {
        "figures": tell(
            say,
            [
                Figure(
                    name,
                    f"{parts['total']}; processor {parts['processor']}",
                    f"{BARE} {bare}",
                    f"{parts['processor'].best / bare.best:.1f}",
                    f"under {goals[name]} s" if name in goals else "",
                    parts["processor"].median < goals[name] if name in goals else None,
                )
                for name, parts in spent.items()
                if name != BARE
            ],
        )
    }


def started(compiled: Path, *words: str | Path) -> Callable[[], Durations]:
    """Return what runs a command once, with compiled modules in a folder."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return lambda: measured(lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment))


def measured(action: Callable[[], object]) -> Durations:
    """Return what an action takes by the clock, and of the processor, its children included."""
    clock, before = time.perf_counter(), processor_seconds()
    action()
    return {"total": time.perf_counter() - clock, "processor": processor_seconds() - before}


def processor_seconds() -> float:
    """Return what this process and its children have had of the processor."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)
