"""`masquerade audit verify LOG`: prove that a party's audit log is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Json, print_json, say

app = typer.Typer(help="A party's audit log.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """A party's audit log."""


@app.command("verify", short_help="Prove that the log is whole.")
def verify(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The audit log.")],
    certificate: Annotated[
        list[Path] | None,
        typer.Option(
            "--certificate",
            metavar="PEM",
            help="The party's certificate, to check the seals; repeat when it was renewed.",
            show_default=False,
        ),
    ] = None,
    anchor: Annotated[
        list[str] | None,
        typer.Option(
            "--anchor",
            metavar="NUMBER:HASH",
            help="A record that the log must hold; repeat for more.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check every line of an audit log: its form, its number, its hash, and that it follows the line before it.

    Exit code 0 when the log is whole, 1 when it is not; the first bad line is named. That its end was not cut off,
    or all of it rewritten, shows only with --anchor or --certificate.

    Example: masquerade audit verify audit.jsonl --certificate identity.pem
    """
    from masquerade.net.identity import party_of, read_pem
    from masquerade.service.audit_line import Anchor
    from masquerade.service.audit_verify import verify as verify_log

    certificates = []
    for path in certificate or ():
        certificates.append(read_pem(path))
        party_of(certificates[-1], str(path))  # an error names the file
    found = verify_log(log, [Anchor.read(text) for text in anchor or ()], certificates)
    if json:
        print_json(
            {
                "log": str(log),
                "whole": found.whole,
                "first_bad": found.first_bad,
                "problem": found.problem,
                "party": found.party,
                "records": found.records,
                "sessions": found.sessions,
                "unfinished": found.unfinished,
                "seals": found.seals,
                "sealed_up_to": found.sealed_up_to,
                "last": str(found.last),
            }
        )
    elif found.whole:
        seals = (
            f"sealed up to record {found.sealed_up_to}"
            if certificates
            else f"{found.seals} seals, not checked"
        )
        say(
            f"whole: {found.records} records of party {found.party}, {found.sessions} sessions"
            f" ({found.unfinished} unfinished), {seals}",
            f"last: {found.last}",
        )
    found.insist()
