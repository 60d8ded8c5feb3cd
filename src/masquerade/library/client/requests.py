"""A client's request in any of its forms, converted to what is sent to the coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from masquerade.errors import ParameterError, Problem

if TYPE_CHECKING:
    from masquerade.service.request import Request

Wish: TypeAlias = "Mapping[str, Any] | str | Path | Request"
"""A request: its keys and values, a TOML file that has them (in [request], or alone), or a Request."""


def whole_request(wish: Wish) -> dict[str, Any]:
    """Return a complete request as sent; raise ParameterError with every problem before anything is sent."""
    from masquerade.service.request import Request, read_request

    if isinstance(wish, Request):
        return wish.content()
    if not isinstance(wish, str | Path):
        return read_request(wish).content()
    content = read_configuration(Path(wish))
    if "request" not in content:
        return read_request(content, str(wish)).content()
    try:
        return read_request(content["request"], str(wish)).content()
    except ParameterError as error:
        raise ParameterError(*(each.at(key=("request", *each.key)) for each in error.problems)) from None


def keys_of(wish: Wish) -> dict[str, Any]:
    """Return some keys of a request as sent, unchecked."""
    from masquerade.service.request import Request

    if isinstance(wish, Request):
        return wish.content()
    if isinstance(wish, str | Path):
        content = read_configuration(Path(wish))
        wish = content.get("request", content)
    if not isinstance(wish, Mapping):
        raise ParameterError("request: must be a table of keys and values")
    try:
        sent: dict[str, Any] = msgspec.to_builtins({key: _sendable(value) for key, value in wish.items()})
    except (TypeError, RecursionError):
        raise ParameterError("request: holds a value that JSON cannot say") from None
    return sent


def placed(problems: Iterable[Problem], wish: Wish | None) -> tuple[Problem, ...]:
    """Locate the coordinator's objections to a request in its file: `client.toml: request.class: …`."""
    if not isinstance(wish, str | Path):
        return tuple(problems)
    section = ("request",) if "request" in read_configuration(Path(wish)) else ()
    return tuple(
        each.at(source=str(wish), key=(*section, *each.key))
        if is_of_request(each)
        else each.within(str(wish))
        for each in problems
    )


def is_of_request(problem: Problem) -> bool:
    """Return whether a problem concerns a key of the request."""
    return bool(problem.key) and problem.source in ("", "request")


def read_configuration(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    from masquerade.forms.toml import read_toml

    return read_toml(path, "file", ParameterError)


def _sendable(value: Any) -> Any:
    """Convert a time with a zone, which JSON cannot express, to seconds since 1970."""
    is_moment = isinstance(value, datetime) and value.tzinfo is not None
    return int(value.timestamp()) if is_moment else value
