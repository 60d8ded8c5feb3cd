"""`masquerade tokens list|make|revoke`: your API tokens and sign-ins at a coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from masquerade.cli.client import Conf, client_of
from masquerade.cli.output import Json, answer, argument, option, print_json, say_plainly
from masquerade.errors import ParameterError
from masquerade.service import Scope

if TYPE_CHECKING:
    from masquerade.client import Client

# --- token options ------------------------------------------------------------------------------------------
# What the commands about tokens and accounts share: a token's scopes and life, and asking for a password.

Days = Annotated[int, typer.Option("--days", metavar="N", min=1, max=366, help="How long it is valid.")]
Scopes = Annotated[
    list[Scope] | None,
    option(
        "--scope SCOPE",
        "What it opens: read, request, download, tokens or admin; repeat for each. Without it the first three.",
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


# --- tokens -------------------------------------------------------------------------------------------------

app = typer.Typer(help="Your API tokens and sign-ins.", no_args_is_help=True, rich_markup_mode=None)

User = Annotated[str | None, option("--user NAME", "Sign in with a password instead of a token with the scope tokens.")]
FromStdin = Annotated[bool, option("--password-stdin", "Take the password from standard input.")]


@app.callback()
def _group() -> None:
    """Your API tokens and sign-ins."""


@app.command("list", short_help="List your valid tokens and sign-ins.")
def list_tokens(conf: Conf = None, user: User = None, password_stdin: FromStdin = False, json: Json = False) -> None:
    """List your valid tokens and sign-ins: what each opens, until when, and when it was last used.

    Example: masquerade tokens list --user ana
    """
    with _client(conf, user, password_stdin) as client:
        found = client.tokens()
    if json:
        print_json({"tokens": [each.content() for each in found]})
        return
    for each in found:
        used = f"{each.last_used:%Y-%m-%d}" if each.last_used is not None else "never"
        until = f"until {each.expires:%Y-%m-%d}, last used {used}"
        say_plainly(f"{each.id}  {each.kind}  {each.name}  {', '.join(each.scopes)}  {until}")


@app.command("make", short_help="Make a token for a program.")
def make(
    name: Annotated[str, argument("NAME", "What you call it, such as laptop.")],
    scope: Scopes = None,
    days: Days = 90,
    conf: Conf = None,
    user: User = None,
    password_stdin: FromStdin = False,
    json: Json = False,
) -> None:
    """Make a token for a program. It is shown here, and never again.

    A token makes others only if it has the scope tokens: none with more scopes than its own, nor for longer.

    Example: masquerade tokens make laptop --scope read --scope download --days 30 --user ana > token
    """
    with _client(conf, user, password_stdin) as client:
        made = client.make_token(name, scopes=scope or None, days=days)
    answer(json, made.content(), made.token)


@app.command("revoke", short_help="Make a token worthless, or end a sign-in.")
def revoke(
    token: Annotated[str, argument("ID", "Its identifier, as `tokens list` shows it.")],
    conf: Conf = None,
    user: User = None,
    password_stdin: FromStdin = False,
    json: Json = False,
) -> None:
    """Make a token worthless, or end a sign-in.

    Example: masquerade tokens revoke 5f3a9c0d12e4b678 --user ana
    """
    with _client(conf, user, password_stdin) as client:
        client.revoke_token(token)
    answer(json, {"revoked": token}, f"{token} opens nothing any more")


def _client(conf: Path | None, user: str | None, password_stdin: bool) -> Client:
    """A client with the token of the settings, or signed in with a password."""
    if user is None:
        return client_of(conf)
    from masquerade.client import Client, found_settings

    settings = found_settings(conf, with_token=False)
    return Client(settings.url, user=user, password=asked_password(password_stdin), ca=settings.ca)
