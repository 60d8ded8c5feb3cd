"""Forms: tables of keys (from TOML files or JSON objects), with the allowed values of each key.

The `description` of a key completes the sentence "… must be …". An invalid key is removed and the rest is
read without it, so that one mistake does not hide the others.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import ErrorDetails

from masquerade.errors import (
    BadInput,
    Bug,
    JobError,
    Key,
    MasqueradeError,
    ParameterError,
    Problem,
    hint,
    nearest,
    one_line,
    written,
)
from masquerade.forms.declared import shown_value
from masquerade.forms.decoders import json_decoder

# --- problems -----------------------------------------------------------------------------------------------
# The problems of one file or form, gathered while it is read and raised together.
#
# A key that cannot be read is **broken**; problems that only follow from it are left out.


class Problems:
    """The problems of one source; with a `prefix`, of a table inside it."""

    def __init__(self, source: str, prefix: Key = ()) -> None:
        self.source, self.prefix = source, prefix
        self.found: list[Problem] = []
        self._broken: set[Key] = set()

    def add(self, key: Key, problem: Problem | str) -> None:
        """Record a problem, unless it only follows from a broken key."""
        if not self.about(key):
            self._remember(key, problem)

    def broken(self, key: Key, problem: Problem | str, *, meant: Key | None = None) -> None:
        """Record a key that cannot be read; for an unknown key, `meant` is the key that was probably meant."""
        self._remember(key, problem)
        self._broken.add(meant or key)

    def about(self, key: Key) -> bool:
        """Return whether a key is broken, lies inside a broken one, or holds one."""
        return any(key[: len(other)] == other or other[: len(key)] == key for other in self._broken)

    @contextmanager
    def collecting(self, key: Key) -> Iterator[None]:
        """Turn the errors of the block into problems below a key."""
        try:
            yield
        except MasqueradeError as error:
            self.collect(error, key)

    def collect(self, error: MasqueradeError, key: Key = ()) -> None:
        """Record the problems of an error below a key."""
        for problem in error.problems:
            below = problem.within(self.source, key).key
            if not self.about(below):
                self.found.append(problem.within(self.source, (*self.prefix, *key)))

    def broken_by(self, part: Problems) -> None:
        """Take over the problems of a table inside; it counts as broken."""
        self.found += part.found
        self._broken.add(part.prefix)

    def settle(self, kind: type[BadInput] = JobError) -> None:
        """Raise one error with all problems, without duplicates, if there are any."""
        if self.found:
            once = {one_line(str(problem)): problem for problem in self.found}
            raise kind(*once.values())

    def _remember(self, key: Key, problem: Problem | str) -> None:
        given = problem if isinstance(problem, Problem) else Problem(problem)
        self.found.append(given.at(source=self.source, key=(*self.prefix, *key)))


# --- form ---------------------------------------------------------------------------------------------------

Read = TypeVar("Read", bound="Form")

_ATTEMPTS = 8  # a list that has lost all its items is invalid in a new way


def key(default: Any, *, description: str, alias: str | None = None, only: str | None = None) -> Any:
    """Declare a key with its default; the description completes "… must be …". `only`: the one kind of form with it."""
    return Field(default, alias=alias, description=description, json_schema_extra={"only": only} if only else None)


def kinds_of_keys(form: type[BaseModel]) -> dict[str, str]:
    """Return the fields that only one kind of form has, each with that kind."""
    return {
        name: str(field.json_schema_extra["only"])
        for name, field in form.model_fields.items()
        if isinstance(field.json_schema_extra, dict)
    }


class Form(BaseModel):
    """A table that is checked as a whole after reading. Unknown keys are errors; nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)

    @classmethod
    def convert(cls, content: dict[str, Any], problems: Problems) -> dict[str, Any]:
        """Convert the parts of the content that pydantic cannot read itself into objects."""
        return content

    def contradictions(self) -> Iterator[tuple[Key, Problem | str]]:
        """Yield missing keys and incompatible values."""
        yield from ()

    @model_validator(mode="after")
    def _as_a_whole(self, info: ValidationInfo) -> Form:
        found = list(self.contradictions())
        if isinstance(info.context, list):
            info.context.extend(found)  # the reader raises them together with the others
        else:
            problems = Problems("")
            for where, problem in found:
                problems.add(where, problem)
            problems.settle(ParameterError)
        return self


