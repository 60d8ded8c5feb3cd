"""The meaning of a table's columns: one `Attribute` per column, in the order of the joint schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Literal

from masquerade.data.continuum import ISO_DATE, Number
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import ParameterError, hint

AttributeKind = Literal["categorical", "continuous", "date"]


@dataclass(frozen=True)
class Attribute:
    """One attribute: categorical with a taxonomy, or continuous (numbers, dates) with or without one.

    `taxonomy` may be "flat": one root over the values that occur. `lower` and `upper` bound a continuous
    attribute as `[lower, upper)`; dates are days since 1970-01-01. `weight` is its priority for
    what the release is to serve; 0 is none.
    """

    name: str
    kind: AttributeKind = "categorical"
    taxonomy: Taxonomy | Literal["flat"] | None = None
    lower: Number | None = None
    upper: Number | None = None
    weight: float = 1.0
    format: str = ISO_DATE  # how its dates are written, for `strptime`
    decimal: Literal[".", ","] = "."  # how its numbers are written

    def __post_init__(self) -> None:
        if self.kind == "categorical" and (self.lower is not None or self.upper is not None):
            raise ParameterError(f"attribute {self.name}: bounds belong to continuous and date attributes")
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ParameterError(f"attribute {self.name}: min must be below max")
        if not 0 <= self.weight < inf:
            raise ParameterError(f"attribute {self.name}: weight must be a finite number of at least 0")


@dataclass(frozen=True)
class Schema:
    """The attributes of a table, in order, and the columns that are never released."""

    attributes: tuple[Attribute, ...]
    identifiers: tuple[str, ...] = ()

    def __init__(self, attributes: Iterable[Attribute], identifiers: Iterable[str] = ()) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        object.__setattr__(self, "identifiers", tuple(identifiers))
        for name in repeated(self.names):
            raise ParameterError(f"attribute {name}: listed twice")
        for name in self.names:
            if name in self.identifiers:
                raise ParameterError(
                    f"attribute {name}: an identifier is never released; it cannot be an attribute"
                )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def _by_name(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self.attributes}

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Attribute:
        if name in self._by_name:
            return self._by_name[name]
        raise ParameterError(
            f'no attribute "{name}"{hint(name, self.names)}; the attributes are: {", ".join(self.names)}'
        )


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, each once, in order."""
    return [name for name, count in Counter(names).items() if count > 1]
