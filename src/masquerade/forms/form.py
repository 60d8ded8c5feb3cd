"""Forms: tables of keys (of a TOML file, or JSON objects), each key with what it must be.

The `description` of a key completes the sentence "… must be …". A key that cannot be read is taken out and the rest is
read without it, so that one slip does not hide what else is wrong.
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

_ATTEMPTS = 8  # a list that has lost all its items is wrong in a new way


def key(default: Any, *, description: str, alias: str | None = None, only: str | None = None) -> Any:
    """A key with its default; the description completes "… must be …". `only` names the kind of form that has it."""
    return Field(
        default, alias=alias, description=description, json_schema_extra={"only": only} if only else None
    )


def kinds_of_keys(form: type[BaseModel]) -> dict[str, str]:
    """The fields that only forms of one kind have, each with that kind."""
    return {
        name: str(field.json_schema_extra["only"])
        for name, field in form.model_fields.items()
        if isinstance(field.json_schema_extra, dict)
    }


class Form(BaseModel):
    """A table that is checked as a whole once it is read. Unknown keys are errors; nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)

    @classmethod
    def convert(cls, content: dict[str, Any], problems: Problems) -> dict[str, Any]:
        """The content with what the form cannot read by itself turned into objects."""
        return content

    def contradictions(self) -> Iterator[tuple[Key, Problem | str]]:
        """What is missing, and what does not go together."""
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
    """A form from its content; ParameterError with every problem, each naming the source and the key."""
    problems = Problems(source)
    read = fill(form, content, problems)
    problems.settle(ParameterError)
    return read


def fill(form: type[Read], content: Mapping[str, Any], problems: Problems) -> Read:
    """The form that is left when everything unreadable is taken out of the content; what was wrong is in `problems`."""
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
        if () in faults:  # pydantic names no key that is no text
            problems.broken((), "a key holds half a character")
            rest = {}
            continue
        if attempt == 0:  # what is wrong later is a list that has lost its items
            for where, fault in faults.items():
                _explain(form, where, fault["type"], fault["input"], problems)
        # Later places of a list first: the earlier ones keep their numbers.
        for where in sorted(faults, key=lambda key: [str(part).zfill(9) for part in key], reverse=True):
            _take_out(form, rest, where)
    raise Bug(f"{problems.source}: cannot be read even without its unreadable keys")


def known_keys(model: type[BaseModel]) -> list[str]:
    """The keys of a form, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _key_of(fault: ErrorDetails) -> Key:
    location = fault["loc"]
    # Of a table without a name pydantic says attributes → "" → [key].
    nameless = len(location) == 3 and location[2] == "[key]" and fault["type"] != "extra_forbidden"
    return location[:2] if nameless else location


def _explain(form: type[BaseModel], where: Key, kind: str, value: Any, problems: Problems) -> None:
    """Turn one of pydantic's errors into a problem: the key as it is written, what it must be, what it is."""
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
    """The table and its field that a key leads to, and what is left of the key below that field."""
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
    """The table inside an annotation, and whether there may be many of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    for argument in get_args(annotation):
        if (found := _section(argument)) is not None:
            return found[0], get_origin(annotation) in (list, dict) or found[1]
    return None


def _words(annotation: Any) -> list[str]:
    """The words that a key may have, if it is one of a few."""
    found: list[str] = []
    for argument in get_args(annotation):
        found += [argument] if isinstance(argument, str) else _words(argument)
    return found


def _take_out(form: type[BaseModel], content: Any, where: Key) -> None:
    """Remove what cannot be read: a key with its whole value, or one of several tables, whose place is kept."""
    model, field, rest = _field(form, where)
    is_table = field is not None and _section(model.model_fields[field].annotation) is not None
    *path, last = where if field is None or is_table else where[: len(where) - len(rest)]
    for part in path:
        content = content[part]
    if isinstance(last, int):
        content[last] = {}  # entries are known by their number
    else:
        content.pop(last, None)  # several of its parts may be wrong
