"""`masquerade learn`, `masquerade predict`: several sites, or one table, to one model; what it says of each row."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, answer, argument, option, print_json, progress, say
from masquerade.cli.table_options import Encoding, Query, Separator, TableArgument, table_file, words

if TYPE_CHECKING:
    from masquerade.jobs import Learning, Predictions


def learn(job: Annotated[Path, argument("JOB", "The job file (TOML).")], json: Json = False) -> None:
    """Learn one model of the tables of a job's [parties], without any of them showing its own to another.

    For trials and tests: each party is a process of its own on this machine, with a fresh certificate and mutual
    TLS. Parties that hold the same columns learn from all their records; others from the records they have in
    common, which they find by their identifiers. With [data] in place of [parties]: the model of that one table.

    Example: masquerade learn job.toml
    """
    from masquerade.jobs import learn_job

    with progress() as shown:
        made = learn_job(job, on_stage=shown.stage, on_party=shown.party)
    answer(json, made.summary, *describe(made))


def describe(made: Learning) -> list[str]:
    """A few lines for a person, the last of them the cost."""
    learned = made.learned
    figures = {name: value for name, value in learned.metrics.items() if isinstance(value, float)}
    told = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
    on = f" on {learned.metrics['on']}" if "on" in learned.metrics else ""
    dropped = ", ".join(f"{name} {count:,}" for name, count in made.dropped_rows.items() if count)
    seconds = ", ".join(f"{part} {took:.2f} s" for part, took in learned.seconds.items())
    sent = ", ".join(f"{name} {count:,} bytes" for name, count in made.bytes_sent.items())
    return [
        f"{learned.algorithm['name']} of {learned.n_records:,} records" + (f": {told}{on}" if told else ""),
        *([f"dropped out: {', '.join(learned.dropped_out)}"] if learned.dropped_out else []),
        *([f"rows dropped for missing cells: {dropped}"] if dropped else []),
        f"model: {made.file}",
        *([f"report: {made.report}"] if made.report is not None else []),
        *([f"transcripts: {made.transcripts}"] if made.transcripts is not None else []),
        f"time: {seconds}",
        *([f"cost: {made.rounds} rounds; sent by {sent}"] if sent else []),
    ]


def predict(
    model: Annotated[Path, argument("MODEL", "The model's file (.json).")],
    table: TableArgument,
    site_key: Annotated[
        Path | None, option("--site-key FILE", "pp-svm, pp-cox: what a site of the session keeps.")
    ] = None,
    job: Annotated[Path | None, option("--job JOB", "Says which columns have taxonomies or dates.")] = None,
    attribute: Annotated[str | None, option("--attribute", "bayes-net: what to predict, if not the class.")] = None,
    times: Annotated[str, option("--times T,U", "cox, pp-cox: survival at these times.")] = "",
    keep: Annotated[str, option("--keep A,B", "Columns to copy in front.")] = "",
    missing_values: Annotated[
        str | None, option("--missing-values A,B", "Texts that mean a missing cell; else as the model has it.")
    ] = None,
    strict: Annotated[bool, option("--strict", "Refuse a value that the model has never seen.")] = False,
    output: Annotated[Path | None, option("--output -o FILE", "Write .csv or .parquet.")] = None,
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
    from masquerade.data import csv_lines
    from masquerade.errors import one_line
    from masquerade.jobs import predict as predict_table

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
        say(*describe_predictions(made))
    for line in made.warnings:
        typer.echo(one_line(f"warning: {line}"), err=True)


def describe_predictions(made: Predictions) -> list[str]:
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
