"""Make the identities and trust stores of all parties of a trial in one place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from masquerade.errors import ParameterError
from masquerade.files import make_folder, write_new
from masquerade.net.identity import Identity, check_name, issue, make_authority
from masquerade.net.trust import TrustStore

AUTHORITY_FILE = "ca.pem"
TRUST_FOLDER = "trust"


def trial_identities(names: Sequence[str], days: int = 30) -> tuple[bytes, dict[str, Identity]]:
    """Make an authority, whose key is discarded; return its certificate (PEM) and each party's identity."""
    for name in names:
        check_name(name)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError(f"party {twice[0]} is named twice; each party needs a name of its own")
    if len(names) < 2:
        raise ParameterError("at least two parties are needed")
    authority = make_authority(days=days)
    return authority.certificate, {name: issue(authority, name, days) for name in names}


def make_trial(folder: Path, names: Sequence[str], days: int = 30) -> dict[str, Identity]:
    """Write `ca.pem` and, for each party, a folder with its identity, its key and a trust store of all others."""
    certificate, identities = trial_identities(names, days)
    taken = [path for path in (folder / AUTHORITY_FILE, *(folder / name for name in names)) if path.exists()]
    if taken:  # before anything is written
        raise ParameterError(f"{taken[0]}: exists already, and is not overwritten; take another folder")
    make_folder(folder)
    write_new(folder / AUTHORITY_FILE, certificate)
    for name, identity in identities.items():
        identity.save(folder / name)
        others = {other: who.certificate for other, who in identities.items() if other != name}
        TrustStore(others).save(folder / name / TRUST_FOLDER)
    return identities
