"""Seals: lines of an audit log that sign the line before them, and through the chain all earlier ones."""

from __future__ import annotations

from collections.abc import Mapping

from masquerade.audit.chain import Anchor, LineError, Record, unhashed_line, write_line
from masquerade.errors import ParameterError, shown
from masquerade.net.identity import Identity, is_signed, signing_key

SEAL = "seal"

_CONTEXT = b"masquerade audit seal\n"


def is_seal_due(number: int, seal_every: int | None) -> bool:
    """Return whether the record with this number must be a seal: number 2 and each multiple of `seal_every`."""
    return seal_every is not None and (number == 2 or (number > 2 and number % seal_every == 0))


def write_seal(identity: Identity, after: Anchor, time: str) -> tuple[bytes, Anchor]:
    """Encode the seal that follows `after`; return it and its anchor."""
    fields = {"certificate": identity.fingerprint}
    signature = identity.sign(_signed_bytes(fields, after, time))
    return write_line(SEAL, {**fields, "signature": signature.hex()}, after, time)


class SealCheck:
    """Checks seals against certificates (PEM, by fingerprint); each seal names the one it was made with."""

    def __init__(self, certificates: Mapping[str, bytes]) -> None:
        for fingerprint, pem in certificates.items():
            if signing_key(pem) is None:
                raise ParameterError(f"certificate {fingerprint}: not for an ECDSA key, which seals need")
        self._certificates = certificates

    def check(self, seal: Record) -> None:
        """Raise LineError when a seal is malformed, names an unknown certificate, or has a wrong signature."""
        named, signature = seal.fields.get("certificate"), seal.fields.get("signature")
        if not isinstance(named, str) or not isinstance(signature, str) or len(seal.fields) != 2:
            raise LineError("bad seal: it does not have a certificate's fingerprint and a signature")
        if named not in self._certificates:
            raise LineError(f"bad seal: it is of certificate {shown(named, 100)}, which was not given")
        signed = _signed_bytes({"certificate": named}, Anchor(seal.number - 1, seal.previous), seal.time)
        try:
            right = is_signed(self._certificates[named], bytes.fromhex(signature), signed)
        except ValueError:
            right = False
        if not right:
            raise LineError("bad seal: the signature is not the certificate's")


def _signed_bytes(fields: Mapping[str, str], after: Anchor, time: str) -> bytes:
    """Encode the seal without signature and hash; its `previous` field binds it to this log and no other."""
    return _CONTEXT + unhashed_line(SEAL, fields, after, time)
