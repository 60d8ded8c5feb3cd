"""What people and other programs write for the service, read with every problem told at once.

A `Form` is a table of a TOML file, or a JSON object, whose keys all have a `description` that completes the sentence
"… must be …". As with job files, a key that cannot be read is taken out and the rest is read without it, so that one
slip does not hide what else is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from typing import Annotated, Any, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from masquerade.errors import Bug, ParameterError, hint, nearest, one_line
from masquerade.job.load import known_keys, understand
from masquerade.job.problems import Key, Problems, shown, written
from masquerade.job.requirements import requirement_of
from masquerade.net.channel import is_host
from masquerade.privacy.models import MODELS
from masquerade.privacy.requirement import GroupRequirement
from masquerade.service.canonical import MOST_WHOLE

Read = TypeVar("Read", bound="Form")

_ABOUT_SENSITIVE = {name for name, model in MODELS.items() if "sensitive" in signature(model).parameters}
_DECIMALS = ("l", "c", "h", "t", "alpha", "confidence")  # parameters that may be decimals


def _real_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):  # neither true nor "5" is a number
        raise ValueError
    return value


def _host(value: str) -> str:
    if not is_host(value):
        raise ValueError
    return value


Duration = Annotated[float, BeforeValidator(_real_number), Field(gt=0, le=86_400, strict=False)]  # in seconds
Host = Annotated[str, AfterValidator(_host)]


def key(default: Any, *, description: str, alias: str | None = None) -> Any:
    """A key of a form with its default; the description completes "… must be …"."""
    return Field(default, alias=alias, description=description)


class Form(BaseModel):
    """A table that is checked as a whole once it is read. Unknown keys are errors; nothing is converted in silence."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)

    def contradictions(self) -> Iterator[tuple[Key, str]]:
        """What is missing, and what does not go together."""
        yield from ()

    @model_validator(mode="after")
    def _as_a_whole(self, info: ValidationInfo) -> Form:
        found = list(self.contradictions())
        if isinstance(info.context, list):
            info.context.extend(found)  # the reader tells them together with the others
        elif found:
            raise ParameterError(*(f"{written(key)}: {problem}" for key, problem in found))
        return self


def read_form(form: type[Read], content: Mapping[str, Any], source: str) -> Read:
    """A form from its content; ParameterError with one line a problem, each naming the source and the key."""
    problems = Problems(source)
    rest = dict(content)
    if "privacy" in rest and "privacy" in form.model_fields:
        rest["privacy"] = read_privacy(rest["privacy"], problems)
    read = _read(form, rest, problems)
    if problems.lines:
        raise ParameterError(*dict.fromkeys(map(one_line, problems.lines)))
    return read


def read_privacy(entries: Any, problems: Problems) -> tuple[GroupRequirement, ...]:
    """`[[privacy]]` entries as a job file has them; decimals may be texts, as in canonical JSON."""
    if isinstance(entries, list | tuple):
        if all(isinstance(each, GroupRequirement) for each in entries):
            return tuple(entries)
        entries = [_with_numbers(each) for at, each in enumerate(entries) if not _tell_m(each, at, problems)]
        _tell_immense(entries, problems)
    job = understand({"privacy": entries}, problems)
    for position, entry in enumerate(job.privacy):
        if (
            entry.model in _ABOUT_SENSITIVE and "sensitive" not in entry.given()
        ):  # a job file may say it elsewhere
            needed = f"missing; {entry.model} needs a sensitive attribute"
            problems.broken(("privacy", position, "sensitive"), needed)
    return requirement_of(job, problems).parts if job.privacy else ()


def _tell_m(entry: Any, position: int, problems: Problems) -> bool:
    """m-privacy wraps all entries of a job; here it is a key of its own."""
    if not isinstance(entry, Mapping) or entry.get("model") != "m-privacy":
        return False
    problems.add(
        ("privacy", position), "m-privacy is no entry here; a horizontal request has m, and a policy least_m"
    )
    return True


def _tell_immense(entries: Sequence[Any], problems: Problems) -> None:
    """Numbers that no contract can hold."""
    for position, entry in enumerate(entries):
        for name, value in entry.items() if isinstance(entry, Mapping) else ():
            if isinstance(value, int) and abs(value) > MOST_WHOLE:
                problems.broken(("privacy", position, name), "must be at most 2^53 − 1")


def _with_numbers(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    return {key: _number(value) if key in _DECIMALS else value for key, value in entry.items()}


def _number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def _read(form: type[Read], rest: dict[str, Any], problems: Problems) -> Read:
    for attempt in range(2):
        found: list[tuple[Key, str]] = []
        try:
            read = form.model_validate(rest, context=found)
        except ValidationError as error:
            if attempt:
                break
            for fault in error.errors(include_url=False, include_context=False):
                if not fault["loc"]:  # pydantic names no key that is no text
                    raise ParameterError(f"{problems.source}: a key holds half a character") from None
                _tell(form, fault["loc"], fault["input"], problems)
                rest = {key: value for key, value in rest.items() if key != fault["loc"][0]}
        else:
            for key, problem in found:
                problems.add(key, problem)
            return read
    raise Bug(f"{problems.source}: cannot be read even without its unreadable keys")


def _tell(form: type[BaseModel], key: Key, value: Any, problems: Problems) -> None:
    """One line for one of pydantic's errors."""
    model = form
    for depth, part in enumerate(key):
        field = next(
            (name for name, each in model.model_fields.items() if (each.alias or name) == part), None
        )
        if field is None:
            known = known_keys(model)
            meant = nearest(str(part), known)
            line = f"unknown key{hint(str(part), known)}; known here: {', '.join(known)}"
            problems.broken(key, line, meant=(*key[:-1], meant) if meant else None)
            return
        annotation = model.model_fields[field].annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and depth + 1 < len(key):
            model = annotation
            continue
        words = _words(annotation)
        advice = hint(value, words) if isinstance(value, str) and words else ""
        must_be = model.model_fields[field].description
        problems.broken(key[: depth + 1], f"must be {must_be}; got {shown(value)}{advice}")
        return


def _words(annotation: Any) -> Sequence[str]:
    """The words that a key may have, if it is one of a few."""
    found: list[str] = []
    for argument in get_args(annotation):
        found += [argument] if isinstance(argument, str) else _words(argument)
    return found
