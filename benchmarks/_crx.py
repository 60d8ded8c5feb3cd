"""UCI's credit-screening data (crx), as the paper uses it: 653 complete records, six numbers, the class A16."""

from __future__ import annotations

import csv

import pyarrow as pa

import _data

NAME = "crx.data"
NUMBERS = ("A2", "A3", "A8", "A11", "A14", "A15")
CLASS = "A16"
_COLUMNS = 16


def crx() -> pa.Table | None:
    """The records without a missing value; None where the file is not there."""
    path = _data.folder("crx") / NAME
    if not path.exists():
        return None
    with path.open(newline="", encoding="utf-8") as lines:
        records = [cells for cells in csv.reader(lines) if len(cells) == _COLUMNS and "?" not in cells]
    columns = {name: [float(cells[int(name[1:]) - 1]) for cells in records] for name in NUMBERS}
    return pa.table({**columns, CLASS: [cells[-1] for cells in records]})
