"""`masquerade init TABLE`: a first job file for a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.output import Json, answer, argument, option, progress
from masquerade.cli.table_options import Encoding, Query, Separator, table_file

if TYPE_CHECKING:
    from masquerade.jobs import Draft


def init(
    tables: Annotated[list[str], argument("TABLE …", "A table; with --parties, one of each party.")],
    output: Annotated[Path, typer.Option(metavar="JOB", help="The job file to write.")] = Path("job.toml"),
    class_: Annotated[str | None, option("--class COLUMN", "The class.")] = None,
    sensitive: Annotated[
        list[str] | None, option("--sensitive COLUMN", "A sensitive attribute; may be repeated.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Records in a group, at least.")] = 5,
    parties: Annotated[bool, option("--parties", "Draft a mashup: each table is another party's.")] = False,
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
    answer(json, made.summary, *_lines(made, "mashup" if parties else "anonymize"))


def _lines(made: Draft, command: str) -> list[str]:
    width = max(len(each["name"]) for each in made.attributes)
    lines = [f"{each['name']:{width}}  {each['role']} ({each['type']}): {each['reason']}" for each in made.attributes]
    return [*lines, f"job: {made.job}", f"look it through, then: masquerade {command} {made.job}"]
