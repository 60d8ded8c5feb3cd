"""The first record of an audit log: its party, and how often it is sealed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from masquerade.audit.chain import LineError, Record, read_line
from masquerade.net.identity import Identity

FORMAT = "masquerade-audit-1"
GENESIS = "genesis"

_START = b'{"event":"genesis","fields":{'


def genesis(identity: Identity, seal_every: int | None) -> tuple[str, Mapping[str, Any]]:
    """Make the first event of a new log."""
    fields = {
        "certificate": identity.fingerprint,
        "format": FORMAT,
        "log": secrets.token_hex(16),
        "party": identity.name,
        "seal_every": seal_every,
    }
    return GENESIS, fields


def read_genesis(record: Record) -> tuple[str, int | None]:
    """Return the party and `seal_every`; LineError when the record does not begin an audit log of this version."""
    fields = record.fields
    texts = [fields.get(key) for key in ("party", "log", "certificate")]
    every = fields.get("seal_every")
    if record.event != GENESIS or not all(isinstance(text, str) for text in texts):
        raise LineError("not the beginning of an audit log")
    if fields.get("format") != FORMAT or not (every is None or (type(every) is int and every >= 2)):
        raise LineError(f"not the beginning of an audit log of this version, {FORMAT}")
    return fields["party"], every


def looks_like_log(first_line: bytes) -> bool:
    """Return whether a file's first line, even if damaged or cut short, appears to begin an audit log."""
    if first_line and (first_line.startswith(_START) or _START.startswith(first_line)):
        return True
    if FORMAT.encode() in first_line:
        return True
    try:
        read_line(first_line)
    except LineError:
        return False
    return True
