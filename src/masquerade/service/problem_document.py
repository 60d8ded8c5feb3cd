"""Errors over HTTP: one problem document (RFC 9457), rendered and parsed only here.

`problems` has a line for each problem, for people. `errors` has the same problems as data, so that a client can
attribute them: to a place in the file that it sent, or to the party that answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError, WithJsonSchema

from masquerade.errors import (
    AnswerIsNo,
    BadInput,
    Conflict,
    MasqueradeError,
    NotAllowed,
    NotFound,
    ParameterError,
    PeerError,
    Problem,
    one_line,
)
from masquerade.service.problem_types import INVALID, ProblemType

MEDIA_TYPE = "application/problem+json"

_NO_TYPE = "about:blank"
_LONGEST = 1_000  # characters of one text
_MOST = 100  # problems of one document
_STATUS: tuple[tuple[type[MasqueradeError], int], ...] = (
    (NotAllowed, 403),
    (NotFound, 404),
    (Conflict, 409),
    (AnswerIsNo, 409),
    (BadInput, 422),
    (PeerError, 503),
)
# What a status means to the client; the others are not its fault.
_MEANING: Mapping[int, type[MasqueradeError]] = {
    400: ParameterError,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    413: ParameterError,
    415: ParameterError,
    422: ParameterError,
}
_AS_DATA = {
    "type": "object",
    "description": f"a problem: {', '.join(each.name for each in fields(Problem))}; what says nothing is left out",
}


def _plain(problem: Problem) -> dict[str, Any]:
    values = ((each, getattr(problem, each.name)) for each in fields(problem))
    return {each.name: _sendable(value) for each, value in values if value != each.default}


def _sendable(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_sendable(each) for each in value]
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


ProblemData = Annotated[Problem, WithJsonSchema(_AS_DATA), PlainSerializer(_plain)]
_EXAMPLE = Problem("missing; say what the table is for", source="request", key=("purpose",))


class ProblemDocument(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(
        title="Problem",
        frozen=True,
        json_schema_extra=lambda schema: schema.update(
            additionalProperties=False, examples=[content(422, [_EXAMPLE], INVALID)]
        ),
        json_schema_serialization_defaults_required=True,
    )

    type: str = Field(
        default=_NO_TYPE,
        description=f"the kind of problem: where it is explained, or {_NO_TYPE} where the status says it all",
    )
    title: str = Field(default="", description="the kind in words")
    status: int = Field(default=0, description="the HTTP status", json_schema_extra={"minimum": 400})
    detail: str = Field(default="", description="the first problem")
    problems: tuple[str, ...] = Field(
        default=(), description="every problem, one line each: what is wrong and what is allowed"
    )
    errors: tuple[ProblemData, ...] = Field(
        default=(),
        description="the same problems as data: where, what is allowed, what was found, whose it is",
    )


def status_of(error: MasqueradeError) -> int:
    """Return the HTTP status for an error; 500 when it is a bug."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def error_of(status: int, problems: Iterable[Problem]) -> MasqueradeError | None:
    """Return the error that a status means to the client; None when it is not the client's fault."""
    return _MEANING[status](*problems) if status in _MEANING else None


def content(
    status: int, problems: Iterable[Problem | str] = (), kind: ProblemType | None = None
) -> dict[str, Any]:
    """Return a problem document as a JSON object."""
    title = kind.title if kind is not None else HTTPStatus(status).phrase
    found = [each if isinstance(each, Problem) else Problem(each) for each in problems][:_MOST]
    lines = [_cut(str(each)) for each in found] or [title]
    return {
        "type": kind.address if kind is not None else _NO_TYPE,
        "title": title,
        "status": status,
        "detail": lines[0],
        "problems": lines,
        "errors": [_plain(each) for each in found],
    }


def rendered(status: int, problems: Iterable[Problem | str] = (), kind: ProblemType | None = None) -> bytes:
    """Encode a problem document in ASCII: echoed input may hold lone surrogates, which UTF-8 cannot encode."""
    return json.dumps(content(status, problems, kind)).encode("ascii")


def read_problems(body: bytes) -> tuple[Problem, ...]:
    """Parse the problems in a document; empty when the body is something else."""
    try:
        document = ProblemDocument.model_validate_json(body, strict=True)
    except ValidationError:
        return ()
    lines = document.problems or (document.detail or document.title,)
    return document.errors or tuple(Problem(line) for line in lines if line)
