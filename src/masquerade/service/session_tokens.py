"""Session tokens: the coordinator's permission for one party to run one contract, for a few minutes and one use.

Compact form `mqs1.CLAIMS.SIGNATURE`, both parts base64url without padding. CLAIMS is JSON; the signature (ECDSA on
P-256 with SHA-256, by the key of the coordinator's identity, as r and s of 32 bytes each) covers a label, so that it
can never be taken for another message, and CLAIMS as they are written. Anyone who has pinned the coordinator's
certificate can verify a token; only the coordinator can make one. A party needs no store for that.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from masquerade.errors import NotAllowed, ParameterError
from masquerade.forms.decoders import json_decoder
from masquerade.net.identity import Identity, check_name, is_signed
from masquerade.service.clock import SYSTEM_CLOCK, Now

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
    lifetime: timedelta = LIFETIME

    def __post_init__(self) -> None:
        if not timedelta(seconds=1) <= self.lifetime <= LONGEST_LIFETIME:
            raise ParameterError(f"a session token lives from 1 second to 1 hour; got {self.lifetime}")

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
            expires=int((now + self.lifetime).timestamp()),
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
            if _is_signed(self.certificate(), parts[1], _decoded(parts[2])):
                return json_decoder(Claims).decode(_decoded(parts[1]))
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            pass
        raise NotAllowed("session token: the coordinator did not sign it")


def _signed(identity: Identity, written: str) -> bytes:
    r, s = decode_dss_signature(identity.sign(_LABEL + written.encode()))
    return b"".join(part.to_bytes(_HALF, "big") for part in (r, min(s, _ORDER - s)))


def _is_signed(certificate: bytes, written: str, signature: bytes) -> bool:
    r, s = int.from_bytes(signature[:_HALF], "big"), int.from_bytes(signature[_HALF:], "big")
    if (
        len(signature) != 2 * _HALF or s > _ORDER // 2
    ):  # −s is valid too, but a signature must have only one encoding
        return False
    return is_signed(certificate, encode_dss_signature(r, s), _LABEL + written.encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(written: str) -> bytes:
    data = base64.b64decode(written + "=" * (-len(written) % 4), altchars=b"-_", validate=True)
    if _encoded(data) != written:  # only one encoding
        raise ValueError("not canonical")
    return data
