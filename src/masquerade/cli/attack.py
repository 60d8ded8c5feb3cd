"""`masquerade attack RELEASE --job JOB`: what an attacker gets from a release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, print_json, progress, say_plainly

if TYPE_CHECKING:
    from masquerade.risk.attacks.attack import Finding


def attack(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="The released table (.csv or .parquet).")],
    job: Annotated[Path, typer.Option("--job", metavar="JOB", help="The job file.", show_default=False)],
    original: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE", help="The original, to name its most exposed rows.", show_default=False
        ),
    ] = None,
    outside: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="A table of people that shares columns.", show_default=False),
    ] = None,
    earlier: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RELEASE", help="Another release of the same table; may be repeated.", show_default=False
        ),
    ] = None,
    population: Annotated[
        int | None,
        typer.Option(min=1, help="The people whom the release is a sample of.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Play attacks on a release, and tell what each of them gets.

    Example: masquerade attack release.csv --job job.toml --outside voters.csv
    """
    from masquerade.library.attacking import attack_job

    with progress() as shown:
        shown.stage("attacking")
        found = attack_job(
            release, job, original=original, outside=outside, earlier=earlier or (), population=population
        )
    if json:
        print_json({"attacks": [each.summary() for each in found]})
    else:
        say_plainly(*_lines(found))


def _lines(found: Sequence[Finding]) -> list[str]:
    lines = []
    for each in found:
        lines.append(f"{each.name}: {each.value:.6g}: {each.meaning}")
        if each.records:
            lines.append(f"  most exposed: row {', '.join(map(str, each.records))}")
    return lines
