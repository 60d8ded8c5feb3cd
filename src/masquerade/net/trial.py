"""Make the identities and trust stores of all parties of a trial in one place."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from masquerade.errors import ParameterError
from masquerade.files import make_folder, read_file, write_new
from masquerade.net.identity import CERTIFICATE_FILE, Identity, check_name, issue, make_authority, self_signed
from masquerade.net.trust import SUFFIX, TrustStore

AUTHORITY_FILE = "ca.pem"
TRUST_FOLDER = "trust"


def trial_identities(names: Sequence[str], days: int = 30) -> tuple[bytes, dict[str, Identity]]:
    """Make an authority, whose key is discarded; return its certificate (PEM) and each party's identity."""
    _check_names(names)
    if len(names) < 2:
        raise ParameterError("at least two parties are needed")
    authority = make_authority(days=days)
    return authority.certificate, {name: issue(authority, name, days) for name in names}


def make_trial(folder: Path, names: Sequence[str], days: int = 30) -> dict[str, Identity]:
    """Write `ca.pem` and, for each party, a folder with its identity, its key and a trust store of all others.

    A folder that holds a trial already gets these parties as well: they and those who are there trust each other.
    """
    extends = (folder / AUTHORITY_FILE).exists()
    before = _certificates(folder) if extends else {}
    if extends:
        _check_names(names)
        identities = {name: self_signed(name, days) for name in names}  # the authority's key is gone
    else:
        certificate, identities = trial_identities(names, days)
    taken = [folder / name for name in names if (folder / name).exists()]
    if taken:  # before anything is written
        raise ParameterError(
            f"{taken[0]}: exists already, and is not overwritten; name new parties alone, or take another folder"
        )
    make_folder(folder)
    made = {name: identity.certificate for name, identity in identities.items()}
    with ExitStack() as undo:  # all of it or nothing, so that the same command can be tried again
        if not extends:
            undo.callback((folder / AUTHORITY_FILE).unlink, missing_ok=True)
            write_new(folder / AUTHORITY_FILE, certificate)
        for name, identity in identities.items():
            undo.callback(shutil.rmtree, folder / name, ignore_errors=True)
            identity.save(folder / name)
            others = {other: pem for other, pem in (before | made).items() if other != name}
            TrustStore(others).save(folder / name / TRUST_FOLDER)
        for name in before:
            store = folder / name / TRUST_FOLDER
            for new in (store / f"{each}{SUFFIX}" for each in made):
                if not new.exists():
                    undo.callback(new.unlink, missing_ok=True)
            TrustStore(made).save(store)
        undo.pop_all()
    return identities


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        check_name(name)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ParameterError(f"party {twice[0]} is named twice; each party needs a name of its own")


def _certificates(folder: Path) -> dict[str, bytes]:
    """The certificates of the parties whose folders are in a trial's."""
    return {path.parent.name: read_file(path) for path in sorted(folder.glob(f"*/{CERTIFICATE_FILE}"))}
