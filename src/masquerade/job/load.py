"""From a TOML file to a `Job`; every problem of the file's shape is told at once, each in one line.

A key that cannot be read is taken out and the rest is read without it, so that one slip does not hide what
else is wrong.
"""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from masquerade.errors import Bug, JobError, hint, nearest
from masquerade.job.model import Job
from masquerade.job.problems import Key, Problems, shown, written

_MOST_BYTES = 16 << 20  # a file beyond it is the table, named by mistake


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise JobError(f"{path}: {path.stat().st_size} bytes; a job file has at most {_MOST_BYTES}")
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise JobError(f"{path}: no such job file{_neighbour(path)}") from None
    except IsADirectoryError:
        raise JobError(f"{path}: a folder, where a job file is expected") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise JobError(f"{path}: line {line}: the text is not UTF-8; save the file as UTF-8") from None
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise JobError(f"{path}: cannot be read: {reason}") from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise JobError(f"{path}: not valid TOML: nested too deeply") from None
    except ValueError as error:  # tomllib's own, and numbers with more digits than Python reads
        raise JobError(f"{path}: not valid TOML: {error}") from None


def _neighbour(path: Path) -> str:
    try:
        return hint(path.name, [each.name for each in path.parent.glob("*.toml")])
    except (OSError, ValueError):
        return ""


def understand(content: dict[str, Any], problems: Problems) -> Job:
    """The job that is left when everything unreadable is taken out of the content."""
    try:
        rest = copy.deepcopy(content)
    except RecursionError:
        raise JobError(f"{problems.source}: nested too deeply") from None
    for attempt in range(8):
        try:
            return Job.model_validate(rest)
        except ValidationError as error:
            faults = {_key_of(each): each for each in error.errors(include_url=False, include_context=False)}
        if attempt == 0:  # what is wrong later is a list that has lost its items
            for key, fault in faults.items():
                _tell(problems, key, fault["type"], fault["input"])
        # Later places of a list first: the earlier ones keep their numbers.
        for key in sorted(faults, key=lambda key: [str(part).zfill(9) for part in key], reverse=True):
            _take_out(rest, key)
    raise Bug("a job file cannot be read even without its unreadable keys")


def _key_of(fault: ErrorDetails) -> Key:
    location = fault["loc"]
    # Of a table without a name pydantic says attributes → "" → [key].
    nameless = len(location) == 3 and location[2] == "[key]" and fault["type"] != "extra_forbidden"
    return location[:2] if nameless else location


def _tell(problems: Problems, key: Key, kind: str, value: Any) -> None:
    """One line for one of pydantic's errors: the key as it is written, what it must be, what it is."""
    model, field, rest = _field(key)
    if kind == "extra_forbidden":
        known = known_keys(model)
        word = str(key[-1])
        meant = nearest(word, known)
        line = f"unknown key{hint(word, known)}; known here: {', '.join(known)}"
        problems.broken(key, line, meant=(*key[:-1], meant) if meant else None)
    elif rest and field in ("attributes", "parties", "privacy"):  # one of several tables
        brackets = "[[privacy]]" if field == "privacy" else f"[{written(key)}]"
        line = (
            f"must be a table, written {brackets}; got {shown(value)}"
            if key[-1] != ""
            else "a name must not be empty"
        )
        problems.broken(key, line)
    else:
        assert field is not None  # only keys can be unknown
        place = f" at place {rest[0] + 1}" if rest and isinstance(rest[0], int) else ""
        words = _words(model, field)
        advice = hint(value, words) if isinstance(value, str) and words else ""
        line = f"must be {model.model_fields[field].description}; got {shown(value)}{place}{advice}"
        problems.broken(key[: len(key) - len(rest)], line)


def _field(key: Key) -> tuple[type[BaseModel], str | None, Key]:
    """The section and its field that a key leads to, and what is left of the key below that field."""
    model: type[BaseModel] = Job
    position = 0
    while True:
        alias = key[position]
        field = next(
            (name for name, each in model.model_fields.items() if (each.alias or name) == alias), None
        )
        rest = key[position + 1 :]
        inner = _section(model.model_fields[field].annotation) if field is not None else None
        if field is None or inner is None:
            return model, field, rest
        section, is_many = inner
        below = rest[1:] if is_many else rest
        if not below:
            return model, field, rest
        model, position = section, len(key) - len(below)


def _section(annotation: Any) -> tuple[type[BaseModel], bool] | None:
    """The section inside an annotation, and whether there may be many of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for argument in get_args(annotation):
        if (found := _section(argument)) is not None:
            return found[0], getattr(annotation, "__origin__", None) in (list, dict) or found[1]
    return None


def known_keys(model: type[BaseModel]) -> list[str]:
    """The keys of a section, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _words(model: type[BaseModel], field: str) -> list[str]:
    """The words that a key may have, if it is one of a few."""
    annotation = model.model_fields[field].annotation
    words = [*get_args(annotation), *(word for each in get_args(annotation) for word in get_args(each))]
    return [word for word in words if isinstance(word, str)]


def _take_out(content: Any, key: Key) -> None:
    *path, last = key
    for part in path:
        content = content[part]
    if len(key) == 2 and key[0] == "privacy":
        content[last] = {}  # its place is kept: entries are known by their number
    else:
        del content[last]
