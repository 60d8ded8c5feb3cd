"""Runs anjana's k-anonymity in its own environment: python _anjana_runner.py ADULT.csv HIERARCHIES OUT.csv K LEVEL QID…

Prints the seconds that the call took; reading, importing and writing are not timed. Every row of OUT.csv carries the
number that it has in ADULT.csv, so that suppressed rows can be told.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pandas as pd
from anjana.anonymity import k_anonymity  # type: ignore[import-not-found] # only .venv-anjana has it


def main() -> None:
    source, hierarchies, out, k, level, *qid = sys.argv[1:]
    data = pd.read_csv(source, dtype=str)[qid]
    data["row"] = range(len(data))
    levels = {name: _levels(Path(hierarchies) / f"adult_hierarchy_{name}.csv") for name in qid}
    started = time.perf_counter()
    release = k_anonymity(data, [], qid, int(k), float(level), levels)
    seconds = time.perf_counter() - started
    release.to_csv(out, index=False)
    print(seconds)


def _levels(path: Path) -> dict[int, object]:
    return dict(pd.read_csv(path, header=None, sep=";", dtype=str))


if __name__ == "__main__":
    main()
