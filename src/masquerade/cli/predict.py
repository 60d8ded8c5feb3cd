"""`masquerade predict MODEL TABLE`: what a model says of each row of a table."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, print_json, progress, say
from masquerade.cli.table_options import Encoding, Query, Separator, TableArgument, table_file, words

if TYPE_CHECKING:
    from masquerade.library.predicting import Predictions


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The model's file (.json).", show_default=False)
    ],
    table: TableArgument,
    site_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="pp-svm, pp-cox: what a site of the session keeps.", show_default=False
        ),
    ] = None,
    job: Annotated[
        Path | None,
        typer.Option(metavar="JOB", help="Says which columns have taxonomies or dates.", show_default=False),
    ] = None,
    attribute: Annotated[
        str | None, typer.Option(help="bayes-net: what to predict, if not the class.", show_default=False)
    ] = None,
    times: Annotated[
        str, typer.Option(metavar="T,U", help="cox, pp-cox: survival at these times.", show_default=False)
    ] = "",
    keep: Annotated[
        str, typer.Option(metavar="A,B", help="Columns to copy in front.", show_default=False)
    ] = "",
    missing_values: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Texts that mean a missing cell; else as the model has it.",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse a value that the model has never seen.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write .csv or .parquet.", show_default=False),
    ] = None,
    query: Query = None,
    separator: Separator = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Apply a model to each row of a table, in the table's order. Without --output it is printed as CSV.

    A row that lacks a cell, or has a value that the model has never seen, gets an empty prediction; --strict refuses
    such a value.

    A model of mapped records (pp-svm, pp-cox) says nothing without the matrix that its sites keep to themselves: each
    keeps it in a file of its own, which never leaves it.

    Example: masquerade predict model.json new.csv --keep id --output predictions.csv
    """
    from masquerade.data.write import csv_lines
    from masquerade.errors import one_line
    from masquerade.library.predicting import predict as predict_table

    with progress() as shown, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are printed below, as every command prints them
        shown.stage("predicting")
        made = predict_table(
            model,
            table_file(table, query, separator, encoding),
            site_key=site_key,
            job=job,
            attribute=attribute,
            times=[_time(word) for word in words(times)],
            keep=words(keep),
            missing_values=None if missing_values is None else words(missing_values),
            strict=strict,
            output=output,
        )
    if json:
        print_json(made.summary)
    elif output is None:
        for lines in csv_lines(made.table):
            sys.stdout.buffer.write(lines)
        sys.stdout.buffer.flush()
    else:
        say(*describe(made))
    for line in made.warnings:
        typer.echo(one_line(f"warning: {line}"), err=True)


def describe(made: Predictions) -> list[str]:
    """A few lines for a person."""
    counts = ", ".join(f"{name} {count:,}" for name, count in made.counts.items())
    told = f"{made.learned.algorithm['name']} of {made.table.num_rows:,} rows"
    return [
        told + (f": {counts}" if counts else ""),
        *([f"rows without a cell that the model needs: {made.incomplete:,}"] if made.incomplete else []),
        *([f"rows with a value that it has never seen: {made.unseen_rows:,}"] if made.unseen_rows else []),
        f"predictions: {made.file}",
    ]


def _time(word: str) -> float:
    from masquerade.errors import ParameterError

    try:
        time = float(word)
    except ValueError:
        time = -1.0
    if not 0 <= time < float("inf"):
        raise ParameterError(f'--times: must be numbers of at least 0, such as 12,24; got "{word}"')
    return time
