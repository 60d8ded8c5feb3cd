"""A node's identity, a certificate and its private key, and the small authority that issues them for trials.

Keys are ECDSA on P-256, which every TLS library supports. A certificate names its party as a DNS name; peers pin the
certificate itself (net/identity.py), so an authority's signature alone grants no access.
"""

from __future__ import annotations

import ipaddress
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from masquerade.errors import ParameterError, PeerRefused, hint, shown
from masquerade.files import PRIVATE, FolderLook, look_at, make_folder, read_file, read_secret, write_new, write_whole

CERTIFICATE_FILE = "identity.pem"
KEY_FILE = "key.pem"
MOST_DAYS = 3650

SOON = timedelta(days=14)  # less than a trial's 30 days: a fresh certificate causes no warning

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_CLOCKS_DIFFER = timedelta(minutes=5)


def check_name(name: str) -> str:
    """Return the name if it is valid for a party: it becomes a DNS name and a file name. Else ParameterError."""
    if not _NAME.fullmatch(name):
        raise ParameterError(
            f"{shown(name)} cannot name a party: small letters a-z, digits and hyphens are allowed,"
            " first a letter or a digit, at most 63 characters"
        )
    return name


@dataclass(frozen=True)
class Authority:
    """A certificate authority for trials; both fields are PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Identity:
    """A node's own certificate and private key, as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", party_of(self.certificate, "the certificate"))
        certified = x509.load_pem_x509_certificate(self.certificate).public_key()
        if _private_key(self.key, "the key").public_key() != certified:
            raise ParameterError(f"the key is not the one of {self.name}'s certificate")

    @property
    def fingerprint(self) -> str:
        """The certificate's fingerprint, for people to compare over the telephone."""
        return fingerprint(self.certificate)

    def sign(self, data: bytes) -> bytes:
        """Sign with the private key: ECDSA with SHA-256, in DER."""
        return _private_key(self.key, "the key").sign(data, ec.ECDSA(hashes.SHA256()))

    def check_dates(self) -> None:
        """Raise ParameterError when our certificate is not valid now: no peer would accept it."""
        problem = out_of_date(self.certificate)
        if problem is not None:
            raise ParameterError(f"our own certificate ({self.name}) {problem}; renew it and tell the peers")

    def save(self, folder: Path) -> None:
        """Write `identity.pem` and `key.pem` (mode 0600); never overwrite files."""
        make_folder(folder)
        write_new(folder / KEY_FILE, self.key, PRIVATE)
        try:
            write_new(folder / CERTIFICATE_FILE, self.certificate)
        except BaseException:  # a full disk: a key without its certificate would be in the way of the next try
            (folder / KEY_FILE).unlink()
            raise

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the identity in a folder."""
        certificate = read_file(folder / CERTIFICATE_FILE)
        party_of(certificate, str(folder / CERTIFICATE_FILE))
        key = read_secret(folder / KEY_FILE, "this private key", by_group=True)
        _private_key(key, str(folder / KEY_FILE))
        try:
            return cls(certificate, key)
        except ParameterError as error:
            raise ParameterError(f"{folder}: {error}") from None


def make_authority(days: int = 30) -> Authority:
    """Make an authority with a fresh key, valid for `days` days."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject("masquerade-trials")
    builder = _builder(subject, key, subject, days).add_extension(x509.BasicConstraints(True, 0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return Authority(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM), _key_pem(key))


def issue(authority: Authority, name: str, days: int = 30) -> Identity:
    """Make an identity for a party, with a fresh key, signed by the authority."""
    signer = _private_key(authority.key, "the authority's key")
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    return _identity(check_name(name), days, signer, issuer)


def self_signed(name: str, days: int = 30) -> Identity:
    """Make an identity that needs no authority: peers pin the certificate anyway."""
    return _identity(check_name(name), days, None, None)


def party_of(certificate: bytes, place: str) -> str:
    """Return a certificate's (PEM) party, its first valid DNS name; without one, ParameterError naming the place."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate)
        names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        raise ParameterError(f"{place}: not a PEM certificate with the party's name as DNS name") from None
    for name in names.get_values_for_type(x509.DNSName):
        if _NAME.fullmatch(name):
            return name
    raise ParameterError(f"{place}: the certificate has no DNS name that can name a party")


def fingerprint(certificate: bytes) -> str:
    """Hash a certificate (PEM) with SHA-256, in groups of two hexadecimal digits."""
    return x509.load_pem_x509_certificate(certificate).fingerprint(hashes.SHA256()).hex(":").upper()


def signing_key(certificate: bytes) -> ec.EllipticCurvePublicKey | None:
    """Return the key that checks signatures with a certificate (PEM); None when it is not on P-256."""
    key = x509.load_pem_x509_certificate(certificate).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        return None
    return key


def is_signed(certificate: bytes, signature: bytes, data: bytes) -> bool:
    """Return whether the key of a certificate (PEM) has signed these bytes, as `Identity.sign` does."""
    key = signing_key(certificate)
    if key is None:
        return False
    try:
        key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def out_of_date(certificate: bytes) -> str | None:
    """Return why a certificate (PEM) is not valid now; None when it is."""
    loaded = x509.load_pem_x509_certificate(certificate)
    now = datetime.now(UTC)
    if now > loaded.not_valid_after_utc:
        return f"expired on {loaded.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if now < loaded.not_valid_before_utc:
        return f"is valid from {loaded.not_valid_before_utc:%Y-%m-%d %H:%M} UTC only"
    return None


def ends_soon(certificate: bytes) -> datetime | None:
    """Return a certificate's (PEM) expiry time if that is less than SOON from now."""
    until = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    return until if until - datetime.now(UTC) < SOON else None


def _identity(
    name: str, days: int, signer: ec.EllipticCurvePrivateKey | None, issuer: x509.Certificate | None
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    above = issuer.subject if issuer is not None else _subject(name)
    builder = _builder(_subject(name), key, above, days)
    if issuer is not None:
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            ),
            critical=False,
        )
    builder = (
        builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName(name), x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        )
    )
    signed = builder.sign(signer if signer is not None else key, hashes.SHA256())
    return Identity(signed.public_bytes(Encoding.PEM), _key_pem(key))


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, issuer: x509.Name, days: int
) -> x509.CertificateBuilder:
    if not 1 <= days <= MOST_DAYS:
        raise ParameterError(f"a certificate is valid for 1 to {MOST_DAYS} days, not {days}")
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private_key(key: bytes, place: str) -> ec.EllipticCurvePrivateKey:
    try:
        loaded = load_pem_private_key(key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # the library's error text may quote the key
        raise ParameterError(f"{place}: not a private key in PEM without a password") from None
    if not isinstance(loaded, ec.EllipticCurvePrivateKey) or not isinstance(loaded.curve, ec.SECP256R1):
        raise ParameterError(f"{place}: not an ECDSA key on P-256")
    return loaded


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


# --- trust --------------------------------------------------------------------------------------------------
# Whom a node trusts: for each peer's name, the one certificate that it must present.
#
# The store is the node's own: no coordinator, authority or system store adds to it. One that was loaded
# from a folder follows it: a peer whose file is added, replaced or removed is trusted, or not, from then
# on.

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
        store._read = dict(map(_read, sorted(folder.glob(f"*{SUFFIX}"))))
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
        raise ParameterError(f"{certificate}: the fingerprint is {found}, not the expected one; do not trust it")
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


# --- trial --------------------------------------------------------------------------------------------------
# Make the identities and trust stores of all parties of a trial in one place.

AUTHORITY_FILE = "ca.pem"
TRUST_FOLDER = "trust"


def trial_identities(names: Sequence[str], days: int = 30) -> tuple[bytes, dict[str, Identity]]:
    """Make an authority, whose key is discarded; return its certificate (PEM) and each party's identity."""
    _check_names(names)
    if len(names) < 2:
        raise ParameterError("at least two parties are needed")
    authority = make_authority(days)
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
