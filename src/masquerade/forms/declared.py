"""Objects that declare their parameters: each with its rule, default and help, in one place.

    @dataclass(frozen=True)
    class Sampling(Declared):
        share: float = parameter(number(0, 1, open_low=True), 0.1, help="the share of the records that is drawn")

A requirement or a method is such an object. It is checked when it is created in Python (`Sampling(share=2)` is
a ParameterError); the same declarations define its keys in a job file, in a contract and over HTTP, the console's
form and the reference pages.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from masquerade.errors import ParameterError, Problem, given, hint
from masquerade.forms.rules import Rule

_PARAMETER = "parameter"
Made = TypeVar("Made", bound="Declared")


@dataclass(frozen=True)
class Parameter:
    """One declared parameter."""

    name: str
    rule: Rule
    default: Any  # dataclasses.MISSING if required
    help: str
    aliases: tuple[str, ...] = ()  # other accepted names
    granted: tuple[str, ...] = ()  # values a party's policy allows by default; (): all

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING


def parameter(
    rule: Rule,
    default: Any = dataclasses.MISSING,
    *,
    help: str,
    aliases: tuple[str, ...] = (),
    granted: tuple[str, ...] = (),
) -> Any:
    """Declare a field of a `Declared` dataclass as a parameter; see `Parameter`."""
    made = Parameter("", rule, default, help, aliases, granted)
    return dataclasses.field(default=default, metadata={_PARAMETER: made})


class Declared:
    """Base of frozen dataclasses whose fields are parameters, checked on creation."""

    title: ClassVar[str] = ""  # a display name, if not the class's

    def __post_init__(self) -> None:
        for each in parameters_of(type(self)):
            value = checked(self, each.name, each.rule, getattr(self, each.name))
            object.__setattr__(self, each.name, value)

    def parameters(self) -> dict[str, object]:
        """Return the parameters' values under their names in a job file; those that are None are left out."""
        values = [(each, getattr(self, each.name)) for each in parameters_of(type(self))]
        return {  # where a file lies is nobody's business
            each.name: Path(value).name if each.rule.is_file else _listed(value)
            for each, value in values
            if value is not None
        }


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


def parameters_of(declared: type) -> tuple[Parameter, ...]:
    """Return the parameters that a class declares, in order."""
    return _parameters(declared)


def words_of(declared: type) -> dict[str, Parameter]:
    """Return the parameters of a class by each accepted name, aliases included."""
    return {word: each for each in parameters_of(declared) for word in (each.name, *each.aliases)}


@cache  # a class does not change, and is asked at every creation of its objects
def _parameters(declared: type) -> tuple[Parameter, ...]:
    return tuple(
        dataclasses.replace(each.metadata[_PARAMETER], name=each.name)
        for each in dataclasses.fields(declared)
        if _PARAMETER in each.metadata
    )


def read_declared(declared: type[Made], table: Mapping[str, Any], **given: Any) -> tuple[Made | None, list[Problem]]:
    """Create an object from a table of its parameters; return it, or None, and the problems of the table.

    `given` are arguments that the table cannot contain. Decimals may be strings, as in canonical JSON.
    """
    problems: list[Problem] = []
    known = words_of(declared)
    values: dict[str, Any] = {}
    for word, value in table.items():
        each = known.get(word)
        if each is None:
            takes = ", ".join(own.name for own in parameters_of(declared)) or "none"
            problems.append(Problem(f"unknown key{hint(word, known)}; known here: {takes}", key=(word,)))
        elif each.name in values:
            problems.append(Problem(f"the same as {each.name}; give one of them", key=(word,)))
        else:
            try:
                values[each.name] = each.rule.check(numbers_of(value) if each.rule.decimal else value)
            except ValueError as error:
                advice = hint(value, each.rule.choices) if isinstance(value, str) and each.rule.choices else ""
                problems.append(
                    Problem(advice, key=(word,), allowed=str(error) or each.rule.words, found=shown_value(value))
                )
    broken = {key for problem in problems for key in problem.key}
    for each in parameters_of(declared):
        if each.required and each.name not in {*values, *given} and broken.isdisjoint((each.name, *each.aliases)):
            whose = declared.title or declared.__name__
            problems.append(Problem(f"missing; {whose} needs it", key=(each.name,)))
    if problems:
        return None, problems
    try:
        return declared(**values, **given), []
    except ParameterError as error:  # incompatible parameters
        return None, [problem.within("") for problem in error.problems]


def without_floats(parameters: Mapping[str, object]) -> dict[str, Any]:
    """Return the parameters with decimals as texts, as canonical JSON requires."""
    return {
        key: repr(value)
        if isinstance(value, float)
        else list(value)
        if isinstance(value, tuple)
        else without_floats(value)
        if isinstance(value, Mapping)
        else value
        for key, value in parameters.items()
    }


def numbers_of(value: Any) -> Any:
    """Invert `without_floats` for what has decimals, alone or in a table: texts become numbers, where they can."""
    if isinstance(value, Mapping):
        return {name: numbers_of(each) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def checked(owner: object, name: str, rule: Rule, value: object) -> Any:
    """Return an object's or function's parameter in the rule's form; raise ParameterError if it breaks the rule."""
    try:
        return rule.check(value)
    except ValueError as error:
        raise parameter_error(owner, name, str(error) or rule.words, value) from None


def parameter_error(owner: object, name: str, allowed: str, found: object) -> ParameterError:
    """Return the error for a wrong parameter of an object or a function."""
    whose = getattr(owner, "__name__", type(owner).__name__)
    plain = found.item() if isinstance(found, np.generic) else found
    endless = isinstance(plain, int) and abs(plain) > 1 << 256  # Python does not write numbers of any length
    shown = "a number of very many digits" if endless else given(plain)
    return ParameterError(Problem(parameter=name, owner=whose, allowed=allowed, found=shown))


def shown_value(value: object) -> str:
    """Abbreviate a form's value for display. Hide the rest of a URL, which may hold a password."""
    if isinstance(value, str):
        scheme, separator, _ = value.partition("://")
        text = f'"{scheme}://…"' if separator else f'"{value}"'
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, Mapping):
        text = "a table"
    elif isinstance(value, list | tuple):
        plain = all(isinstance(each, str | int | float) for each in value)
        text = f"[{', '.join(map(shown_value, value))}]" if plain else "a list"
        text = (text if len(text) <= 60 else "a list") if value else "an empty list"
    elif isinstance(value, int) and abs(value) > 1 << 256:  # Python does not write numbers of any length
        text = "a number of very many digits"
    elif value is None or isinstance(value, int | float | np.number | datetime.date | datetime.time):
        text = str(value)
    else:  # a frame, perhaps: its text would show records
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "…"
