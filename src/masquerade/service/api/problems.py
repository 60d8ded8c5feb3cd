"""Every error of the API as a problem document (RFC 9457).

An unexpected error is answered with status 500 and none of its text, which may hold a value of a table, a name or a
part of a statement. The log has its class and location, which suffice to find it.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError, TimeoutError as NoConnection
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from masquerade.errors import MasqueradeError, Problem
from masquerade.forms import must_be
from masquerade.service.store import is_outage
from masquerade.service.wire.problems import DATABASE_AWAY, MEDIA_TYPE, ProblemType, rendered, status_of, usual_type

# --- surface ------------------------------------------------------------------------------------------------
# The methods of each path and their query parameters, according to the OpenAPI document.

_METHODS = ("get", "put", "post", "delete", "patch")


def operations(request: Request) -> dict[str, list[str]]:
    """Return the methods of a request's path, and the query parameters of each; empty if no document has the path."""
    app: FastAPI = request.app
    if not hasattr(app.state, "surface"):
        app.state.surface = [
            (compile_path(path)[0], {each.upper(): _parameters(item[each]) for each in _METHODS if each in item})
            for path, item in app.openapi()["paths"].items()
        ]
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    found: dict[str, list[str]] = {}
    for pattern, of_path in app.state.surface:
        if pattern.match(path):
            found |= of_path
    return found


def _parameters(operation: dict[str, Any]) -> list[str]:
    return [each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"]


# --- problems -----------------------------------------------------------------------------------------------

_log = structlog.get_logger("masquerade.api")


NEEDED = {"WWW-Authenticate": 'Bearer realm="masquerade"'}


class Unauthenticated(HTTPException):
    """The request has no token, or an invalid one."""

    def __init__(self, detail: str) -> None:
        super().__init__(401, detail, NEEDED)


class TooLarge(HTTPException):
    """The body is larger than the limit."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"the body may have at most {most} bytes", {"Connection": "close"})


def problem(
    status: int,
    problems: Iterable[Problem | str] = (),
    headers: Mapping[str, str] | None = None,
    kind: ProblemType | None = None,
) -> Response:
    """Return the answer to a failed request; its kind is the usual one of its status unless it is given."""
    document = rendered(status, problems, kind or usual_type(status))
    return Response(document, status, dict(headers or {}), MEDIA_TYPE)


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of these statuses."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


class LastResort:
    """Answer unexpected errors with status 500, without their text."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; answer if it fails."""
        started = False

        async def sent(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except ClientDisconnect:
            return  # the client is gone
        except Exception as error:
            answer = _unforeseen(error)
            if not started:  # otherwise the connection is cut: the client sees an incomplete answer
                await answer(scope, receive, send)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    status = error.status_code
    if status == 400:  # the body could not be read as JSON
        return problem(422, ["body: cannot be read as JSON"])
    if status == 404:
        return problem(404, ["there is nothing at this address" if error.detail == "Not Found" else error.detail])
    if status == 405:
        allowed = ", ".join(sorted(operations(request))) or headers.get("Allow", "GET")
        return problem(405, [f"{request.method} is not allowed here; allowed: {allowed}"], {"Allow": allowed})
    return problem(status, [str(error.detail)], headers)


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem(422, dict.fromkeys(_problem(fault) for fault in error.errors()))


async def _explained(_request: Request, error: Exception) -> Response:
    assert isinstance(error, MasqueradeError)
    status = status_of(error)
    return _unforeseen(error) if status == 500 else problem(status, error.problems)


async def _no_database(_request: Request, error: Exception) -> Response:
    return _unforeseen(error)


# By which an app answers every expected error with a problem document
HANDLERS: dict[int | type[Exception], Any] = {
    HTTPException: _http_error,
    RequestValidationError: _invalid,
    MasqueradeError: _explained,
    **dict.fromkeys((DBAPIError, NoConnection), _no_database),
}


def _unforeseen(error: Exception) -> Response:
    """Answer an outage of the database, or a mistake of ours; log its class and location, but not its text."""
    if is_outage(error):
        _log.error("no database", error=type(error).__name__)  # the background work logs its text, once
        return problem(503, ["the database does not answer; try again"], {"Retry-After": "5"}, DATABASE_AWAY)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "masquerade" in frame.filename] or list(frames)
    where = f"{own[-1].filename.rpartition('/')[2]}:{own[-1].lineno}" if own else "?"
    _log.error("unforeseen", error=type(error).__name__, where=where)
    return problem(500, ["this is a mistake of ours; the log of the coordinator says where"])


def _problem(fault: Mapping[str, Any]) -> Problem:
    """Convert one of pydantic's errors, without the value: it may be a password."""
    place, *key = fault["loc"]
    if fault["type"] == "json_invalid":
        return Problem("cannot be read as JSON", source="body")
    if place != "body":
        where = Problem(source=f"{place} {'.'.join(map(str, key))}")
    elif key:
        where = Problem(key=tuple(key))
    elif fault["type"] == "value_error":
        where = Problem(source="body")
    else:
        return Problem("must be a JSON object, sent with Content-Type: application/json", source="body")
    known = {"extra_forbidden": "unknown key", "missing": "missing"}
    return where.at(text=known.get(fault["type"]) or must_be(fault))
