"""Control calls to one peer over any transport: `peer_http` over TLS, in memory in tests.

    health = await link.call("GET", "/v1/health", answer=Health)

The peer's answer is checked before it is used. Failures are PeerErrors that name the peer; an error that it reports
(RFC 9457) is raised again as the exception that it was there, as far as it concerns the caller.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from masquerade.errors import ParameterError, PeerBrokeProtocol, Problem
from masquerade.service.control import read_said
from masquerade.service.control_audit import ControlNotes
from masquerade.service.problem_document import error_of, read_problems


class ControlLink(ABC):
    """Calls to one peer; with `notes`, each call and its answer are entered in the audit log."""

    def __init__(self, peer: str, notes: ControlNotes | None = None) -> None:
        self.peer = peer
        self._notes = notes

    @abstractmethod
    async def exchange(
        self, method: str, path: str, content: bytes | None, timeout: float | None
    ) -> tuple[int, bytes]:
        """Send a request; return the HTTP status and content of the answer. Raise PeerError when none arrives."""

    async def call(
        self, method: str, path: str, said: Any = None, *, answer: Any = None, timeout: float | None = None
    ) -> Any:
        """Return the peer's answer as one of the types in `answer`; None when no answer is expected."""
        content = msgspec.json.encode(said) if said is not None else None
        if self._notes is not None:
            await self._notes.note("sent", self.peer, method, path, content or b"")
        status, data = await self.exchange(method, path, content, timeout)
        if self._notes is not None:
            await self._notes.note("received", self.peer, method, path, data, status)
        if status >= 400:
            raise self._error(status, data)
        if answer is None:
            return None
        try:
            return read_said(data, answer, f"answered {method} {path} with")
        except ParameterError as error:
            raise PeerBrokeProtocol(self.peer, "; ".join(error.lines)) from None

    def _error(self, status: int, data: bytes) -> Exception:
        problems = read_problems(data) or (Problem(f"answered with status {status}"),)
        theirs = (each if each.party is None else Problem(str(each)) for each in problems)
        failed = PeerBrokeProtocol(self.peer, f"failed: {'; '.join(map(str, problems))}")
        return error_of(status, [each.at(party=self.peer) for each in theirs]) or failed
