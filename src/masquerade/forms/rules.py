"""Rules for single values: the allowed values, in words and as a JSON schema.

A rule's `words` complete the sentence "… must be …". The same rule checks an argument in Python, a key of a job file, a
field of a request and an input of the console, so all report the same. As an annotation (`Annotated[int, COUNT]`) it
is a pydantic validator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

# More than any table's records, values or providers; twice as many still fit a stored count and a JSON number.
MOST_WHOLE = 2**53 - 1


@dataclass(frozen=True, eq=False)
class Rule:
    """What a value must be; `check` returns it in canonical form, or raises ValueError.

    The error's message, if any, replaces `words`.
    """

    words: str
    check: Callable[[Any], Any]
    json_schema: Mapping[str, Any] = field(default_factory=dict)
    choices: tuple[str, ...] = ()  # the allowed words of a choice
    is_file: bool = False  # a path, in a job file relative to it; only its name is shown
    decimal: bool = False  # written as a string in contracts: canonical JSON has no floats

    @property
    def is_switch(self) -> bool:
        """Whether the value is true or false, where it is set."""
        kinds = self.json_schema.get("anyOf", [self.json_schema])
        return any(each.get("type") == "boolean" for each in kinds)

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, _schema: Any, _handler: Any) -> dict[str, Any]:
        return dict(self.json_schema)


def whole(least: int = 1, most: int = MOST_WHOLE) -> Rule:
    """Allow an integer from `least` to `most`."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
            is_immense = most == MOST_WHOLE and isinstance(value, int) and value > most
            raise ValueError(f"a whole number of at most {most}" if is_immense else "")
        return int(value)

    words = f"a whole number of at least {least}" if most == MOST_WHOLE else f"a whole number from {least} to {most}"
    return Rule(words, check, {"type": "integer", "minimum": least, "maximum": most})


def number(low: float, high: float | None = None, *, open_low: bool = False, open_high: bool = False) -> Rule:
    """Allow a finite number within bounds, kept as an integer or decimal as written."""

    def check(value: Any) -> int | float:
        if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
            raise ValueError
        plain: int | float = int(value) if isinstance(value, int | np.integer) else float(value)
        # An integer too large for a float would be infinite in every formula.
        if not low <= plain <= (sys.float_info.max if high is None else high):
            raise ValueError
        if (open_low and plain == low) or (open_high and plain == high):
            raise ValueError
        return plain

    bounds = [f"above {low}" if open_low else f"of at least {low}"]
    schema: dict[str, Any] = {"type": "number", ("exclusiveMinimum" if open_low else "minimum"): low}
    if high is not None:
        bounds.append(f"below {high}" if open_high else f"at most {high}")
        schema["exclusiveMaximum" if open_high else "maximum"] = high
    return Rule(f"a {'finite ' if high is None else ''}number {' and '.join(bounds)}", check, schema, decimal=True)


def choice(*words: str) -> Rule:
    """Allow one of these words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError
        return value

    return Rule(f"one of {quoted(words)}", check, {"enum": list(words)}, words)


def switch() -> Rule:
    """Allow true or false."""

    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return Rule("true or false", check, {"type": "boolean"})


def text(words: str = "a text") -> Rule:
    """Allow any non-empty string."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise ValueError
        return value

    return Rule(words, check, {"type": "string", "minLength": 1})


def file(words: str) -> Rule:
    """Allow the path of a file."""
    return replace(text(words), is_file=True)


def shares(*names: str) -> Rule:
    """Allow a table with a number of at least 0 for each of these names, not all 0; one left out is 0."""

    def check(value: Any) -> dict[str, int | float]:
        if not isinstance(value, Mapping):
            raise ValueError
        if unknown := [name for name in value if name not in names]:
            raise ValueError(f"{words}; there is no {quoted(map(str, unknown))}")
        told = {name: part.check(value.get(name, 0)) for name in names}
        if not any(told.values()):
            raise ValueError
        return {name: share for name, share in told.items() if share}

    part = number(0)
    words = f"a table of numbers of at least 0, not all 0, for any of {quoted(names)}"
    return Rule(
        words,
        check,
        {
            "type": "object",
            "properties": {name: dict(part.json_schema) for name in names},
            "additionalProperties": False,
            "minProperties": 1,
        },
        decimal=True,
    )


def optional(rule: Rule) -> Rule:
    """Allow None as well, for a value that is not set."""

    def check(value: Any) -> Any:
        return None if value is None else rule.check(value)

    schema = {"anyOf": [dict(rule.json_schema), {"type": "null"}]}
    return replace(rule, check=check, json_schema=schema)


def quoted(words: Iterable[str]) -> str:
    """List the words in quotes: `"a", "b"`."""
    return ", ".join(f'"{word}"' for word in words)
