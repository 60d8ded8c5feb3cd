"""What the commands about tokens and accounts share: a token's scopes and life, and asking for a password."""

from __future__ import annotations

from typing import Annotated

import typer

from masquerade.errors import ParameterError
from masquerade.service.token_scopes import Scope

Days = Annotated[int, typer.Option("--days", metavar="N", min=1, max=366, help="How long it is valid.")]
Scopes = Annotated[
    list[Scope] | None,
    typer.Option(
        "--scope",
        metavar="SCOPE",
        help="What it opens: read, request, download, tokens or admin; repeat for each. Without it the first three.",
        show_default=False,
    ),
]


def asked_password(from_stdin: bool, *, twice: bool = False) -> str:
    """Ask for a password at the terminal, or take the first line of standard input."""
    import sys

    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if sys.stdin is None or not sys.stdin.isatty():
        raise ParameterError("there is no terminal to ask for a password; give it with --password-stdin")
    import getpass

    password = getpass.getpass("Password: ")
    if twice and getpass.getpass("Once more: ") != password:
        raise ParameterError("the two passwords differ")
    return password
