"""Mondrian on chunks beside Mondrian in one memory: one QID, QIDs that share attributes, cuts between providers.

The same job of the same rows, with `[engine]` and a table of many files, and without of one file. Each run is a process
of its own; the release is held against the other. `--set most_rows=100000` ends earlier.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

import scale
from _figures import Figure, Say, duration, tell

MOST_ROWS = 1_000_000
MEMORY = "512MB"
PARTS = 8
K = 50
SHARED = (("age", "region", "income"), ("region", "job", "hours"))
QIDS = {
    "one QID": (("age", "region", "job", "income", "hours"),),
    "QIDs that share attributes": SHARED,
    "between providers, t-closeness": (("age", "region", "job", "income"),),
}


@dataclass(frozen=True)
class Run:
    """What one job took in one of the two ways."""

    what: str
    rows: int
    chunks: bool
    processor: float
    peak: int
    groups: int
    same: bool = True


def run(say: Say, save: Path | None) -> dict[str, Any]:
    runs: list[Run] = []
    rows = 100_000
    while rows <= MOST_ROWS:
        with tempfile.TemporaryDirectory(prefix="masquerade-chunks-") as name:
            folder = Path(name)
            people = scale._part(rows, 7)
            pyarrow.parquet.write_table(people, folder / "people.parquet")
            (folder / "people").mkdir()
            for at in range(PARTS):
                first, last = (rows * each // PARTS for each in (at, at + 1))
                part = people.slice(first, last - first)
                pyarrow.parquet.write_table(part, folder / "people" / f"part-{at}.parquet")
            for what in QIDS:
                memory, chunks = (measured(folder, what, rows, each) for each in (False, True))
                runs += [memory, chunks]
                say(
                    f"{what}, {rows:,} rows: {duration(memory.processor)} of the processor and {memory.peak >> 20} MB "
                    f"in memory, {duration(chunks.processor)} and {chunks.peak >> 20} MB on chunks; "
                    f"{chunks.groups} groups, {'the same release' if chunks.same else 'ANOTHER RELEASE'}"
                )
        rows *= 10
    return {"figures": tell(say, _figures(runs)), "runs": [asdict(each) for each in runs]}


def measured(folder: Path, what: str, rows: int, chunks: bool) -> Run:
    """Run a job in one of the two ways; on chunks, hold its release against that of the other."""
    job = write_job(folder, what, chunks)
    launcher = Path(__file__).with_name("_peak.py")
    command = Path(sys.executable).with_name("masquerade")
    words = [sys.executable, str(launcher), str(command), "anonymize", str(job), "--json"]
    found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)
    groups = json.loads(found["output"])["groups"]
    same = not chunks or released(folder / "whole.parquet") == released(folder / "chunks.parquet")
    if chunks:
        shutil.rmtree(folder / "chunks.parquet")
    return Run(what, rows, chunks, found["processor_seconds"], found["peak_bytes"], groups, same)


def released(path: Path) -> set[tuple[Any, ...]]:
    """Return the different rows of a release, whose order is secret, each with how often it occurs."""
    table = pyarrow.parquet.read_table(path)
    plain = pa.table({name: table[name].cast(pa.string()) for name in sorted(table.column_names)})
    counted = plain.group_by(plain.column_names).aggregate([([], "count_all")])
    return {tuple(row.values()) for row in counted.to_pylist()}


def write_job(folder: Path, what: str, chunks: bool) -> Path:
    """Write the job and its taxonomies beside the table."""
    for stem, attribute, size, width in (("r", "region", 50, 5), ("j", "job", 100, 10)):
        leaves = (f"{stem}{n:03};{stem.upper()}{n // width:02};*\n" for n in range(size))
        (folder / f"{attribute}.csv").write_text("".join(leaves))
    lines = [f'[data]\nsource = "{"people" if chunks else "people.parquet"}"']
    for attribute in dict.fromkeys(name for qid in QIDS[what] for name in qid):
        tree = attribute in ("region", "job")
        lines.append(
            f"[attributes.{attribute}]\n" + (f'taxonomy = "{attribute}.csv"' if tree else 'type = "continuous"')
        )
    providers = "providers" in what
    lines.append('[roles]\nsensitive = ["education"]' + ('\nprovider = "family"' if providers else ""))
    for qid in QIDS[what]:
        lines.append(f'[[privacy]]\nmodel = "k-anonymity"\nqid = {json.dumps(qid)}\nk = {K}')
    if providers:
        qid = json.dumps(QIDS[what][0])
        lines.append(f'[[privacy]]\nmodel = "t-closeness"\nqid = {qid}\nt = 0.5\nsensitive = "education"')
        lines.append('[[privacy]]\nmodel = "m-privacy"\nm = 1')
    engine = f'[engine]\nmemory = "{MEMORY}"' if chunks else ""
    name = "chunks" if chunks else "whole"
    lines.append(f'[algorithm]\nname = "mondrian"\n{engine}')
    lines.append(f'[output]\ntable = "{name}.parquet"\nreport = false\n')
    path = folder / f"{name}.toml"
    path.write_text("\n".join(lines))
    return path


def _figures(runs: list[Run]) -> Iterator[Figure]:
    for memory, chunks in zip(runs[::2], runs[1::2], strict=True):
        yield Figure(
            f"{chunks.what}, {chunks.rows:,} rows",
            f"processor {duration(chunks.processor)}, {chunks.peak >> 20} MB",
            f"in memory {duration(memory.processor)}, {memory.peak >> 20} MB",
            f"{chunks.processor / memory.processor:.2f} times the processor",
            "the same release",
            chunks.same,
        )
