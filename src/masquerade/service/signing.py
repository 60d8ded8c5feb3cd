"""Contracts with their signatures: signing one, and checking that every party has.

`SignedContract.hash` names the session: it covers the deal (and with it the terms), nonce, expiry, attempt and the
fingerprint of every party's certificate. Each party signs that hash with the key of its identity. A verifier takes
the certificates from its **own** trust store, never from the contract or from its sender.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from masquerade.errors import ParameterError, PeerRefused
from masquerade.files import read_file
from masquerade.forms.json import read_json
from masquerade.net.identity import Identity, fingerprint, is_signed, out_of_date, signing_key
from masquerade.net.trust import TrustStore
from masquerade.protocol.contract import Contract
from masquerade.service.canonical import canonical, digest
from masquerade.service.terms import Deal

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
