"""Runs others' measures of a quasi-identifier in their environment: python _ratios_runner.py TABLE.csv COLUMN…

QIDLearningLib's distinction and separation, and pycanon's groups of equal rows. Prints, as JSON, the value and the
processor seconds of each, the better of two runs; reading and importing are not counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pandas as pd
from pycanon.anonymity.utils.aux_anonymity import get_equiv_class  # type: ignore[import-not-found] # only .venv-anjana has it
from QIDLearningLib.metrics.qid_specific import distinction, separation  # type: ignore[import-not-found] # only .venv-anjana has it


def main() -> None:
    source, *columns = sys.argv[1:]
    data = pd.read_csv(source, dtype=str)
    calls: dict[str, Callable[[], Any]] = {
        "distinct": lambda: distinction(data, columns) / 100,
        "separation": lambda: separation(data, columns) / 100,
        "groups": lambda: len(get_equiv_class(data, columns)),
    }
    found = {}
    for name, call in calls.items():
        seconds = float("inf")
        for _ in range(2):
            started = time.process_time()
            value = call()
            seconds = min(seconds, time.process_time() - started)
        found[name] = {"value": float(value), "seconds": seconds}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
