"""Contracts with their signatures: signing one, and checking that every party has.

`SignedContract.hash` names the session: it covers the deal (and with it the terms), nonce, expiry, attempt and the
fingerprint of every party's certificate. Each party signs that hash with the key of its identity. A verifier takes
the certificates from its **own** trust store, never from the contract or from its sender.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from masquerade.errors import NotAllowed, ParameterError, PeerRefused
from masquerade.files import FolderLook, look_at, read_file
from masquerade.forms import json_decoder, read_json
from masquerade.net import Identity, TrustStore, check_name, fingerprint, is_signed, out_of_date, signing_key
from masquerade.protocol import Contract
from masquerade.service.agree.terms import Deal
from masquerade.service.canonical import canonical, digest
from masquerade.service.clock import SYSTEM_CLOCK, Now

# --- client certificates ------------------------------------------------------------------------------------
# The certificates of clients who sign their requests: one file `USER.pem` each, in a folder of the node's
# own.
#
# They are kept apart from the trust store: a client's certificate opens no connection. Like the store, they
# follow their folder when it changes.

SUFFIX = ".pem"


class ClientCertificates:
    """Users with their certificates (PEM)."""

    def __init__(self, certificates: Mapping[str, bytes] | None = None) -> None:
        self._read = dict(certificates or {})
        self._folder: Path | None = None
        self._look: FolderLook = ()

    def __len__(self) -> int:
        return len(self._read)

    def of(self, user: str) -> bytes | None:
        """Return a user's certificate, or None."""
        self._follow()
        return self._read.get(user)

    def _follow(self) -> None:
        """Read the folder again if it has changed; a file that is no certificate is nobody's."""
        if self._folder is None or (look := look_at(self._folder, SUFFIX)) == self._look:
            return
        found = {}
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with suppress(ParameterError):
                found[path.stem] = _checked(read_file(path), path)
        self._read, self._look = found, look

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the certificates in a folder; a missing folder holds none. ParameterError names a file that is none."""
        certificates = cls()
        certificates._folder, certificates._look = folder, look_at(folder, SUFFIX)
        try:
            paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
        except OSError as error:
            raise ParameterError(f"{folder}: cannot be read: {error.strerror}") from None
        certificates._read = {path.stem: _checked(read_file(path), path) for path in paths}
        return certificates


def _checked(pem: bytes, path: Path) -> bytes:
    try:
        count = len(x509.load_pem_x509_certificates(pem))
    except ValueError:
        count = 0
    if count != 1 or signing_key(pem) is None:
        raise ParameterError(f"{path}: must be one certificate in PEM, for an ECDSA key on P-256")
    return pem


# --- session tokens -----------------------------------------------------------------------------------------
# Session tokens: the coordinator's permission for one party to run one contract, for a few minutes and one
# use.
#
# Compact form `mqs1.CLAIMS.SIGNATURE`, both parts base64url without padding. CLAIMS is JSON; the signature
# (ECDSA on P-256 with SHA-256, by the key of the coordinator's identity, as r and s of 32 bytes each)
# covers a label, so that it can never be taken for another message, and CLAIMS as they are written. Anyone
# who has pinned the coordinator's certificate can verify a token; only the coordinator can make one. A
# party needs no store for that.

LIFETIME = timedelta(minutes=5)
LONGEST_LIFETIME = timedelta(hours=1)
CLOCKS_DIFFER = timedelta(seconds=30)
_VERSION = "mqs1"
_LABEL = b"masquerade session token 1\0"
_LONGEST = 2048
_HALF = 32  # bytes of r, and of s
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


class OutOfTime(NotAllowed):
    """A token of another time than this party's clock shows: late, or the clocks differ."""


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a token. Times are whole seconds since 1970, UTC."""

    audience: str
    contract: str
    nonce: str
    issued: int
    expires: int


class Nonces:
    """Nonces of used tokens, kept in memory only: after a restart a party has no session open."""

    def __init__(self, clock: Now = SYSTEM_CLOCK.now) -> None:
        self._clock = clock
        self._used: dict[str, datetime] = {}
        self._lock = threading.Lock()

    def first_use(self, nonce: str, expires: datetime) -> bool:
        """Return whether a nonce is shown for the first time; remember it until `expires`."""
        with self._lock:
            now = self._clock()
            self._used = {each: until for each, until in self._used.items() if until > now}
            if nonce in self._used:
                return False
            self._used[nonce] = expires
            return True


@dataclass(frozen=True)
class TokenIssuer:
    """Issue session tokens with the coordinator's identity."""

    identity: Identity
    clock: Now = SYSTEM_CLOCK.now

    def issue(self, party: str, contract_hash: str) -> str:
        """Make a token for one party and one contract."""
        if not _HASH.fullmatch(contract_hash):
            raise ParameterError("a contract's hash must be 64 hexadecimal digits (small letters)")
        now = self.clock()
        claims = Claims(
            audience=check_name(party),
            contract=contract_hash,
            nonce=secrets.token_hex(16),
            issued=int(now.timestamp()),
            expires=int((now + LIFETIME).timestamp()),
        )
        written = _encoded(msgspec.json.encode(claims, order="sorted"))
        return f"{_VERSION}.{written}.{_encoded(_signed(self.identity, written))}"


