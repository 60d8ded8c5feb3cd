"""`masquerade weights LOG --job JOB`: how much each attribute matters, learned from a query log or a mining task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from masquerade.cli.output import Json, print_json, progress, say_plainly


def weights(
    job: Annotated[Path, typer.Option("--job", metavar="JOB", help="The job file.", show_default=False)],
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="LOG",
            help="A log of SQL queries, or a declaration (.toml); without it, the job's class is asked.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="What to learn from: queries, declaration, information, accuracy.", show_default=False
        ),
    ] = None,
    owner_share: Annotated[
        float, typer.Option(min=0, max=1, help="How much the weights in the job file count, of 1.")
    ] = 0.0,
    dialect: Annotated[
        str | None, typer.Option(help="The SQL of the log, such as postgres or mysql.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Learn attribute weights: from queries, from a declaration, or from what attributes tell about the class.

    Example: masquerade weights queries.sql --job job.toml
    """
    from masquerade.library.weights import weights_job

    with progress() as shown:
        found = weights_job(log, job, by=by, owner_share=owner_share, dialect=dialect, on_stage=shown.stage)
    if json:
        print_json(found)
    else:
        say_plainly(*_lines(found))


def _lines(found: dict[str, Any]) -> list[str]:
    heaviest = sorted(found["weights"].items(), key=lambda each: -each[1])
    width = max(len(name) for name, _ in heaviest)
    lines = [f"{name:{width}}  {weight:.4f}  {found['reasons'][name]}" for name, weight in heaviest]
    if found.get("passed_over"):
        lines.append(f"statements passed over, because they are no queries: {found['passed_over']}")
    lines += [f"warning: {each}" for each in found["warnings"]]
    return [*lines, "write each into the job as weight = … below its [attributes.NAME]"]
