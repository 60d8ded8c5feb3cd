"""`masquerade identity`: a key and certificate of one's own, or for trials those of all parties."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from masquerade.cli.output import Json, answer, argument, option

app = typer.Typer(help="Keys and certificates.", no_args_is_help=True, rich_markup_mode=None)

trust_app = typer.Typer(help="Whose certificates are trusted.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(trust_app, name="trust")


@app.callback()
def _group() -> None:
    """Keys and certificates."""


@app.command("init", short_help="A small certificate authority and party certificates.")
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write; made when missing.")],
    party: Annotated[list[str], option("--party NAME", "A party; repeat for each.")],
    days: Annotated[int, typer.Option("--days", metavar="DAYS", help="How long they are valid.")] = 30,
    json: Json = False,
) -> None:
    """Make a small certificate authority and a certificate for each party, for trials.

    Writes FOLDER/ca.pem and, for each party, FOLDER/NAME/identity.pem, key.pem and trust/OTHER.pem. For trials,
    because whoever runs this has everybody's private key: in earnest each party makes its own and sends the others
    its certificate. The authority's own key is thrown away. Existing keys are never overwritten; new parties are added
    to a trial that is there.

    Example: masquerade identity init trial --party bank --party loans
    """
    from masquerade.net import make_trial

    identities = make_trial(folder, party, days)
    parties = {
        name: {"folder": str(folder / name), "fingerprint": each.fingerprint} for name, each in identities.items()
    }
    answer(
        json,
        {"folder": str(folder), "authority": str(folder / "ca.pem"), "days": days, "parties": parties},
        f"{folder / 'ca.pem'}: the authority's certificate; its key was thrown away",
        *(f"{folder / name}: fingerprint {identity.fingerprint}" for name, identity in identities.items()),
    )


@app.command("make", short_help="A key and a certificate of your own.")
def make(
    name: Annotated[str, argument("NAME", "Whose it is: a party or a user.")],
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="FOLDER", help="Where to write, by default ./NAME.")
    ] = None,
    days: Annotated[int, typer.Option("--days", metavar="DAYS", help="How long it is valid.")] = 365,
    json: Json = False,
) -> None:
    """Make a key and a certificate of your own, for a party's node or to sign requests with.

    Writes FOLDER/key.pem, which stays with you, and FOLDER/identity.pem, which you send to every peer, and prints the
    certificate's fingerprint. Read it out to the peers, who compare it when they trust the certificate
    (`identity trust add`). Existing keys are never overwritten.

    Example: masquerade identity make bank
    """
    from masquerade.net import CERTIFICATE_FILE, KEY_FILE, self_signed

    made = self_signed(name, days)
    folder = folder or Path(name)
    made.save(folder)
    key, certificate = folder / KEY_FILE, folder / CERTIFICATE_FILE
    told = {"folder": str(folder), "name": made.name, "fingerprint": made.fingerprint, "days": days}
    answer(
        json,
        {**told, "files": {"key": str(key), "certificate": str(certificate)}},
        f"{key}: your private key; it stays on this machine",
        f"{certificate}: your certificate, valid for {days} days; send it to every peer",
        f"fingerprint: {made.fingerprint}",
        "Read the fingerprint out to each peer, by telephone for example; they compare it before they trust the"
        " certificate (masquerade identity trust add).",
    )


@trust_app.callback()
def _trust_group() -> None:
    """Whose certificates are trusted."""


@trust_app.command("add", short_help="Trust a peer's certificate.")
def add(
    certificate: Annotated[Path, argument("FILE", "The peer's identity.pem.")],
    store: Annotated[Path, typer.Option("--store", metavar="FOLDER", help="The trust store.")] = Path("trust"),
    fingerprint: Annotated[
        str | None,
        typer.Option("--fingerprint", metavar="TEXT", help="What the peer read out; anything else is refused."),
    ] = None,
    replace: Annotated[bool, option("--replace", "Replace the certificate that is there.")] = False,
    json: Json = False,
) -> None:
    """Save a peer's certificate in a trust store, under the name that is in it.

    Compare the fingerprint with the peer through another channel, by telephone say, or give it with --fingerprint.
    A node or coordinator notices that its store has changed.

    Example: masquerade identity trust add loans.pem --store bank/trust
    """
    from masquerade.net import add_to_store

    name, found = add_to_store(certificate, store, expected=fingerprint, replace=replace)
    path = store / f"{name}.pem"
    answer(
        json,
        {"name": name, "file": str(path), "fingerprint": found},
        f"{path}: trusted as {name}",
        f"fingerprint: {found}",
    )
