"""What a session is about, in the words that job files, contracts and reports share.

How its parties hold their data, what they make together, and how the choice of a method is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from masquerade.privacy import Covers, covers, covers_against_insiders

# --- arrangement --------------------------------------------------------------------------------------------
# How the parties of a session hold their data, and what follows from that for methods, contracts and
# requests.
#
# What the service makes of it (who can take part, what an offer must have, what it costs) is in
# `service/agree/arrangements.py`.

PROVIDER = "provider"  # the default name of the column that names each record's provider
Arrangement = Literal["vertical", "horizontal"]


@dataclass(frozen=True)
class Holding:
    """What one arrangement means.

    Where the parties have different people, all requirements are wrapped in m-privacy, with m = 0 as well: m grows
    during a negotiation, and a part that was left out before as implied would be missing then.
    """

    columns: str  # of the parties, compared with each other, in words
    provider: str | None  # the column that names each record's provider, where records have one
    default_m: int  # how many parties may collude, unless a request says so
    covers: Covers  # whether one requirement implies another


ARRANGEMENTS: Mapping[Arrangement, Holding] = {
    "vertical": Holding("different columns", None, 0, covers),
    "horizontal": Holding("the same columns", PROVIDER, 1, covers_against_insiders),
}


# --- product ------------------------------------------------------------------------------------------------
# What parties make together, a table, a model or an answer, and what follows from that for whoever grants
# or keeps it.
#
# A method declares which one it makes (`AskedMethod.makes`). What a policy must say about each is in
# `service/agree/objections.py`, and what publishing does with each in `service/coordinator/release_files.py`.


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
    every_run_counts=True,  # two models of nearly the same records tell their difference
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


def chosen_lines(choice: Mapping[str, Any]) -> list[str]:
    """Say for a person why a method was taken, given a choice as JSON has it: a line for each reason."""
    lines = [str(choice.get("because"))]
    for each in choice.get("passed_over") or ():
        name = each["method"]["name"]
        lines += [f"not {name}: {reason}" for reason in each.get("refuses") or ()]
        if by := each.get("not_allowed_by"):
            lines.append(f"not {name}: not allowed by {', '.join(by)}")
    return list(dict.fromkeys(lines))  # a method may be passed over with several settings
