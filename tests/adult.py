"""The Adult census table, for tests of the papers' figures; they are skipped where the data is absent."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from masquerade import Attribute, Schema, Table, read_taxonomy

FOLDER = Path(__file__).parents[1] / "../shared/data/adult"
NAMES = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
    "income",
]
NUMBERS = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
TOP5 = ("capital-gain", "age", "marital-status", "education-num", "relationship")
TOP7 = (*TOP5, "hours-per-week", "sex")
TOP9 = (*TOP7, "education", "occupation")
TRAINING_ROWS = 30_162  # without missing values; they come first


@cache
def adult() -> Table:
    """Training and test records together, missing values ("?") included."""
    if not (FOLDER / "adult.data").exists():
        pytest.skip("the Adult data is not in ../shared/data")
    rows = [
        line.rstrip(".").split(", ")
        for part in ("adult.data", "adult.test")
        for line in (FOLDER / part).read_text().splitlines()
        if line.count(",") == len(NAMES) - 1
    ]
    schema = Schema(
        Attribute(name, "continuous")
        if name in NUMBERS
        else Attribute(name, taxonomy=read_taxonomy(FOLDER / "taxonomies" / f"{name}.csv"))
        for name in NAMES[:-1]
    )
    return Table(pa.table(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))), schema)
