"""Tables of many rows as partitioned Parquet, anonymised on this machine and on a cluster of two workers on it.

Ten attributes and a class, generated in parts. k is a thousandth of the rows, so that the release has about as many
groups however many rows there are: what grows is the cost of counting. `--set most_rows=1000000` ends earlier, and
`--set cluster_rows=0` leaves the cluster out.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from _figures import Figure, Say, duration, tell

MOST_ROWS = CLUSTER_ROWS = 100_000_000
MEMORY_GB = 8
PART_ROWS = 1_000_000
COARSEST = 1000  # k is the rows divided by this
MOST_EXPONENT, MOST_BYTES = 1.1, 16 << 30
FROM_ROWS = 1_000_000  # below, starting and connecting take most of the time
ATTRIBUTES = ("age", "sex", "region", "job", "education", "hours", "children", "income", "family", "month")


@dataclass(frozen=True)
class Run:
    """What one job took."""

    engine: str
    rows: int
    seconds: float
    processor: float
    peak: int  # bytes, of all processes together
    parts: dict[str, float]
    groups: int
    steps: int


def run(say: Say, save: Path | None) -> dict[str, Any]:
    runs: list[Run] = []
    for power in range(5, round(math.log10(MOST_ROWS)) + 1):
        rows = 10**power
        with tempfile.TemporaryDirectory(prefix="masquerade-scale-") as name:
            folder = Path(name)
            started = time.perf_counter()
            size = generate(folder / "people", rows)
            say(f"{rows:,} rows, {size >> 20} MB of Parquet, written in {duration(time.perf_counter() - started)}")
            runs.append(measure_local(folder, rows, f"{MEMORY_GB}GB"))
            say(_told(runs[-1]))
            shutil.rmtree(folder / "local.parquet")
            if rows <= CLUSTER_ROWS:
                runs.append(measure_cluster(folder, rows))
                say(_told(runs[-1]))
    return {"figures": tell(say, _figures(runs)), "runs": [asdict(each) for each in runs]}


def generate(folder: Path, rows: int, seed: int = 7) -> int:
    """Write a table in parts; return its bytes."""
    folder.mkdir()
    for at, first in enumerate(range(0, rows, PART_ROWS)):
        n = min(PART_ROWS, rows - first)
        pyarrow.parquet.write_table(_part(n, seed + at), folder / f"part-{at:05}.parquet")
    return sum(path.stat().st_size for path in folder.iterdir())


def _part(n: int, seed: int) -> pa.Table:
    dice = np.random.default_rng(seed)
    age = (18 + 80 * dice.beta(1.5, 2.5, n)).astype(np.int16)
    education = dice.binomial(15, 0.3 + age / 400, n)
    job = (education * 6 + dice.integers(0, 10, n)) % 100
    region = np.minimum(dice.geometric(0.06, n), 50) - 1
    income = np.clip(dice.normal(20 + 4 * education + age / 4, 15, n), 0, 300).astype(np.int16)
    hours = np.clip(dice.normal(38, 9, n), 0, 80).astype(np.int8)
    rich = income + dice.normal(0, 12, n) > 65

    def words(codes: np.ndarray, stem: str, size: int) -> pa.Array:
        values = pa.array([f"{stem}{number:03}" for number in range(size)])
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), values)

    return pa.table(
        {
            "age": pa.array(age),
            "sex": words(dice.integers(0, 2, n), "s", 2),
            "region": words(region, "r", 50),
            "job": words(job, "j", 100),
            "education": words(education, "e", 16),
            "hours": pa.array(hours),
            "children": pa.array(dice.binomial(9, 0.2, n).astype(np.int8)),
            "income": pa.array(income),
            "family": words(dice.integers(0, 7, n), "f", 7),
            "month": words(dice.integers(0, 12, n), "m", 12),
            "rich": words(rich.astype(np.int8), "c", 2),
        }
    )


def write_job(folder: Path, rows: int, engine: str, name: str) -> Path:
    """Write the job and its taxonomies beside the table."""
    for stem, attribute, size, width in (("r", "region", 50, 5), ("j", "job", 100, 10)):
        leaves = (f"{stem}{n:03};{stem.upper()}{n // width:02};*\n" for n in range(size))
        (folder / f"{attribute}.csv").write_text("".join(leaves))
    numbers = ("age", "hours", "children", "income")
    lines = ['[data]\nsource = "people"']
    for attribute in ATTRIBUTES:
        kind = 'type = "continuous"' if attribute in numbers else 'taxonomy = "flat"'
        kind = f'taxonomy = "{attribute}.csv"' if attribute in ("region", "job") else kind
        lines.append(f"[attributes.{attribute}]\n{kind}")
    lines.append('[roles]\nclass = "rich"')
    lines.append(f'[[privacy]]\nmodel = "k-anonymity"\nqid = {json.dumps(ATTRIBUTES)}\nk = {rows // COARSEST}')
    lines.append(f'[algorithm]\nname = "tds"\n{engine}\n[output]\ntable = "{name}.parquet"\nreport = false\n')
    path = folder / f"{name}.toml"
    path.write_text("\n".join(lines))
    return path


def measure_local(folder: Path, rows: int, memory: str) -> Run:
    """Run the job on this machine's threads."""
    job = write_job(folder, rows, f'[engine]\nmemory = "{memory}"', "local")
    measured = _measured(job)
    return _run("local", rows, measured, measured["processor_seconds"], measured["peak_bytes"])


