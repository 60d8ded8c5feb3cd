"""What parties make together, a table, a model or an answer, and what follows from that for whoever grants or keeps it.

A method declares which one it makes (`AskedMethod.makes`). What a policy must say about each is in
`service/reservations.py`, and what publishing does with each in `service/coordinator/products.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Product:
    """One kind of thing that comes out of a session."""

    name: str
    files: Mapping[str, str]  # by format; the digest is of the first
    # Whether records leave, in groups: only then do requirements, boundaries and colluders mean something, and a
    # further one can be intersected with the first.
    has_groups: bool = False
    every_run_counts: bool = False  # a ledger has a line for every run, not for every agreement
    comes: str = "makes a table"  # what a method does that makes it, after its name
    shows: str = ""  # without groups: what is released instead of records, for whoever signs
    figure: str = ""  # without groups: the key that only its summary has
    counted: str = "{:,} rows"  # how many records it is of, in words

    @property
    def formats(self) -> str:
        """The formats, in words."""
        return " and ".join(self.files)


TABLE = Product("table", {"csv": "release.csv", "parquet": "release.parquet"}, has_groups=True)
MODEL = Product(
    "model",
    {"json": "model.json"},
    comes="learns a model",
    shows="no record is released: the parties learn a model",
    figure="model",
    counted="a model of {:,} records",
)
ANSWER = Product(
    "answer",
    {"json": "answer.json"},
    every_run_counts=True,  # a peer may make up another column each time
    comes="answers a question",
    shows="no record is released: the parties answer a question with ratios",
    figure="ratios",
    counted="over {:,} common records",
)
PRODUCTS = (TABLE, MODEL, ANSWER)


def product_in(summary: Mapping[str, Any]) -> Product:
    """Return the product that a published summary describes."""
    return next((each for each in PRODUCTS if each.figure and each.figure in summary), TABLE)


def product_of(file: str) -> Product:
    """Return the product that a file of this name belongs to."""
    return next(each for each in PRODUCTS if file in each.files.values())
