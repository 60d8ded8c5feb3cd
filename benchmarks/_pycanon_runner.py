"""Runs pycanon's checks in its environment: python _pycanon_runner.py ADULT.csv SENSITIVE QID…

Prints, as JSON, the value and the processor seconds of each; reading and importing are not counted.
"""

from __future__ import annotations

import json
import sys
import time

import pandas as pd
from pycanon import anonymity  # type: ignore[import-not-found] # only .venv-anjana has it


def main() -> None:
    source, sensitive, *qid = sys.argv[1:]
    data = pd.read_csv(source, dtype=str)
    found = {}
    for name, more in (("k_anonymity", ()), ("l_diversity", ([sensitive],)), ("t_closeness", ([sensitive],))):
        started = time.process_time()
        value = getattr(anonymity, name)(data, qid, *more)
        found[name] = {"value": float(value), "seconds": time.process_time() - started}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