def measure_cluster(folder: Path, rows: int) -> Run:
    """Run the job on two workers of this machine; processor and memory are those of all processes."""
    with _cluster(folder) as (address, workers):
        job = write_job(folder, rows, f'[engine]\nname = "dask"\naddress = "{address}"', "dask")
        measured = _measured(job)
        used = [_used(worker.pid) for worker in workers]
    processor = measured["processor_seconds"] + sum(seconds for seconds, _ in used)
    return _run("dask", rows, measured, processor, measured["peak_bytes"] + sum(peak for _, peak in used))


def _measured(job: Path) -> dict:
    launcher = Path(__file__).with_name("_peak.py")
    command = Path(sys.executable).with_name("masquerade")
    words = [sys.executable, str(launcher), str(command), "anonymize", str(job), "--json"]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _run(engine: str, rows: int, measured: dict, processor: float, peak: int) -> Run:
    summary = json.loads(measured["output"])
    return Run(
        engine, rows, measured["seconds"], processor, peak, summary["seconds"], summary["groups"], len(summary["steps"])
    )


@contextmanager
def _cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    contact = folder / "scheduler.json"
    contact.unlink(missing_ok=True)
    local = ("--host", "127.0.0.1", "--no-dashboard")
    environment = {**os.environ, "DASK_TEMPORARY_DIRECTORY": str(folder)}

    def start(kind: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *words, *local]
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    with ExitStack() as stack:

        def ended(process: subprocess.Popen[bytes]) -> None:
            process.kill()
            process.wait()

        scheduler = start("scheduler", "--port", "0", "--scheduler-file", str(contact))
        stack.callback(ended, scheduler)
        while not contact.exists() or not contact.read_text().rstrip().endswith("}"):
            time.sleep(0.1)
        address = json.loads(contact.read_text())["address"]
        workers = []
        for _ in range(2):
            workers.append(start("worker", address, "--nthreads", "1", "--no-nanny", "--memory-limit", "7GB"))
            stack.callback(ended, workers[-1])
        yield address, workers


def _used(pid: int) -> tuple[float, int]:
    """Return the processor seconds and the peak memory of a process that is still there."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return seconds, int(peak.split()[1]) << 10


def _told(run: Run) -> str:
    parts = ", ".join(f"{name} {duration(spent)}" for name, spent in run.parts.items())
    return (
        f"  {run.engine}: {duration(run.seconds)}, {duration(run.processor)} of the processor, "
        f"{run.peak / (1 << 30):.2f} GB at most; {run.groups} groups, {run.steps} steps; {parts}"
    )


def _figures(runs: list[Run]) -> Iterator[Figure]:
    for engine in dict.fromkeys(run.engine for run in runs):
        own = [run for run in runs if run.engine == engine]
        for run in own:
            yield Figure(
                f"{engine}, {run.rows:,} rows",
                f"{duration(run.seconds)}, processor {duration(run.processor)}",
                f"{run.peak / (1 << 30):.2f} GB",
                f"{run.processor / run.rows * 1e6:.2f} µs a row",
                f"within {MOST_BYTES >> 30} GB",
                run.peak <= MOST_BYTES,
            )
        large = [run for run in own if run.rows >= FROM_ROWS]
        if len(large) > 1:
            grown = math.log(large[-1].processor / large[0].processor)
            exponent = grown / math.log(large[-1].rows / large[0].rows)
            what = f"{engine}, growth from {large[0].rows:,} to {large[-1].rows:,} rows"
            yield Figure(
                what, f"exponent {exponent:.2f}", goal=f"at most {MOST_EXPONENT}", met=exponent <= MOST_EXPONENT
            )
