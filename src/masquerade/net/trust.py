"""Whom a node trusts: for each peer's name, the one certificate that it must present.

The store is the node's own: no coordinator, authority or system store adds to it. One that was loaded from a folder
follows it: a peer whose file is added, replaced or removed is trusted, or not, from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from masquerade.errors import ParameterError, PeerRefused, hint, shown
from masquerade.files import FolderLook, look_at, make_folder, read_file, write_new, write_whole
from masquerade.net.identity import check_name, fingerprint, party_of

SUFFIX = ".pem"


class TrustStore:
    """Peer names with their pinned certificates (PEM)."""

    def __init__(self, pins: Mapping[str, bytes]) -> None:
        self._folder: Path | None = None
        self._look: FolderLook = ()
        self._read: dict[str, bytes] = {}
        for name, pem in pins.items():
            self._read[check_name(name)] = _checked(pem, name, f"the certificate of {name}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the trusted peers."""
        return tuple(self._pins)

    def pin(self, peer: str) -> bytes:
        """Return the certificate that a peer must present; PeerRefused when it is unknown."""
        if peer not in self._pins:
            known = ", ".join(self._pins) or "nobody"
            raise PeerRefused(
                peer,
                f"is not in our trust store, which knows {known}{hint(peer, self._pins)};"
                " add its certificate once you have compared the fingerprint with its steward",
            )
        return self._pins[peer]

    def owner(self, certificate: bytes) -> str | None:
        """Return the peer whose pinned certificate (PEM or DER) this is, if any."""
        der = _der(certificate)
        return next((name for name, pem in self._pins.items() if _der(pem) == der), None)

    def fingerprint(self, peer: str) -> str:
        """Return the fingerprint of a peer's pinned certificate."""
        return fingerprint(self.pin(peer))

    def save(self, folder: Path) -> None:
        """Write one `<peer>.pem` per peer; never overwrite files."""
        make_folder(folder)
        for name, pem in self._pins.items():
            write_new(folder / f"{name}{SUFFIX}", pem)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the store in a folder: each `<peer>.pem` is that peer's certificate."""
        try:
            there = folder.is_dir()
        except OSError as error:  # such as a name that is too long
            raise ParameterError(f"{folder}: cannot be read: {error.strerror}") from None
        if not there:
            raise ParameterError(f"{folder}: there is no such folder; a trust store has one .pem file a peer")
        store = cls({})
        store._folder, store._look = folder, look_at(folder, SUFFIX)
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            name, pem = _read(path)
            store._read[name] = pem
        return store

    @property
    def _pins(self) -> Mapping[str, bytes]:
        """The certificates as they are now. A file that cannot be read trusts nobody; the others count."""
        if self._folder is None or (look := look_at(self._folder, SUFFIX)) == self._look:
            return self._read
        found: dict[str, bytes] = {}
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with suppress(ParameterError):  # half copied, say; it is looked at again when it changes
                name, pem = _read(path)
                found[name] = pem
        self._read, self._look = found, look
        return found


def add_to_store(
    certificate: Path, store: Path, *, expected: str | None = None, replace: bool = False
) -> tuple[str, str]:
    """Save a peer's certificate in a store, under the name that is in it; return that name and the fingerprint.

    A fingerprint other than the expected one, and another certificate under that name, are refused.
    """
    pem = read_file(certificate)
    name = party_of(pem, str(certificate))
    pem = _checked(pem, name, str(certificate))
    found, path = fingerprint(pem), store / f"{name}{SUFFIX}"
    if expected is not None and _digits(expected) != _digits(found):
        raise ParameterError(
            f"{certificate}: the fingerprint is {found}, not the expected one; do not trust it"
        )
    make_folder(store)
    if path.exists() and (before := read_file(path)) != pem and not replace:
        text = f"{path}: holds another certificate, {fingerprint(_checked(before, name, str(path)))}"
        raise ParameterError(f"{text}; ask {name} why it changed, and replace it with --replace")
    write_whole(path, pem)
    return name, found


def _read(path: Path) -> tuple[str, bytes]:
    try:
        name = check_name(path.stem)
    except ParameterError as error:
        raise ParameterError(f"{path}: {error}") from None
    return name, _checked(read_file(path), name, str(path))


def _digits(written: str) -> str:
    return "".join(sign for sign in written.upper() if sign in "0123456789ABCDEF")


def _checked(pem: bytes, name: str, place: str) -> bytes:
    """Return the one certificate in `pem`, which must be for this party, in canonical PEM."""
    party = party_of(pem, place)
    if party != name:
        raise ParameterError(f"{place}: the certificate is for party {shown(party)}, not for {shown(name)}")
    if len(x509.load_pem_x509_certificates(pem)) != 1:
        raise ParameterError(f"{place}: more than one certificate; exactly the peer's own belongs there")
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.PEM)


def _der(certificate: bytes) -> bytes:
    if certificate.lstrip().startswith(b"-----"):
        return x509.load_pem_x509_certificate(certificate).public_bytes(Encoding.DER)
    return certificate
