"""`masquerade demo`: generated people, anonymised and reported, from nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Json, print_json, progress, say


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="For scripts: do not open the report in a browser.")
    ] = False,
    folder: Annotated[Path, typer.Option(help="Where to write; made when it is missing.")] = Path(
        "masquerade-demo"
    ),
    people: Annotated[int, typer.Option(min=100, help="How many people to generate.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other people.")] = 7,
    json: Json = False,
) -> None:
    """Generate people with taxonomies and a job, anonymise them, verify the release and write a report.

    Example: masquerade demo
    """
    from masquerade.cli.anonymize import describe
    from masquerade.data.people import write_people
    from masquerade.errors import ParameterError
    from masquerade.library.jobs import anonymize_job

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"--folder {folder}: cannot be made: {error.strerror}") from None
    with progress() as shown:
        shown.stage(f"generating {people:,} people")
        job = write_people(folder, people, seed)
        written = anonymize_job(job, on_stage=shown.stage, on_step=shown.step)
    if json:
        print_json(written.summary)
        return
    say(f"generated {people:,} people, their taxonomies and a job in {folder}/", *describe(written))
    assert written.report is not None  # the generated job asks for one
    say("", f"open {written.report.resolve().as_uri()}", f"or run it again: masquerade anonymize {job}")
    if not once and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(written.report.resolve().as_uri())
