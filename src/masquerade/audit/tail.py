"""The end of a chained file, read backwards."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from masquerade.audit.chain import MOST_LINE, LineError
from masquerade.errors import ParameterError
from masquerade.files import FileError

_BLOCK = 64 * 1024


def last_lines(file: int, size: int, count: int = 1) -> tuple[list[bytes], bytes]:
    """Return the last complete lines, at most `count`, and the bytes after them; `size` is the file's."""
    tail, at = b"", size
    while at > 0 and tail.count(b"\n") <= count:
        if len(tail) > (count + 1) * MOST_LINE:
            raise LineError("the last line is endless")
        step = min(at, max(_BLOCK, len(tail)))
        at -= step
        tail = os.pread(file, step, at) + tail
    *lines, torn = tail.split(b"\n")
    return lines[-count:], torn


def last_records(path: Path, limit: int = 100) -> list[dict[str, Any]]:
    """Return the last records for display, newest last. They are not verified; `audit verify` does that."""
    if not 1 <= limit <= 1000:
        raise ParameterError(f"limit: must be from 1 to 1000; got {limit}")
    if not path.exists():
        return []
    with path.open("rb") as file:
        try:
            lines, _ = last_lines(file.fileno(), os.fstat(file.fileno()).st_size, limit)
        except LineError as error:
            raise FileError.at(path, f"{error}; see `audit verify`") from None
    return [record for line in lines if (record := _record(line)) is not None]


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
