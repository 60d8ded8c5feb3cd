"""Control messages (control.py) in the audit log: kind, direction, peer, size and digest of each, never its content.

A message is entered before it leaves, and when it has come before it is acted on; one that cannot be entered does not
go on. Sender and receiver enter the same digest, of the bytes that were sent. Left out are only health probes, and what
is said again and again as long as it stays the same: cards that are pulled, or pushed to a coordinator that is away, a
signature that waits for a person, and progress, whose clock does not count.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec

from masquerade.audit.log import CONTROL, AuditLog
from masquerade.errors import MasqueradeError, ParameterError
from masquerade.net.transcript import Direction

_SESSION = re.compile(r"/v1/sessions/([^/]+)")
_CONTRACT = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_REMEMBERED = 10_000


class NotNoted(ParameterError):
    """Our own audit log cannot be written: no fault of the peer's."""


class ControlNotes:
    """Records the control messages of one process."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        # A thread of its own: while tables are read, which may take all others, progress must be told.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._last: dict[tuple[Any, ...], object] = {}  # of what is said again and again

    async def note(
        self, direction: Direction, peer: str, method: str, path: str, data: bytes, status: int | None = None
    ) -> None:
        """Record a message, or with its HTTP status the answer to one; NotNoted when it must not go on."""
        kind, session = _kind(method, path)
        fields: dict[str, Any] = {
            "digest": hashlib.sha256(data).hexdigest(),
            "direction": direction,
            "kind": kind,
            "peer": peer,
            "session": session,
            "size": len(data),
            "status": status,
        }
        if kind == "GET /v1/health" or self._is_repeated(fields, data):
            return
        work = partial(self._audit.append, CONTROL, fields)
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except MasqueradeError as error:
            self._last.clear()
            raise NotNoted(*error.problems) from None

    def _is_repeated(self, fields: Mapping[str, Any], data: bytes) -> bool:
        """Return whether a message of a kind that is repeated says what the last one of its kind said."""
        what = tuple(fields[key] for key in ("direction", "kind", "peer", "session"))
        if fields["kind"] == "POST /v1/contracts":  # several may wait at once
            what = (*what, fields["digest"])
        elif not (fields["kind"].startswith("GET ") or _is_push(fields)):
            return False
        content = (fields["status"], _without_clock(data))
        if self._last.pop(what, None) == content:
            self._last[what] = content
            return True
        self._last[what] = content
        while len(self._last) > _MOST_REMEMBERED:
            self._last.pop(next(iter(self._last)))
        return False


def _kind(method: str, path: str) -> tuple[str, str | None]:
    """Return the kind of a message, and the contract in its path, if any."""
    match = _SESSION.match(path)
    if match is None:
        return f"{method} {path}", None
    rest = path[match.end() :]
    session = match[1] if _CONTRACT.fullmatch(match[1]) else None
    return f"{method} /v1/sessions/{{contract}}{rest}", session


def _is_push(fields: Mapping[str, Any]) -> bool:
    """Return whether cards are pushed, which is tried again until it is answered."""
    return fields["kind"] == "POST /v1/datasets" and fields["status"] is None


def _without_clock(data: bytes) -> bytes:
    """Hash a message without the seconds that have passed."""
    try:
        content = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        content = None
    if isinstance(content, dict) and "seconds" in content:
        data = msgspec.json.encode({**content, "seconds": None}, order="sorted")
    return hashlib.sha256(data).digest()
