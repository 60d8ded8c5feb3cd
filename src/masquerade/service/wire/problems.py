"""Errors over HTTP: one problem document (RFC 9457), rendered and parsed only here.

`problems` has a line for each problem, for people. `errors` has the same problems as data, so that a client can
attribute them: to a place in the file that it sent, or to the party that answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
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

# --- problem types ------------------------------------------------------------------------------------------
# The kinds of problems that the API answers with: what each means, and what a client can do about it.
#
# An answer names its kind in `type` (RFC 9457): the address of its section on a page that every coordinator
# serves. That page and docs/reference/problems.md are made from this list.

PAGE = "/api/v1/problems"  # on the coordinator itself: the explanation fits its version, and needs no network


@dataclass(frozen=True)
class ProblemType:
    """One kind of problem; `name` is its place on the page."""

    name: str
    status: int
    title: str
    meaning: str
    remedy: str

    @property
    def address(self) -> str:
        """What `type` says: where this kind is explained."""
        return f"{PAGE}#{self.name}"


INVALID = ProblemType(
    "invalid",
    422,
    "Something that was sent is wrong",
    "The body is not JSON, or a key, a value or a query parameter is wrong, or no party can meet the request.",
    "Correct what `problems` lists; it has every problem at once, and `errors` has the key of each.",
)
DATABASE_AWAY = ProblemType(
    "database-away",
    503,
    "The database does not answer",
    "The coordinator runs, but cannot reach its database. Sessions that were computing are tried again.",
    "Try again after as many seconds as `Retry-After` says.",
)
PROBLEM_TYPES = (
    INVALID,
    ProblemType(
        "unauthenticated",
        401,
        "No valid token",
        "The request has no token, or one that is unknown, expired or revoked; or name and password do not fit, or"
        " their address has to wait after wrong guesses: all of these look the same.",
        "Sign in, or send a valid token in the header `Authorization: Bearer TOKEN`.",
    ),
    ProblemType(
        "not-allowed",
        403,
        "Not allowed",
        "The user is known, but the role, the session or the token's scopes do not allow this.",
        "Use a token with the scope that `detail` names, or ask somebody who may.",
    ),
    ProblemType(
        "not-found",
        404,
        "Nothing there",
        "There is no such thing, or it is not yours: both look the same. A release that has expired is gone, too.",
        "Check the address and the identifier; list what you have with `GET /sessions`.",
    ),
    ProblemType(
        "no-such-method",
        405,
        "No such method",
        "The path does not have this method. There is no `HEAD` or `OPTIONS`.",
        "Use one of those in the header `Allow`.",
    ),
    ProblemType(
        "conflict",
        409,
        "Things have changed",
        "The request does not fit the state that things are in now: somebody was faster, or it is too late.",
        "Read the state again (`GET /sessions/{id}`), and decide anew.",
    ),
    ProblemType(
        "too-large",
        413,
        "Too large",
        "The body has more bytes than are read.",
        "Send a smaller one; `detail` has the limit.",
    ),
    ProblemType(
        "too-many-requests",
        429,
        "Too many requests",
        "The user, or an address without a valid token, has no request or stream left.",
        "Wait for as many seconds as `Retry-After` says.",
    ),
    ProblemType(
        "bug",
        500,
        "A mistake of ours",
        "The coordinator failed. The answer does not have the error's text, which may hold what is not yours to see.",
        "Tell the coordinator's operator: its log has the place.",
    ),
    ProblemType(
        "party-away",
        503,
        "A party does not answer",
        "What was asked for depends on a party that cannot be reached, or has not published anything yet.",
        "Try again later; `errors` names the party where you may know it.",
    ),
    DATABASE_AWAY,
)


def usual_type(status: int) -> ProblemType | None:
    """Return the type of a status that says nothing more; None where no status of ours is like it."""
    return next((each for each in PROBLEM_TYPES if each.status == status), None)


# --- problem document ---------------------------------------------------------------------------------------

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
    values = {each.name: getattr(problem, each.name) for each in fields(problem)}
    return {each.name: _sendable(values[each.name]) for each in fields(problem) if values[each.name] != each.default}


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
        default=(), description="the same problems as data: where, what is allowed, what was found, whose it is"
    )


def status_of(error: MasqueradeError) -> int:
    """Return the HTTP status for an error; 500 when it is a bug."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def error_of(status: int, problems: Iterable[Problem]) -> MasqueradeError | None:
    """Return the error that a status means to the client; None when it is not the client's fault."""
    return _MEANING[status](*problems) if status in _MEANING else None


def content(status: int, problems: Iterable[Problem | str] = (), kind: ProblemType | None = None) -> dict[str, Any]:
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
