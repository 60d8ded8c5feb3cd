"""Options that several commands have: how a table is written, lists of columns, and their weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from masquerade.data.table_file import TableFile

TableArgument = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="A table: .csv, .parquet, or a database URL.", show_default=False),
]
Query = Annotated[
    str | None, typer.Option(help="The query, where TABLE is a database URL.", show_default=False)
]
Separator = Annotated[
    str | None, typer.Option(help="Of a CSV file; by default, as its header shows.", show_default=False)
]
Encoding = Annotated[
    str | None, typer.Option(help="Of a CSV file; by default, as its bytes show.", show_default=False)
]
WeightsFile = Annotated[
    Path | None,
    typer.Option(
        "--weights", metavar="FILE", help="Weights of columns: .toml, .json, .csv.", show_default=False
    ),
]
Columns = Annotated[str, typer.Option(metavar="A,B", help="Look at these columns alone.", show_default=False)]
Seed = Annotated[int, typer.Option(min=0, help="Draws the samples.")]


def words(text: str) -> list[str]:
    """The words of a list that is separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def table_file(source: str, query: str | None, separator: str | None, encoding: str | None) -> TableFile:
    """The table that the options describe; a separator may be written as \\t."""
    from masquerade.data.table_file import TableFile

    return TableFile(source, query, "\t" if separator == "\\t" else separator, encoding)


def weights_in(file: Path | None) -> dict[str, float] | None:
    """The weights in a file, if one is given."""
    from masquerade.risk.weights import read_weights

    return None if file is None else read_weights(file)
