"""The parameters that requirements have in common: quasi-identifier, sensitive attribute, listed values, and limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, dataclass_transform

import pyarrow as pa

from masquerade.data.encode import texts
from masquerade.data.product import Product
from masquerade.forms.declared import parameter
from masquerade.forms.rules import Rule, optional

Model = TypeVar("Model")

_LIMIT = "limit"
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}


@dataclass(frozen=True)
class Limit:
    """A number that a requirement is stricter with when it is larger, or smaller."""

    stricter: Literal["larger", "smaller"]
    symbol: str  # as papers write it
    example: int | float  # a value to begin with

    def implies(self, one: float, other: float) -> bool:
        """Whether a requirement with the one number is at least as strict as with the other."""
        return one >= other if self.stricter == "larger" else one <= other


def limit(
    rule: Rule,
    *,
    stricter: Literal["larger", "smaller"],
    example: int | float,
    help: str,
    symbol: str,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare a number of a requirement, of which it is known which way is stricter."""
    made = parameter(rule, help=help, aliases=aliases)
    return dataclasses.field(metadata={**made.metadata, _LIMIT: Limit(stricter, symbol, example)})


def limits_of(model: type) -> dict[str, Limit]:
    """The limits that a requirement declares, by name."""
    return {each.name: each.metadata[_LIMIT] for each in dataclasses.fields(model) if _LIMIT in each.metadata}


def qid() -> Any:
    """Declare the quasi-identifier: one name, or several."""
    rule = Rule("a list of one or more attribute names", _checked_names, _NAMES)
    return parameter(rule, help="the attributes by which somebody may be recognised")


class GivenOnce(str):
    """The sensitive attribute of a requirement that leaves it to the call that it is given to."""

    __slots__ = ()


GIVEN_ONCE = GivenOnce()


def sensitive(*, default: Any = dataclasses.MISSING) -> Any:
    """Declare the sensitive attribute; several names stand for one attribute, their Cartesian product.

    With `GIVEN_ONCE` as its default it may be left out in Python; files and requests always have it.
    """
    rule = Rule("the name of an attribute", _checked_sensitive, {"type": "string", "minLength": 1})
    made = parameter(rule, help="the attribute whose values are protected")
    return dataclasses.field(default=default, metadata=made.metadata)


def values(*, default: None) -> Any:
    """Declare the listed sensitive values, as cells are read: text without surrounding space; None: all values."""
    schema = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    rule = optional(Rule("a list of one or more different values", _checked_values, schema))
    return parameter(rule, default, help="the sensitive values that are protected, where not all are")


@dataclass_transform(
    frozen_default=True, field_specifiers=(dataclasses.field, parameter, limit, qid, sensitive, values)
)
def requirement(declared: type[Model]) -> type[Model]:
    """Make a class that declares parameters a frozen dataclass; type checkers see which of them are required."""
    return dataclass(frozen=True)(declared)


def _checked_names(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError
    if len(set(names)) < len(names):
        raise ValueError("a list of different attribute names")
    return tuple(map(str, names))


def _checked_sensitive(value: Any) -> str:
    if isinstance(value, GivenOnce):
        return value
    if isinstance(value, Product | list | tuple):
        names = _checked_names(value.names if isinstance(value, Product) else value)
        return names[0] if len(names) == 1 else Product(names)
    if not isinstance(value, str) or not value:
        raise ValueError
    return str(value)


def _checked_values(value: Any) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    try:
        names = [texts(pa.array([each]))[0].as_py() for each in given]
    except (pa.ArrowException, TypeError):
        raise ValueError from None
    if not given or None in given or len(set(names)) < len(names):
        raise ValueError
    return tuple(names)
