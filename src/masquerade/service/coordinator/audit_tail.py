"""The end of an audit log, for a page that shows it. It proves nothing; `audit verify` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from masquerade.errors import ParameterError

_BLOCK = 64 * 1024


def audit_tail(path: Path, limit: int = 100) -> list[dict[str, Any]]:
    """The last records, the newest last."""
    if not 1 <= limit <= 1000:
        raise ParameterError(f"limit: must be from 1 to 1000; got {limit}")
    if not path.exists():
        return []
    with path.open("rb") as file:
        at = file.seek(0, 2)
        tail = b""
        while at > 0 and tail.count(b"\n") <= limit:
            step = min(at, _BLOCK)
            at -= step
            file.seek(at)
            tail = file.read(step) + tail
    lines = tail.rpartition(b"\n")[0].split(b"\n") if tail else []
    return [record for line in lines[-limit:] if (record := _record(line)) is not None]


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
