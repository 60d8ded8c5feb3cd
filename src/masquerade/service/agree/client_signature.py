"""A client's signature over its request, by which parties need not take user, purpose and recipients on trust.

Signed is the canonical JSON (RFC 8785) of the whole request with its user, a time and a nonce, by the key of the
client's own identity: ECDSA on P-256 with SHA-256. The signed request travels with what the coordinator makes of it,
because negotiation changes the requirement on the way: parties compare the two (objections.py).
"""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import msgspec

from masquerade.net.identity import Identity, is_signed, out_of_date
from masquerade.service.canonical import canonical

LIFETIME = 7 * 86_400  # seconds for which a signed request can be carried out
_CLOCKS_DIFFER = 300  # seconds
_CONTEXT = b"masquerade request\n"  # separates these signatures from all others


class ClientSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request as its client signed it, when (seconds since 1970), and the signature in hexadecimal digits."""

    request: dict[str, Any]
    time: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    nonce: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    signature: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{2}){1,100}\Z")]

    @property
    def until(self) -> int:
        """When it ends."""
        return self.time + LIFETIME

    def problem(self, certificate: bytes, now: int) -> str | None:
        """Return why the owner of a certificate (PEM) has not signed this, or not for now; None when they have."""
        if (invalid := out_of_date(certificate)) is not None:
            return f"the client's certificate {invalid}"
        if not is_signed(
            certificate, bytes.fromhex(self.signature), _covered(self.request, self.time, self.nonce)
        ):
            return "the signature is not one over this request with the client's key that we know"
        if self.time > now + _CLOCKS_DIFFER:
            return "the request was signed in the future; compare the clocks"
        if self.until <= now:
            return f"the request was signed more than {LIFETIME // 86_400} days ago; sign it anew"
        return None


def signed_by(identity: Identity, request: dict[str, Any], now: int) -> ClientSignature:
    """Sign the content of a request, which names its user."""
    nonce = secrets.token_hex(16)
    return ClientSignature(request, now, nonce, identity.sign(_covered(request, now, nonce)).hex())


def _covered(request: dict[str, Any], time: int, nonce: str) -> bytes:
    return _CONTEXT + canonical({"request": request, "time": time, "nonce": nonce})
