"""`masquerade identity init`: a small certificate authority and party certificates, for trials."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Json, print_json, say

app = typer.Typer(help="Certificates of parties, for trials.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Certificates of parties, for trials."""


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
