"""`masquerade download SESSION`: take a published table home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.client_conf import Conf, SessionId, client_of
from masquerade.cli.output import Json, print_json, progress, say
from masquerade.cli.request import take, written_lines


def download(
    session: SessionId,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Where to write the table: .csv or .parquet; a model or ratios: .json. SESSION.csv without it.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write the report here.", show_default=False),
    ] = None,
    escape_formulas: Annotated[
        bool,
        typer.Option("--escape-formulas", help="In a .csv, put ' before cells that a spreadsheet would run."),
    ] = False,
    conf: Conf = None,
    json: Json = False,
) -> None:
    """Write the table of a published session to a file, and its report: all of each, or no file.

    What comes is compared with the release's digest before it gets its name.

    Example: masquerade download 5f2c0e… --output release.parquet
    """
    from masquerade.library.client.calls import checked_session

    target = output if output is not None else Path(f"{checked_session(session)}.csv")
    with client_of(conf) as client, progress() as shown:
        shown.stage(f"downloading {target}")
        written = take(client, session, target, report, escape_formulas=escape_formulas)
    if json:
        print_json({"session": session} | written)
    else:
        say(*written_lines(session, written))
