"""Every error of the API in one form: `application/problem+json` (RFC 9457), one line a problem.

An error that nobody foresaw is told as status 500 without a word of its text: that may hold a value of a table, a name
or a part of a statement. The log has its class and where it happened, which is what is needed to find it.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from masquerade.errors import (
    AnswerIsNo,
    BadInput,
    Conflict,
    MasqueradeError,
    NotAllowed,
    NotFound,
    PeerError,
    hint,
    one_line,
)
from masquerade.forms.faults import must_be
from masquerade.service.api.surface import allowed_methods
from masquerade.service.store import is_outage

MEDIA_TYPE = "application/problem+json"
_LONGEST = 1_000  # signs of one problem
_MOST = 100  # problems of one answer
_STATUS: tuple[tuple[type[MasqueradeError], int], ...] = (
    (NotAllowed, 403),
    (NotFound, 404),
    (Conflict, 409),
    (AnswerIsNo, 409),
    (BadInput, 422),
    (PeerError, 503),
)
_log = structlog.get_logger("masquerade.api")


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Unprocessable Content",
                    "status": 422,
                    "detail": "request: purpose: missing; say what the table is for",
                    "problems": ["request: purpose: missing; say what the table is for"],
                }
            ]
        },
    )

    type: str = Field("about:blank", description="always about:blank: the status says it all")
    title: str = Field(description="the status in words")
    status: int = Field(ge=400, le=599, description="the HTTP status")
    detail: str = Field(description="the first problem")
    problems: list[str] = Field(description="every problem, one line each: what is wrong and what is allowed")


NEEDED = {"WWW-Authenticate": 'Bearer realm="masquerade"'}


class Unauthenticated(HTTPException):
    """No token, or one that opens nothing."""

    def __init__(self, detail: str) -> None:
        super().__init__(401, detail, NEEDED)


class TooLarge(HTTPException):
    """More was sent than is read."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"the body may have at most {most} bytes", {"Connection": "close"})


def problem(status: int, problems: Sequence[str] = (), headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a request that failed."""
    title = HTTPStatus(status).phrase
    told = [_cut(one_line(each)) for each in problems[:_MOST]] or [title]
    content = {"type": "about:blank", "title": title, "status": status, "detail": told[0], "problems": told}
    # Escaped to ASCII: what somebody sent may hold halves of signs that UTF-8 cannot write.
    return Response(json.dumps(content), status, dict(headers or {}), MEDIA_TYPE)


def told(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These statuses as the OpenAPI document describes them."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


def handle_errors(app: FastAPI) -> None:
    """Let an app tell every error that can be foreseen."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(MasqueradeError, _explained)
    app.add_exception_handler(DBAPIError, _no_database)
    app.add_exception_handler(NoConnection, _no_database)


class LastResort:
    """Tells the errors that nobody foresaw, without their text."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and answer when it fails."""
        started = False

        async def sent(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except ClientDisconnect:
            return  # nobody is there to be told
        except Exception as error:
            if is_outage(error):
                answer = _away(error)
            else:
                _note(error)
                answer = problem(500, [_BUG])
            if not started:  # otherwise the connection is cut, and whoever reads knows that it is not whole
                await answer(scope, receive, send)


_BUG = "this is a mistake of ours; the log of the coordinator says where"


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    status = error.status_code
    if status == 400:  # the body could not be read as JSON
        return problem(422, ["body: cannot be read as JSON"])
    if status == 404:
        return problem(
            404, ["there is nothing at this address" if error.detail == "Not Found" else error.detail]
        )
    if status == 405:
        allowed = allowed_methods(request) or headers.get("Allow", "GET")
        return problem(405, [f"{request.method} is not allowed here; allowed: {allowed}"], {"Allow": allowed})
    return problem(status, [str(error.detail)], headers)


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem(422, list(dict.fromkeys(_line(fault) for fault in error.errors())))


async def _explained(_request: Request, error: Exception) -> Response:
    assert isinstance(error, MasqueradeError)
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    if status == 500:
        _note(error)
        return problem(500, [_BUG])
    return problem(status, error.lines)


async def _no_database(_request: Request, error: Exception) -> Response:
    if is_outage(error):
        return _away(error)
    _note(error)  # a statement that is wrong
    return problem(500, [_BUG])


def _away(error: Exception) -> Response:
    _log.error("no database", error=type(error).__name__)  # what it says, the background work tells once
    return problem(503, ["the database does not answer; try again"], {"Retry-After": "5"})


def _line(fault: Mapping[str, Any]) -> str:
    """One of pydantic's errors in a line. Never the value: it may be a password."""
    place, *rest = map(str, fault["loc"])
    if fault["type"] == "json_invalid":
        return "body: cannot be read as JSON"
    key = ".".join(rest)
    where = f"{place} {key}" if place != "body" else key or "body"
    if fault["type"] == "extra_forbidden":
        return f"{where}: unknown key"
    if place == "body" and not key and fault["type"] != "value_error":
        return "body: must be a JSON object, sent with Content-Type: application/json"
    if fault["type"] == "missing":
        return f"{where}: missing"
    return f"{where}: {must_be(fault)}"


def unknown_parameter(name: str, known: Sequence[str]) -> str:
    """One line for a query parameter that there is not."""
    if not known:
        return f"query {name}: unknown; nothing can be asked here"
    return f"query {name}: unknown{hint(name, known)}; known here: {', '.join(known)}"


def _note(error: Exception) -> None:
    """To the log: what kind of error, and where; not what it says."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "masquerade" in frame.filename] or list(frames)
    where = f"{own[-1].filename.rpartition('/')[2]}:{own[-1].lineno}" if own else "?"
    _log.error("unforeseen", error=type(error).__name__, where=where)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
