"""`masquerade identity`: a key and certificate of one's own, or for trials those of all parties."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Json, print_json, say

app = typer.Typer(help="Keys and certificates.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Keys and certificates."""


@app.command("init", short_help="A small certificate authority and party certificates.")
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write; made when missing.")],
    party: Annotated[
        list[str],
        typer.Option("--party", metavar="NAME", help="A party; repeat for each.", show_default=False),
    ],
    days: Annotated[int, typer.Option("--days", metavar="DAYS", help="How long they are valid.")] = 30,
    json: Json = False,
) -> None:
    """Make a small certificate authority and a certificate for each party, for trials.

    Writes FOLDER/ca.pem and, for each party, FOLDER/NAME/identity.pem, key.pem and trust/OTHER.pem. For trials,
    because whoever runs this has everybody's private key: in earnest each party makes its own and sends the others
    its certificate. The authority's own key is thrown away. Existing keys are never overwritten.

    Example: masquerade identity init trial --party bank --party loans
    """
    from masquerade.net.trial import make_trial

    identities = make_trial(folder, party, days)
    if json:
        parties = {
            name: {"folder": str(folder / name), "fingerprint": identity.fingerprint}
            for name, identity in identities.items()
        }
        print_json(
            {"folder": str(folder), "authority": str(folder / "ca.pem"), "days": days, "parties": parties}
        )
        return
    say(*(f"{folder / name}: {identity.fingerprint}" for name, identity in identities.items()))


@app.command("new", short_help="A key and a certificate of your own.")
def new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write; made when missing.")],
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="Whose it is: a party or a user.", show_default=False),
    ],
    days: Annotated[int, typer.Option("--days", metavar="DAYS", help="How long it is valid.")] = 365,
    json: Json = False,
) -> None:
    """Make a key and a certificate of your own, for a party's node or to sign requests with.

    Writes FOLDER/key.pem, which stays with you, and FOLDER/identity.pem, which others save once they have compared the
    fingerprint with you. Existing keys are never overwritten.

    Example: masquerade identity new identity --name ana
    """
    from masquerade.net.identity import self_signed

    made = self_signed(name, days)
    made.save(folder)
    if json:
        print_json({"folder": str(folder), "name": made.name, "fingerprint": made.fingerprint, "days": days})
    else:
        say(f"{folder}: {made.fingerprint}")
