"""5 million records from CSV file to CSV file, and the memory that the command takes at its peak.

Adult blown up, about 550 MB; one QID of all 14 attributes, k = 50. The table and the release are deleted afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import _adult
from _blow_up import blow_up
from _figures import Figure, Say, duration, tell

RECORDS, K, SEED = 5_000_000, 50, 7
GOAL_BYTES = 8 << 30


def run(say: Say, save: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        say(f"writing {RECORDS:,} records")
        table = blow_up(_adult.adult(), _adult.ALL14, RECORDS, SEED)
        source = _adult.write_csv(table, Path(folder) / "large.csv")
        del table
        size = source.stat().st_size
        job = _adult.write_job(source, _adult.ALL14, K)
        say(f"masquerade anonymize, {size >> 20} MB of CSV")
        measured = json.loads(_measure("anonymize", str(job), "--json"))
    summary = json.loads(measured["output"])
    peak, seconds = measured["peak_bytes"], summary["seconds"]
    parts = ", ".join(f"{name} {duration(spent)}" for name, spent in seconds.items())
    figures = [
        Figure(
            f"peak memory, {RECORDS:,} records",
            f"{peak / (1 << 30):.2f} GB",
            f"CSV {size / (1 << 30):.2f} GB",
            f"{peak / size:.1f}",
            f"within {GOAL_BYTES >> 30} GB",
            peak <= GOAL_BYTES,
        ),
        Figure("whole command", duration(measured["seconds"])),
    ]
    told = tell(say, figures)
    say(f"of which {parts}; {summary['groups']} groups, {len(summary['steps'])} specializations")
    return {"figures": told, "peak_bytes": peak, "seconds": seconds}


def _measure(*words: str) -> str:
    launcher = Path(__file__).with_name("_peak.py")
    command = Path(sys.executable).with_name("masquerade")
    run = subprocess.run(
        [sys.executable, str(launcher), str(command), *words], check=True, stdout=subprocess.PIPE, text=True
    )
    return run.stdout
