"""One line of an audit log: its canonical form, its hash, and the seals that sign it.

    {"event":…,"fields":{…},"hash":…,"number":…,"previous":…,"time":…}

Canonical JSON: keys sorted, no white space. `number` is the line's own number in the file, from 1.
`previous` is the hash of the line before (of zeros, for the first), `hash` is SHA-256 over the canonical JSON of all
the rest. A line has one form only, so that no byte of it can change unseen. No I/O here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from masquerade.errors import ParameterError, one_line, shown
from masquerade.net.identity import Identity

FORMAT = "masquerade-audit-1"
GENESIS, SEAL = "genesis", "seal"
MOST_LINE = 16 << 20
"""No line is longer, so that a reader's memory is bounded whatever the file holds."""

_START = b'{"event":"genesis","fields":{'
_SEAL_CONTEXT = b"masquerade audit seal\n"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z\Z"
_ANCHOR = re.compile(r"([1-9][0-9]{0,18}):([0-9a-f]{64})", re.ASCII)


class LineError(ValueError):
    """What is wrong with a line."""


class Anchor(NamedTuple):
    """A record's number and hash: whoever keeps it can prove later that the log still holds that record."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    @classmethod
    def read(cls, text: str) -> Anchor:
        """The inverse of `str`."""
        match = _ANCHOR.fullmatch(text)
        if match is None:
            raise ParameterError(
                f"anchor {shown(text)}: not NUMBER:HASH, a record's number and its 64 hexadecimal digits"
            )
        return cls(int(match[1]), match[2])


NOTHING = Anchor(0, "0" * 64)
"""What the first line follows."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line that was read; its hash is right."""

    event: str
    fields: dict[str, Any]
    hash: str
    number: int
    previous: str
    time: Annotated[str, msgspec.Meta(pattern=_TIME)]

    @property
    def anchor(self) -> Anchor:
        """What names this record."""
        return Anchor(self.number, self.hash)


_decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def now() -> str:
    """The time in UTC, as RFC 3339 has it."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def write_line(event: str, fields: Mapping[str, Any], after: Anchor, time: str) -> tuple[bytes, Anchor]:
    """The line, with its end, that follows `after`; and its own anchor."""
    body = _body(event, fields, after, time)
    try:
        digest = hashlib.sha256(_encode(body)).hexdigest()
        line = _encode({**body, "hash": digest})
        read_line(line)  # nothing is written that could not be read back
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        raise ParameterError(f"audit log: the fields of {shown(event)} cannot be written as JSON") from None
    if len(line) >= MOST_LINE:
        raise ParameterError(
            f"audit log: {shown(event)} takes {len(line)} bytes; a line has at most {MOST_LINE}"
        )
    return line + b"\n", Anchor(after.number + 1, digest)


def read_line(raw: bytes) -> Record:
    """The record in a line (without its end); LineError when it is none, or not as it was written."""
    try:
        record = _decode(raw)
        canonical = _encode(record)
        hash_field = b'"hash":"%b",' % record.hash.encode()
    except msgspec.ValidationError as error:
        raise LineError(f"not a record: {one_line(str(error))[:200]}") from None
    except (msgspec.MsgspecError, UnicodeError, OverflowError, RecursionError):
        raise LineError("not JSON") from None
    if canonical != raw:
        raise LineError("not canonical JSON")
    # Fields may hold such a text, too; behind the line's own hash nothing does, so the last one is it.
    before, _, behind = raw.rpartition(hash_field)
    if hashlib.sha256(before + behind).hexdigest() != record.hash:
        raise LineError("wrong hash: the line was changed after it was written")
    return record


def looks_like_log(first_line: bytes) -> bool:
    """Whether a file's first line, whole, damaged or cut short, is one of an audit log."""
    if first_line and (first_line.startswith(_START) or _START.startswith(first_line)):
        return True
    if FORMAT.encode() in first_line:
        return True
    try:
        read_line(first_line)
    except LineError:
        return False
    return True


def is_seal_due(number: int, seal_every: int | None) -> bool:
    """Whether the record with this number is a seal in any log that is sealed so often."""
    return seal_every is not None and (number == 2 or (number > 2 and number % seal_every == 0))


class Signer:
    """Seals with a party's identity."""

    def __init__(self, identity: Identity) -> None:
        key = load_pem_private_key(identity.key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey), "an Identity's key is on a curve"
        self._key, self._fingerprint = key, identity.fingerprint

    def seal(self, after: Anchor, time: str) -> tuple[bytes, Anchor]:
        """A line that signs the one before it, and with it all before that one."""
        fields = {"certificate": self._fingerprint}
        signature = self._key.sign(_sealed_bytes(fields, after, time), ec.ECDSA(hashes.SHA256()))
        return write_line(SEAL, {**fields, "signature": signature.hex()}, after, time)


class SealReader:
    """Checks seals against certificates (PEM), of which each seal names one."""

    def __init__(self, certificates: Mapping[str, bytes]) -> None:
        self._keys: dict[str, ec.EllipticCurvePublicKey] = {}
        for fingerprint, pem in certificates.items():
            key = x509.load_pem_x509_certificate(pem).public_key()
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise ParameterError(f"certificate {fingerprint}: not for an ECDSA key, which seals need")
            self._keys[fingerprint] = key

    def check(self, seal: Record) -> None:
        """LineError when a seal is not what it should be."""
        named, signature = seal.fields.get("certificate"), seal.fields.get("signature")
        if not isinstance(named, str) or not isinstance(signature, str) or len(seal.fields) != 2:
            raise LineError("bad seal: it does not have a certificate's fingerprint and a signature")
        if named not in self._keys:
            raise LineError(f"bad seal: it is of certificate {shown(named, 100)}, which was not given")
        after = Anchor(seal.number - 1, seal.previous)
        signed = _sealed_bytes({"certificate": named}, after, seal.time)
        try:
            self._keys[named].verify(bytes.fromhex(signature), signed, ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError):
            raise LineError("bad seal: the signature is not the certificate's") from None


def _body(event: str, fields: Mapping[str, Any], after: Anchor, time: str) -> dict[str, Any]:
    return {
        "event": event,
        "fields": fields,
        "number": after.number + 1,
        "previous": after.hash,
        "time": time,
    }


def _sealed_bytes(fields: Mapping[str, Any], after: Anchor, time: str) -> bytes:
    """What a seal signs: its own line but for signature and hash; `previous` binds it to this log and no other."""
    return _SEAL_CONTEXT + _encode(_body(SEAL, fields, after, time))
