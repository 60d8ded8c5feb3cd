"""Reading Adult's CSV: masquerade.read, a job's reader, pandas and plain pyarrow."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.csv

import _adult
import masquerade as mq
from _figures import Figure, Say, clocked, in_turn, tell
from masquerade.data import Table, TableFile

REPEATS = 15


def run(say: Say, save: Path | None) -> dict[str, Any]:
    names = [*_adult.ALL14, _adult.CLASS]
    with tempfile.TemporaryDirectory() as folder:
        source = _adult.write_csv(_adult.adult(), Path(folder) / "adult.csv")
        meaning = _adult.schema()

        def ranks() -> None:
            found = TableFile(str(source), encoding="utf-8").read(names, set(names))
            Table(found.table, meaning, origin=found.origin).complete(names).columns(_adult.ALL14)

        spent = in_turn(
            {
                "pandas.read_csv": clocked(lambda: pd.read_csv(source)),
                "pyarrow.csv.read_csv": clocked(lambda: pyarrow.csv.read_csv(source)),
                "masquerade.read, with a schema": clocked(lambda: mq.read(source, schema=meaning)),
                "masquerade.read, guessing the schema": clocked(lambda: mq.read(source, _adult.taxonomies())),
                "masquerade, file to ranks (all 14 attributes)": clocked(ranks),
            },
            REPEATS,
        )
    pandas = spent["pandas.read_csv"]["total"]
    return {
        "figures": tell(
            say,
            [
                Figure(name, str(parts["total"]), "pandas.read_csv", f"{parts['total'].best / pandas.best:.2f}")
                for name, parts in spent.items()
            ],
        )
    }
