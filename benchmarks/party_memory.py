"""What a party's own process holds, with its table in one memory, and with an engine that reads it in chunks.

Two parties of generated people in Parquet files, each a process of its own, specialise with plain scores, on a quarter
of the records and on all: once without an engine, once with one of as little memory as is allowed. The figure is the
growth of the largest party's peak, in bytes a record: what it takes however small the engine is. Linux alone tells it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet

import masquerade as mq
from _figures import Figure, Say, tell

RECORDS = 2_000_000
ENGINE = '[engine]\nmemory = "512MB"\n'
_COLUMNS = {
    "bank": ["ssn", "birth_date", "salary", "children", "education"],
    "clinic": ["ssn", "town", "sex", "approved"],
}
_JOB = """
[parties.bank]
source = "bank.parquet"
id = "ssn"
[parties.clinic]
source = "clinic.parquet"
id = "ssn"
attributes = ["town", "sex", "approved"]
[attributes.birth_date]
type = "date"
[attributes.salary]
type = "continuous"
[attributes.children]
type = "continuous"
[attributes.town]
taxonomy = "flat"
[attributes.sex]
taxonomy = "flat"
[attributes.education]
[roles]
class = "approved"
[[privacy]]
model = "k-anonymity"
qid = ["birth_date", "salary", "children", "town", "sex"]
k = 1000
[algorithm]
name = "tds"
argmax = "plain"
[output]
table = "release.parquet"
report = false
"""


def run(say: Say, save: Path | None) -> dict[str, Any]:
    peaks: dict[str, list[int]] = {"in one memory": [], "in chunks": []}
    sizes = (RECORDS // 4, RECORDS)
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            people = mq.generate_people(n, missing=0)
            for party, columns in _COLUMNS.items():
                path = Path(folder) / f"{party}.parquet"
                pyarrow.parquet.write_table(people.select(columns), path, row_group_size=1 << 17)
            for how, engine in (("in one memory", ""), ("in chunks", ENGINE)):
                job = Path(folder) / "job.toml"
                job.write_text(_JOB + engine, encoding="utf-8")
                peaks[how].append(_peak(job))
                say(f"{n:,} records, {how}: {peaks[how][-1] / 1e6:.0f} MB at the largest party's peak")
    growth = {how: (last - first) / (sizes[1] - sizes[0]) for how, (first, last) in peaks.items()}
    whole, chunks = growth["in one memory"], growth["in chunks"]
    figure = Figure(
        f"{RECORDS:,} records: a party that reads in chunks takes",
        f"{chunks:.0f} bytes a record",
        f"in one memory {whole:.0f}",
        f"{chunks / whole:.2f}",
    )
    return {"figures": tell(say, [figure]), "peaks": peaks}


def _peak(job: Path) -> int:
    """Run a mashup; return the peak memory of its largest party, in bytes."""
    command = [sys.executable, "-m", "masquerade", "mashup", str(job), "--json"]
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        while started.poll() is None:
            peak = max([peak, *map(_held, _below(started.pid))])
            time.sleep(0.05)
    assert started.returncode == 0, "the mashup failed"
    return peak


def _below(process: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    found = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = [int(each) for each in tasks.read_text(encoding="ascii").split()]
        except OSError:  # it has ended
            continue
        found += [each for child in children for each in (child, *_below(child))]
    return found


def _held(process: int) -> int:
    """Return the most memory that a party's process has had; of any other process 0."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+)", status)
    return int(found[1]) << 10 if found is not None and b"party_process" in command else 0