@dataclass(frozen=True)
class TokenVerifier:
    """Verify session tokens against the coordinator's pinned certificate (PEM). Verifying a token uses it up."""

    certificate: Callable[[], bytes]  # the one that is pinned now
    seen: Nonces
    clock: Now = SYSTEM_CLOCK.now

    def verify(self, token: str, *, audience: str, contract_hash: str) -> Claims:
        """Return the claims; raise NotAllowed if it is forged, late, used, or for another party or contract."""
        claims = self._signed(token)
        now = self.clock().timestamp()
        if claims.expires <= now:
            raise OutOfTime("session token: it has expired; ask the coordinator for a new one")
        if claims.issued > now + CLOCKS_DIFFER.total_seconds():
            raise OutOfTime("session token: it is from the future; compare the clocks")
        if claims.expires - claims.issued > LONGEST_LIFETIME.total_seconds():
            raise NotAllowed("session token: it would live for more than 1 hour")
        if claims.audience != audience:
            raise NotAllowed(f"session token: it is for party {claims.audience}, not for {audience}")
        if not secrets.compare_digest(claims.contract.encode(), contract_hash.encode()):
            raise NotAllowed("session token: it belongs to another contract")
        expires = datetime.fromtimestamp(claims.expires, UTC)
        if not self.seen.first_use(claims.nonce, expires):  # last: a refused token is not used up
            raise NotAllowed("session token: it was used before")
        return claims

    def _signed(self, token: str) -> Claims:
        parts = token.split(".") if len(token) <= _LONGEST and token.isascii() else []
        if len(parts) != 3 or parts[0] != _VERSION:
            raise NotAllowed("session token: not of a form that is known here")
        try:
            signature = _decoded(parts[2])
            r, s = int.from_bytes(signature[:_HALF], "big"), int.from_bytes(signature[_HALF:], "big")
            # Though −s is valid too, a signature must have only one encoding
            if len(signature) == 2 * _HALF and s <= _ORDER // 2:
                der, covered = encode_dss_signature(r, s), _LABEL + parts[1].encode()
                if is_signed(self.certificate(), der, covered):
                    return json_decoder(Claims).decode(_decoded(parts[1]))
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            pass
        raise NotAllowed("session token: the coordinator did not sign it")


def _signed(identity: Identity, written: str) -> bytes:
    r, s = decode_dss_signature(identity.sign(_LABEL + written.encode()))
    return b"".join(part.to_bytes(_HALF, "big") for part in (r, min(s, _ORDER - s)))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(written: str) -> bytes:
    data = base64.b64decode(written + "=" * (-len(written) % 4), altchars=b"-_", validate=True)
    if _encoded(data) != written:  # only one encoding
        raise ValueError("not canonical")
    return data


# --- signing ------------------------------------------------------------------------------------------------

_CONTEXT = b"masquerade contract\n"  # separates contract signatures from all others
NOBODY_KNOWN = "no certificate of it is known here"
_NONCE = re.compile(r"[0-9a-f]{32}", re.ASCII)