def read_form(form: type[Read], content: Mapping[str, Any], source: str) -> Read:
    """Read a form; raise ParameterError with every problem, each naming the source and the key."""
    problems = Problems(source)
    read = fill(form, content, problems)
    problems.settle(ParameterError)
    return read


def fill(form: type[Read], content: Mapping[str, Any], problems: Problems) -> Read:
    """Read a form from the valid part of the content; everything invalid is removed and added to `problems`."""
    try:
        rest = form.convert(copy.deepcopy(dict(content)), problems)
    except RecursionError:
        problems.broken((), "nested too deeply")
        rest = {}
    for attempt in range(_ATTEMPTS):
        found: list[tuple[Key, Problem | str]] = []
        try:
            read = form.model_validate(rest, context=found)
        except ValidationError as error:
            faults = {_key_of(each): each for each in error.errors(include_url=False, include_context=False)}
        else:
            for where, problem in found:
                problems.add(where, problem)
            return read
        if () in faults:  # pydantic does not name keys that are not strings
            problems.broken((), "a key holds half a character")
            rest = {}
            continue
        if attempt == 0:  # later errors are lists that have lost their items
            for where, fault in faults.items():
                _explain(form, where, fault["type"], fault["input"], problems)
        # Later list items first, so that earlier ones keep their indices.
        for where in sorted(faults, key=lambda key: [str(part).zfill(9) for part in key], reverse=True):
            _take_out(form, rest, where)
    raise Bug(f"{problems.source}: cannot be read even without its unreadable keys")


def known_keys(model: type[BaseModel]) -> list[str]:
    """Return the keys of a form, as written in a file."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _key_of(fault: ErrorDetails) -> Key:
    location = fault["loc"]
    # pydantic locates a table without a name as attributes → "" → [key].
    nameless = len(location) == 3 and location[2] == "[key]" and fault["type"] != "extra_forbidden"
    return location[:2] if nameless else location


def _explain(form: type[BaseModel], where: Key, kind: str, value: Any, problems: Problems) -> None:
    """Turn a pydantic error into a problem: the key as written, what it must be, and what it is."""
    model, field, rest = _field(form, where)
    if kind == "extra_forbidden" or field is None:
        known = known_keys(model)
        word = str(where[-1])
        meant = nearest(word, known)
        text = f"unknown key{hint(word, known)}; known here: {', '.join(known)}"
        problems.broken(where, text, meant=(*where[:-1], meant) if meant else None)
        return
    annotation = model.model_fields[field].annotation
    inner = _section(annotation)
    if rest and inner is not None:  # one of several tables
        if where[-1] == "":
            problems.broken(where, "a name must not be empty")
            return
        is_listed = get_origin(annotation) is list or isinstance(rest[0], int)
        brackets = f"[[{written(where[: len(where) - len(rest)])}]]" if is_listed else f"[{written(where)}]"
        problems.broken(where, Problem(allowed=f"a table, written {brackets}", found=shown_value(value)))
        return
    words = _words(annotation)
    advice = hint(value, words) if isinstance(value, str) and words else ""
    place = f" at place {rest[0] + 1}" if rest and isinstance(rest[0], int) else ""
    must_be = model.model_fields[field].description or "something else"
    problems.broken(
        where[: len(where) - len(rest)], Problem(advice, allowed=must_be, found=f"{shown_value(value)}{place}")
    )


def _field(form: type[BaseModel], where: Key) -> tuple[type[BaseModel], str | None, Key]:
    """Return the table and the field that a key leads to, and the rest of the key below that field."""
    model, position = form, 0
    while True:
        field = next(
            (name for name, each in model.model_fields.items() if (each.alias or name) == where[position]), None
        )
        rest = where[position + 1 :]
        inner = _section(model.model_fields[field].annotation) if field is not None else None
        if field is None or inner is None:
            return model, field, rest
        section, is_many = inner
        below = rest[1:] if is_many else rest
        if not below:
            return model, field, rest
        model, position = section, len(where) - len(below)


def _section(annotation: Any) -> tuple[type[BaseModel], bool] | None:
    """Return the table type inside an annotation, and whether it may occur many times."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for argument in get_args(annotation):
        if (found := _section(argument)) is not None:
            return found[0], get_origin(annotation) in (list, dict) or found[1]
    return None


