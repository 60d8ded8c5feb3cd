"""Control messages (control.py) in the audit log: kind, direction, peer, size and digest of each, never its content.

An outgoing message is entered before it is sent, an incoming one before it is acted on; one that cannot be entered
goes no further. Sender and receiver enter the same digest, of the bytes that were sent. Only health probes are left
out, and repeated messages while they stay the same: cards that are pulled, or pushed to a coordinator that is away, a
signature that waits for a person, and progress (ignoring its clock).
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
from masquerade.forms.decoders import json_decoder
from masquerade.net.transcript import Direction

_SESSION = re.compile(r"/v1/sessions/([^/]+)")
_CONTRACT = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_REMEMBERED = 10_000


class NotNoted(ParameterError):
    """This process's own audit log cannot be written; the peer is not at fault."""


class ControlNotes:
    """Record the control messages of one process."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit
        # A thread of its own: reading tables may occupy all others, and progress must still be reported.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._last: dict[tuple[Any, ...], object] = {}  # of each repeated kind of message

    async def note(
        self, direction: Direction, peer: str, method: str, path: str, data: bytes, status: int | None = None
    ) -> None:
        """Record a message or, with an HTTP status, the answer to one; raise NotNoted when it must go no further."""
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
        """Return whether a message of a repeatable kind is the same as the last one of its kind."""
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
    """Return whether the message pushes cards, which is retried until it is answered."""
    return fields["kind"] == "POST /v1/datasets" and fields["status"] is None


def _without_clock(data: bytes) -> bytes:
    """Hash a progress message, ignoring its elapsed seconds."""
    try:
        content: Any = json_decoder(Any).decode(data)
    except (ValueError, RecursionError):  # the receiver says what is wrong with it
        content = None
    if isinstance(content, dict) and "seconds" in content:
        data = msgspec.json.encode({**content, "seconds": None}, order="sorted")
    return hashlib.sha256(data).digest()
