"""How the servers of `control.py` answer: JSON, and problems as RFC 9457 has them, whatever went wrong."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from masquerade.errors import one_line
from masquerade.service.control import ProblemDocument


def said(content: Any) -> Response:
    """An answer."""
    return Response(msgspec.json.encode(content), media_type="application/json")


def problem(status: int, title: str, problems: tuple[str, ...]) -> Response:
    """Why there is none, one line a problem."""
    lines = tuple(map(one_line, problems))
    told = ProblemDocument(title, status, lines[0] if lines else title, problems=lines)
    return Response(msgspec.json.encode(told), status, media_type="application/problem+json")


async def no_route(request: Request, error: Exception) -> Response:
    """An address or a method that there is not, told as everything else is."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.scope['path']}"
    told = f"{what}: there is no such address" if error.status_code == 404 else f"{what}: not a method of it"
    answer = problem(error.status_code, str(error.detail).lower(), (told,))
    answer.headers.update(error.headers or {})  # which methods there are
    return answer