class SignedContract(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A deal with everything that makes it one session, and the signatures so far."""

    deal: Deal
    expiry: int  # seconds since 1970
    keys: dict[str, str]  # by party: the fingerprint of its certificate
    attempt: int = 1
    nonce: str = msgspec.field(default_factory=lambda: secrets.token_hex(16))
    signatures: dict[str, str] = {}  # by party, hexadecimal  # msgspec copies an empty default

    @property
    def hash(self) -> bytes:
        """The hash that names the session and that the parties sign."""
        return digest({**msgspec.to_builtins(self), "signatures": None})

    @property
    def contract(self) -> Contract:
        """The contract that the protocol runs by."""
        return self.deal.terms.contract(self.nonce)

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties that have to sign."""
        return self.deal.terms.parties

    def with_signature(self, party: str, signature: bytes) -> SignedContract:
        """Add a signature."""
        return msgspec.structs.replace(self, signatures={**self.signatures, party: signature.hex()})

    def canonical(self) -> bytes:
        """Encode the contract with its signatures."""
        return canonical(self)

    @classmethod
    def read(cls, data: bytes) -> SignedContract:
        """Decode a contract from its JSON."""
        signed: SignedContract = read_json(data, cls, "contract")
        return signed


def read_contract(path: Path) -> SignedContract:
    """Read the contract in a file."""
    data = read_file(path)
    try:
        return SignedContract.read(data)
    except ParameterError as error:
        raise ParameterError(f"{path}: {error}") from None


def draw_up(deal: Deal, keys: Mapping[str, str], expiry: int, attempt: int = 1) -> SignedContract:
    """Make an unsigned contract; `keys` has every party's fingerprint.

    A fresh nonce makes every attempt a separate session, which has to be signed anew.
    """
    lacking = [party for party in deal.terms.parties if party not in keys]
    if lacking:
        raise ParameterError(f"no fingerprint of {', '.join(lacking)}")
    return SignedContract(deal, expiry, {party: keys[party] for party in deal.terms.parties}, attempt)


def sign(identity: Identity, contract_hash: bytes) -> bytes:
    """Sign a contract's hash as a party."""
    return identity.sign(_CONTEXT + contract_hash)


def verify_signatures(
    signed: SignedContract, trust: TrustStore, *, own: Identity | None = None, now: int | None = None
) -> None:
    """Refuse a contract unless every party signed it with the key we know; PeerRefused names the first that did not.

    `own` is this node's identity, if it is a party: a node's own certificate is not in its trust store.
    """
    for problem in refusals(signed, trust, own=own, now=now):
        raise problem


def refusals(
    signed: SignedContract, trust: TrustStore, *, own: Identity | None = None, now: int | None = None
) -> Iterator[PeerRefused]:
    """Yield everything that is wrong with a contract's signatures, party by party."""
    moment = int(datetime.now(UTC).timestamp()) if now is None else now
    wrong = _wrong_in_itself(signed, moment)
    for party in signed.parties:
        certificate: bytes | None
        try:
            certificate = own.certificate if own is not None and party == own.name else trust.pin(party)
        except PeerRefused as error:
            yield error
            continue
        problem = wrong or _problem(signed, party, certificate)
        if problem is not None:
            yield PeerRefused(party, problem)
    for stranger in sorted({*signed.keys, *signed.signatures} - set(signed.parties)):
        yield PeerRefused(stranger, "has signed the contract, or has a key in it, and is none of its parties")


def signers(signed: SignedContract, trust: TrustStore, own: Identity | None = None) -> dict[str, str | None]:
    """Map each signer to what is wrong with its signature by the certificates we know, or to None."""
    found: dict[str, str | None] = {}
    for party in sorted(signed.signatures):
        if party not in signed.parties:
            found[party] = "is none of the contract's parties"
        elif own is not None and party == own.name:
            found[party] = _problem(signed, party, own.certificate)
        elif party in trust.names:
            found[party] = _problem(signed, party, trust.pin(party))
        else:
            found[party] = NOBODY_KNOWN
    return found


def _wrong_in_itself(signed: SignedContract, now: int) -> str | None:
    if len(set(signed.parties)) < len(signed.parties):
        return "is not the only party of its name in the contract"
    if signed.expiry <= now:
        moment = datetime.fromtimestamp(max(signed.expiry, 0), UTC)  # none was made before 1970
        return f"brings a contract that expired on {moment:%Y-%m-%d %H:%M:%S} UTC; ask for a new one"
    if not 1 <= signed.attempt <= signed.deal.attempts:
        return f"brings a contract for attempt {signed.attempt}; the deal allows 1 to {signed.deal.attempts}"
    if not _NONCE.fullmatch(signed.nonce):
        return "brings a contract whose nonce is not 32 hexadecimal digits"
    return None


def _problem(signed: SignedContract, party: str, pem: bytes) -> str | None:
    ours = fingerprint(pem)
    named = signed.keys.get(party)
    if named != ours:
        return f"has the certificate {named or '(none)'} in the contract; we know it by {ours}"
    invalid = out_of_date(pem)
    if invalid is not None:
        return f"its certificate {invalid}"
    if party not in signed.signatures:
        return "has not signed the contract"
    if signing_key(pem) is None:
        return "its certificate is not for an ECDSA key on P-256"
    try:
        right = is_signed(pem, bytes.fromhex(signed.signatures[party]), _CONTEXT + signed.hash)
    except ValueError:
        right = False
    if not right:
        return f"its signature is not one over this contract ({signed.hash.hex()[:16]}…) with the key that we know"
    return None
