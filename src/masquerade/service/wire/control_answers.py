"""What both servers of `control.py` share: answers in JSON, problem documents (RFC 9457), and their audit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

import msgspec
from cryptography import x509
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from masquerade.errors import ParameterError, Problem
from masquerade.net.identity import Identity
from masquerade.service.clock import Clock
from masquerade.service.wire.control import ControlNotes, Health
from masquerade.service.wire.peers import MOST_BYTES
from masquerade.service.wire.problems import MEDIA_TYPE, rendered


def said(content: Any) -> Response:
    """Return a JSON answer."""
    return Response(msgspec.json.encode(content), media_type="application/json")


def problem(status: int, *problems: Problem | str) -> Response:
    """Return a problem document."""
    return Response(rendered(status, problems), status, media_type=MEDIA_TYPE)


def health_of(identity: Identity, clock: Clock) -> Health:
    """Report this process's identity and clock."""
    until = x509.load_pem_x509_certificate(identity.certificate).not_valid_after_utc
    return Health(identity.name, version("masquerade"), clock.now().timestamp(), int(until.timestamp()))


async def audited(
    notes: ControlNotes | None,
    sender: str,
    request: Request,
    answer: Callable[[bytes], Awaitable[Response]],
) -> Response:
    """Read a message and answer it; raise NotNoted when either cannot be entered in the audit log."""
    method, path = request.method, request.scope["path"]
    body = await _body(request)
    if notes is not None:
        await notes.note("received", sender, method, path, body)
    response = await answer(body)
    if notes is not None:
        await notes.note("sent", sender, method, path, bytes(response.body), response.status_code)
    return response


async def _body(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BYTES:
            raise ParameterError(f"a message has at most {MOST_BYTES:,} bytes")
    return bytes(data)


async def no_route(request: Request, error: Exception) -> Response:
    """Answer unknown routes and methods with the usual problem document."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.scope['path']}"
    told = f"{what}: there is no such address" if error.status_code == 404 else f"{what}: not a method of it"
    answer = problem(error.status_code, told)
    answer.headers.update(error.headers or {})  # the allowed methods
    return answer
