"""`masquerade init TABLE`: a first job file for a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, print_json, progress, say_plainly
from masquerade.cli.table_options import Encoding, Query, Separator, table_file

if TYPE_CHECKING:
    from masquerade.jobs import Draft


def init(
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLE …", help="A table; with --parties, one of each party.", show_default=False),
    ],
    output: Annotated[Path, typer.Option(metavar="JOB", help="The job file to write.")] = Path("job.toml"),
    class_: Annotated[
        str | None, typer.Option("--class", metavar="COLUMN", help="The class.", show_default=False)
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A sensitive attribute; may be repeated.", show_default=False),
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Records in a group, at least.")] = 5,
    parties: Annotated[bool, typer.Option("--parties", help="Draft a mashup: each table is another party's.")] = False,
    query: Query = None,
    separator: Separator = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Draft a job file that runs as it is, with the taxonomies it needs beside it, and say why for each column.

    Example: masquerade init people.csv --sensitive disease --k 10
    """
    from masquerade.jobs import draft

    files = [table_file(table, query, separator, encoding) for table in tables]
    with progress() as shown:
        made = draft(
            files, output, target=class_, sensitive=sensitive or (), k=k, parties=parties, on_stage=shown.stage
        )
    if json:
        print_json(made.summary)
    else:
        say_plainly(*_lines(made, "mashup" if parties else "anonymize"))


def _lines(made: Draft, command: str) -> list[str]:
    width = max(len(each["name"]) for each in made.attributes)
    lines = [f"{each['name']:{width}}  {each['role']} ({each['type']}): {each['reason']}" for each in made.attributes]
    return [*lines, f"job: {made.job}", f"look it through, then: masquerade {command} {made.job}"]
