"""`masquerade learn JOB`: several sites, or one table, to one model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, print_json, progress, say

if TYPE_CHECKING:
    from masquerade.library.learning import Learning


def learn(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file (TOML).", show_default=False)],
    json: Json = False,
) -> None:
    """Learn one model of the tables of a job's [parties], without any of them showing its own to another.

    For trials and tests: each party is a process of its own on this machine, with a fresh certificate and mutual
    TLS. Parties that hold the same columns learn from all their records; others from the records they have in
    common, which they find by their identifiers. With [data] in place of [parties]: the model of that one table.

    Example: masquerade learn job.toml
    """
    from masquerade.library.learning import learn_job

    with progress() as shown:
        made = learn_job(job, on_stage=shown.stage, on_party=shown.party)
    if json:
        print_json(made.summary)
    else:
        say(*describe(made))


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
