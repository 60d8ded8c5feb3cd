"""How the servers of `control.py` answer: JSON, and problem documents (RFC 9457) whatever went wrong."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from masquerade.errors import Problem
from masquerade.service.problem_document import MEDIA_TYPE, rendered


def said(content: Any) -> Response:
    """An answer."""
    return Response(msgspec.json.encode(content), media_type="application/json")


def problem(status: int, *problems: Problem | str) -> Response:
    """A problem document instead of an answer."""
    return Response(rendered(status, problems), status, media_type=MEDIA_TYPE)


async def no_route(request: Request, error: Exception) -> Response:
    """Answer unknown routes and methods with the usual problem document."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.scope['path']}"
    told = f"{what}: there is no such address" if error.status_code == 404 else f"{what}: not a method of it"
    answer = problem(error.status_code, told)
    answer.headers.update(error.headers or {})  # which methods there are
    return answer
