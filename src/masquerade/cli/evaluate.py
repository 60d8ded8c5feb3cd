"""`masquerade evaluate ORIGINAL RELEASE --job JOB`: what a release kept of its original."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from masquerade.cli.output import Json, print_json, progress, say


def evaluate(
    original: Annotated[str, typer.Argument(metavar="ORIGINAL", help="The original table.")],
    release: Annotated[
        str, typer.Argument(metavar="RELEASE", help='Its release, made with order = "input".')
    ],
    job: Annotated[Path, typer.Option("--job", metavar="JOB", help="The job file.", show_default=False)],
    queries: Annotated[
        int, typer.Option(min=0, help="Random range queries for the query error; 0 for none.")
    ] = 2500,
    train: Annotated[
        int | None,
        typer.Option(min=1, help="Grow decision trees on the first N kept rows, test on the rest."),
    ] = None,
    folds: Annotated[
        int,
        typer.Option(min=0, help="Without --train: cross-validate in N parts; 0 for no decision trees."),
    ] = 10,
    workload: Annotated[
        Path | None,
        typer.Option(
            help="A file of SQL queries whose selections are measured; without it the job's own.",
            show_default=False,
        ),
    ] = None,
    predict: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An attribute that the others are to predict; repeatable.",
            show_default=False,
        ),
    ] = None,
    clusters: Annotated[
        int, typer.Option(min=0, help="Find N clusters in the release, and judge them; 0 for none.")
    ] = 0,
    json: Json = False,
) -> None:
    """Measure a release: metrics, query error and, where the job has a class, classification errors.

    Example: masquerade evaluate people.csv release.csv --job job.toml
    """
    from masquerade.library.jobs import evaluate_job

    with progress() as shown:
        summary = evaluate_job(
            original,
            release,
            job,
            queries=queries,
            train=train,
            folds=folds,
            workload=workload,
            predict=predict or (),
            clusters=clusters,
            on_stage=shown.stage,
        )
    if json:
        print_json(summary)
    else:
        say(*_lines(summary))


def _lines(summary: Mapping[str, Any], indent: str = "") -> list[str]:
    lines = []
    for key, value in summary.items():
        name = key.replace("_", " ")
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}:", *_lines(value, indent + "  ")]
        elif key == "attacks":
            told = (f"{each['name']}: {each['value']:.4f}: {each['meaning']}" for each in value)
            lines += [f"{indent}{name}:", *(f"{indent}  {line}" for line in told)]
        elif key == "left_out":
            lines.append(f"{indent}{name}: {', '.join(value)}")
        elif isinstance(value, float):
            lines.append(f"{indent}{name}: {value:.4f}")
        else:
            lines.append(f"{indent}{name}: {'none' if value is None else value}")
    return lines
