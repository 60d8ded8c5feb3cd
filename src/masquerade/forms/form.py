"""Forms: tables of keys (from TOML files or JSON objects), with the allowed values of each key.

The `description` of a key completes the sentence "… must be …". An invalid key is removed and the rest is
read without it, so that one mistake does not hide the others.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import ErrorDetails

from masquerade.errors import Bug, Key, ParameterError, Problem, hint, nearest, written
from masquerade.forms.declared import shown_value
from masquerade.forms.problems import Problems

Read = TypeVar("Read", bound="Form")

_ATTEMPTS = 8  # a list that has lost all its items is invalid in a new way


def key(default: Any, *, description: str, alias: str | None = None, only: str | None = None) -> Any:
    """Declare a key with its default; the description completes "… must be …". `only`: the one kind of form with it."""
    return Field(
        default, alias=alias, description=description, json_schema_extra={"only": only} if only else None
    )


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
        where[: len(where) - len(rest)],
        Problem(advice, allowed=must_be, found=f"{shown_value(value)}{place}"),
    )


def _field(form: type[BaseModel], where: Key) -> tuple[type[BaseModel], str | None, Key]:
    """Return the table and the field that a key leads to, and the rest of the key below that field."""
    model, position = form, 0
    while True:
        field = next(
            (name for name, each in model.model_fields.items() if (each.alias or name) == where[position]),
            None,
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
