"""Runs one program of `peers` in a process of its own.

    python _peer_runner.py PROGRAM ADULT.csv HIERARCHIES OUT.csv K LEVEL QID…

Prints, as JSON, the processor seconds of the best call and the memory that the first added to the process; reading,
importing and writing are not counted. Every row of OUT.csv carries the number that it has in ADULT.csv, so that
suppressed rows can be told. Each program runs in its own environment, so each is imported where it is used.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

Frame = pd.DataFrame
Call = Callable[[], Frame]


def anjana(data: Frame, hierarchies: Path, k: int, level: float) -> Call:
    """anjana's k-anonymity."""
    from anjana.anonymity import k_anonymity  # type: ignore[import-not-found] # only .venv-anjana has it

    qid = [name for name in data.columns if name != "row"]
    levels = {name: dict(pd.read_csv(_hierarchy(hierarchies, name), header=None, sep=";", dtype=str)) for name in qid}
    return lambda: k_anonymity(data, [], qid, k, level, levels)


def plain_mondrian(data: Frame, hierarchies: Path, k: int, level: float) -> Call:
    """Mondrian in plain Python, as people publish it: no arrays, one record after the other."""
    from _plain_mondrian import plain_mondrian as partition

    trees, qid = _trees(data, hierarchies)

    def call() -> Frame:
        records = list(data[[*qid, "row"]].itertuples(index=False, name=None))
        groups = partition(records, trees, k, on_ranks=False)
        labels = [(record[-1], *(tree.label(cell.lo, cell.hi) for tree, cell in zip(trees, cells, strict=True)))
                  for group, cells in groups for record in group]  # fmt: skip
        return pd.DataFrame(labels, columns=["row", *qid])

    return call


def masquerade(data: Frame, hierarchies: Path, k: int, level: float, algorithm: str) -> Call:
    """One of our methods; suppression is for top-down specialization alone."""
    import masquerade as mq

    trees, qid = _trees(data, hierarchies)
    attributes = [mq.Attribute(name, "categorical", tree) for name, tree in zip(qid, trees, strict=True)]
    schema = mq.Schema([*attributes, mq.Attribute("row", "continuous")])
    methods: dict[str, Any] = {
        "tds": lambda: mq.TopDownSpecialization(None, "certainty", level / 100),
        "mondrian": mq.Mondrian,
        "cheapest-box": mq.CheapestBox,
    }

    def call() -> Frame:
        return mq.anonymize(mq.Table(data, schema), mq.KAnonymity(qid, k), methods[algorithm]()).table.to_pandas()

    return call


REPEATS, PATIENCE = 5, 2.0  # as often as that, while it takes no longer than so many seconds
PROGRAMS = {"anjana": anjana, "plain-mondrian": plain_mondrian}


def main() -> None:
    program, source, hierarchies, out, k, level, *qid = sys.argv[1:]
    data = pd.read_csv(source, dtype=str)[qid]
    data["row"] = range(len(data))
    made = PROGRAMS.get(program)
    given = (data, Path(hierarchies), int(k), float(level))
    call = made(*given) if made else masquerade(*given, program.removeprefix("masquerade-"))
    before = _start_peak()
    started = time.process_time()
    release = call()
    seconds = [time.process_time() - started]
    added = _memory("VmHWM") - before
    while len(seconds) < REPEATS and sum(seconds) < PATIENCE:
        seconds.append(_timed(call))
    release.to_csv(out, index=False)
    print(json.dumps({"seconds": min(seconds), "added_bytes": added}))


def _timed(call: Call) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def _start_peak() -> int:
    """Let the peak of memory count from now on; a process starts with that of whoever started it."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def _hierarchy(hierarchies: Path, name: str) -> Path:
    return hierarchies / f"adult_hierarchy_{name}.csv"


def _trees(data: Frame, hierarchies: Path) -> tuple[list[Any], list[str]]:
    import masquerade as mq

    qid = [name for name in data.columns if name != "row"]
    return [mq.read_taxonomy(_hierarchy(hierarchies, name)) for name in qid], qid


if __name__ == "__main__":
    main()
