"""UCI's credit-screening data (crx), as the paper uses it: 653 complete records, six numbers, the class A16."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa

DATA = Path(__file__).resolve().parents[1] / "../shared/data/crx/crx.data"
NUMBERS = ("A2", "A3", "A8", "A11", "A14", "A15")
CLASS = "A16"
_COLUMNS = 16


def crx() -> pa.Table | None:
    """The records without a missing value; None where the file is not there."""
    if not DATA.exists():
        return None
    with DATA.open(newline="", encoding="utf-8") as lines:
        records = [cells for cells in csv.reader(lines) if len(cells) == _COLUMNS and "?" not in cells]
    columns = {name: [float(cells[int(name[1:]) - 1]) for cells in records] for name in NUMBERS}
    return pa.table({**columns, CLASS: [cells[-1] for cells in records]})
