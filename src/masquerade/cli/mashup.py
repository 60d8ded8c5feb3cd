"""`masquerade mashup JOB`: the parties of a job as processes on this machine; one verified release out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.anonymize import seconds_line, written_lines
from masquerade.cli.output import Json, print_json, progress, say

if TYPE_CHECKING:
    from masquerade.library.mashup import Mashup
    from masquerade.library.release import Release


def mashup(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file (TOML).", show_default=False)],
    json: Json = False,
) -> None:
    """Join the tables of a job's [parties] without any of them showing its own to another.

    For trials and tests: each party is a process of its own on this machine, with a fresh certificate and mutual
    TLS. They find their common records, specialise together, and hand in their columns; this command joins,
    shuffles, verifies and only then writes them, with a report and each party's transcript.

    Example: masquerade mashup job.toml
    """
    from masquerade.library.mashup import mashup_job

    with progress() as shown:
        made = mashup_job(job, on_stage=shown.stage, on_party=shown.party)
    if json:
        print_json(made.summary)
    else:
        say(*describe(made))


def describe(made: Mashup) -> list[str]:
    """A few lines for a person, the last of them the cost."""
    release = made.release
    sent = ", ".join(f"{name} {count:,} bytes" for name, count in made.bytes_sent.items())
    suppressed = f", {release.suppressed:,} suppressed" if release.suppressed else ""
    dropped = ", ".join(f"{name} {count:,}" for name, count in made.dropped_rows.items() if count)
    return [
        f"{release.rows:,} {_whose(release)}; released in {release.group_sizes.size:,} groups{suppressed}",
        *([f"rows dropped for missing cells: {dropped}"] if dropped else []),
        *(f"engine of {name}: {told}" for name, told in made.engine.items()),
        *_method(made),
        *written_lines(release, made.table, made.report, made.labels),
        *_gains(made),
        f"transcripts: {made.transcripts}",
        seconds_line(release),
        f"cost: {made.rounds} rounds; sent by {sent}",
    ]


def _method(made: Mashup) -> list[str]:
    """The method that was agreed on; if it was chosen, why."""
    from masquerade.methods import described, plain_method
    from masquerade.protocol.method_choice import chosen_lines

    method, choice = described(plain_method(made.contract.method)), made.contract.choice
    why, *others = chosen_lines(choice.summary()) if choice is not None else ("",)
    return [f"method: {method} ({why})" if why else f"method: {method}", *others]


def _gains(made: Mashup) -> list[str]:
    """What each party's own columns and the release are worth to a classifier, where there is a class."""
    told = (f"{name} {gain.alone:.1%} alone (gain {gain.gain:+.1%})" for name, gain in made.gains.items())
    error = made.release.error
    return [] if error is None else ["; ".join([f"classification error: {error:.1%} together", *told])]


def _whose(release: Release) -> str:
    return "records of all providers" if "third_party" in release.settings else "common records"