def _words(annotation: Any) -> list[str]:
    """Return the allowed words of a key that is a choice."""
    found: list[str] = []
    for argument in get_args(annotation):
        found += [argument] if isinstance(argument, str) else _words(argument)
    return found


def _take_out(form: type[BaseModel], content: Any, where: Key) -> None:
    """Remove an invalid part: a key with its whole value, or one of several tables, whose place is kept."""
    model, field, rest = _field(form, where)
    is_table = field is not None and _section(model.model_fields[field].annotation) is not None
    *path, last = where if field is None or is_table else where[: len(where) - len(rest)]
    for part in path:
        content = content[part]
    if isinstance(last, int):
        content[last] = {}  # entries are identified by their index
    else:
        content.pop(last, None)  # may be removed already, for another part


# --- json ---------------------------------------------------------------------------------------------------
# Read JSON that others wrote into typed structures.


def read_json(data: bytes, kind: Any, source: str) -> Any:
    """Decode JSON as one of msgspec's types; ParameterError, which names the source, when it is no such thing."""
    try:
        return json_decoder(kind).decode(data)
    except (ValueError, RecursionError) as error:  # msgspec's errors, and text that is not UTF-8
        raise ParameterError(f"{source}: {one_line(str(error))}") from None


# --- pydantic words -----------------------------------------------------------------------------------------
# Translate pydantic's errors into this project's wording: "must be …".

_WHOLE, _NUMBER = "must be a whole number", "must be a number"
_MUST_BE: Mapping[str, str] = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "int_parsing": _WHOLE,
    "int_parsing_size": "must be a smaller number",
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "finite_number": "must be a finite number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "string_unicode": "must be a text; it holds characters that are none",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}


def must_be(fault: Mapping[str, Any]) -> str:
    """Describe what is allowed, for a pydantic error. Never include the value: it may be a password."""
    context = fault.get("ctx") or {}
    if fault["type"] == "value_error":  # the validator's own message
        return str(context.get("error", fault["msg"])).removesuffix(".")
    words = _MUST_BE.get(fault["type"])
    return words.format(**context) if words is not None else str(fault["msg"])


# --- toml ---------------------------------------------------------------------------------------------------
# Read TOML files, reporting the line of a syntax error.

_MOST_BYTES = 16 << 20  # a larger file is probably the table, named by mistake


def read_toml(path: Path, what: str = "job file", error: type[BadInput] = JobError) -> dict[str, Any]:
    """Read a TOML file; `what` names its kind in error messages."""

    def wrong(text: str, line: int | None = None) -> BadInput:
        return error(Problem(text, source=str(path), line=line))

    try:
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise wrong(f"{path.stat().st_size} bytes; a {what} has at most {_MOST_BYTES}")
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise wrong(f"no such {what}{_neighbour(path)}") from None
    except IsADirectoryError:
        raise wrong(f"a folder, where a {what} is expected") from None
    except UnicodeDecodeError as caught:
        line = caught.object.count(b"\n", 0, caught.start) + 1
        raise wrong("the text is not UTF-8; save the file as UTF-8", line) from None
    except (OSError, ValueError) as caught:  # ValueError: an impossible path
        reason = caught.strerror if isinstance(caught, OSError) and caught.strerror else caught
        raise wrong(f"cannot be read: {reason}") from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise wrong("not valid TOML: nested too deeply") from None
    except ValueError as caught:  # from tomllib, or a number with too many digits for Python
        raise wrong(f"not valid TOML: {caught}") from None


def _neighbour(path: Path) -> str:
    try:
        return hint(path.name, [each.name for each in path.parent.glob("*.toml")])
    except (OSError, ValueError):
        return ""
