"""Downloads: the table in two formats, and the report, which is shown as a page without any rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, PlainTextResponse, RedirectResponse, Response

from masquerade.console.frame import COOKIE, Console, SignedOut
from masquerade.console.guard import CONSOLE, HEADERS, PREFIX
from masquerade.errors import MasqueradeError, NotFound
from masquerade.service import User

router = APIRouter(prefix=f"{PREFIX}/sessions/{{session_id}}", include_in_schema=False)

_TABLES = {
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",  # a model
}
# A report has inline styles and drawings but no script; the sandbox enforces that, whatever the report contains.
_REPORT = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; sandbox",
    # Browsers open no sandboxed page that asks for a window group of its own; its link gives it no opener anyway.
    "Cross-Origin-Opener-Policy": "unsafe-none",
}


@router.get("/table.{format}")
async def table(request: Request, session_id: str, format: str) -> Response:
    """Send the released table."""
    console: Console = request.scope[CONSOLE]
    if format not in _TABLES:
        return PlainTextResponse("There is no such file.\n", 404)

    def found(user: User) -> Path:
        return console.coordinator.table(user, session_id, format)

    name = f"release-{session_id[:8]}.{format}"
    return await _file(request, found, lambda path: FileResponse(path, media_type=_TABLES[format], filename=name))


@router.get("/report.html")
async def report(request: Request, session_id: str) -> Response:
    """Send the report, for display on a page of its own or as a download."""
    console: Console = request.scope[CONSOLE]
    request.scope[HEADERS] = _REPORT
    keep = f"report-{session_id[:8]}.html" if "keep" in request.query_params else None

    def found(user: User) -> Path:
        return console.coordinator.report(user, session_id)

    return await _file(
        request, found, lambda path: FileResponse(path, media_type="text/html; charset=utf-8", filename=keep)
    )


async def _file(request: Request, found: Callable[[User], Path], answer: Callable[[Path], Response]) -> Response:
    console: Console = request.scope[CONSOLE]

    def asked() -> Path:
        return found(console.browsers.user(request.cookies.get(COOKIE)))

    try:
        return answer(await asyncio.to_thread(asked))
    except SignedOut:
        return RedirectResponse(f"{PREFIX}/sign-in", 303)
    except MasqueradeError as error:
        told = "\n".join(error.lines) + "\n"
        return PlainTextResponse(told, 404 if isinstance(error, NotFound) else 409)
