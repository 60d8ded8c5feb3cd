"""The meaning of a table's columns: one `Attribute` per column, in the order of the joint schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Literal

from masquerade.data.boundary import (
    Boundary,
    boundary_by_width,
    boundary_problems,
    named_boundary,
    pruned,
    unknown_nodes,
)
from masquerade.data.continuum import ISO_DATE, Continuum, Number, NumberStyle
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import DataError, ParameterError, Problem, hint

AttributeKind = Literal["categorical", "continuous", "date"]


@dataclass(frozen=True)
class Attribute:
    """One attribute: categorical with a taxonomy, or continuous (numbers, dates) with or without one.

    `taxonomy` may be "flat": one root over the values that occur. `lower` and `upper` bound a continuous
    attribute as `[lower, upper)`; dates are days since 1970-01-01. `weight` is its priority for
    what the release is to serve; 0 is none. `max_generalization` names the nodes up to which values may be
    generalised, in place of those that the taxonomy's file marks; `max_width` bounds the intervals of numbers without a
    taxonomy, of dates in days.
    """

    name: str
    kind: AttributeKind = "categorical"
    taxonomy: Taxonomy | Literal["flat"] | None = None
    lower: Number | None = None
    upper: Number | None = None
    weight: float = 1.0
    format: str = ISO_DATE  # how its dates are written, for `strptime`
    decimal: Literal[".", ","] = "."  # how its numbers are written
    max_generalization: tuple[str, ...] = ()
    max_width: Number | None = None
    min_generalization: tuple[str, ...] = ()  # the finest values that a release shows
    min_width: Number | None = None
    thousands: str = ""  # the sign between the thousands of its numbers, such as "," in 1,234.50
    unit: str = ""  # before or after its numbers, such as "$"

    def __post_init__(self) -> None:
        if self.kind == "categorical" and (self.lower is not None or self.upper is not None):
            raise ParameterError(f"attribute {self.name}: bounds belong to continuous and date attributes")
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ParameterError(f"attribute {self.name}: min must be below max")
        if self.thousands == self.decimal:
            text = f"attribute {self.name}: thousands and decimal must be different signs; both are {self.decimal}"
            raise ParameterError(text)
        if not 0 <= self.weight < inf:
            raise ParameterError(f"attribute {self.name}: weight must be a finite number of at least 0")
        if problems := tuple(self._boundary_problems()):
            raise ParameterError(*problems)

    def _boundary_problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the boundaries, as far as no data are needed to see it."""
        names, widths = (("attributes", self.name, word) for word in ("max_generalization", "max_width"))
        if self.max_width is not None and (self.kind == "categorical" or self.taxonomy is not None):
            text = "belongs to numbers and dates without a taxonomy; with one, name nodes in max_generalization"
            yield Problem(text, key=widths)
        if self.max_generalization and self.taxonomy is None:
            instead = ", or max_width instead" if self.kind != "categorical" else ""
            yield Problem(f"names nodes of a taxonomy; give taxonomy{instead}", key=names)
        if self.max_generalization and isinstance(self.taxonomy, Taxonomy):
            for problem in boundary_problems(self.taxonomy, self.max_generalization):
                yield problem.at(key=names)
        names, widths = (("attributes", self.name, word) for word in ("min_generalization", "min_width"))
        if self.min_width is not None and (self.kind == "categorical" or self.taxonomy is not None):
            text = "belongs to numbers and dates without a taxonomy; with one, name nodes in min_generalization"
            yield Problem(text, key=widths)
        elif self.min_width is not None and self.min_width <= 0:
            yield Problem(f"must be a number above 0; got {self.min_width}", key=widths)
        elif self.min_width is not None and self.max_width is not None and self.min_width > self.max_width:
            yield Problem(f"must be at most max_width, {self.max_width}; got {self.min_width}", key=widths)
        if not self.min_generalization:
            return
        if not isinstance(self.taxonomy, Taxonomy):
            yield Problem("names nodes of a taxonomy; give a taxonomy file", key=names)
            return
        problems = [*unknown_nodes(self.taxonomy, self.min_generalization)]
        yield from (problem.at(key=names) for problem in problems)
        if problems:
            return
        coarse = pruned(self.taxonomy, self.min_generalization)[0]
        for name in self.max_generalization or self.taxonomy.allowed:
            node = self.taxonomy.called(name)
            if node is not None and coarse.called(node.name) is None:
                text = f"nothing finer than {', '.join(self.min_generalization)}, and nothing more general than {name}"
                yield Problem(f"{text}: nothing is left between", key=names)

    @cached_property
    def numbers(self) -> NumberStyle:
        """How its numbers are written."""
        return NumberStyle(self.decimal, self.thousands, self.unit)

    @property
    def is_coarsened(self) -> bool:
        """Whether there is a limit to how fine its released values may be."""
        return bool(self.min_generalization) or self.min_width is not None

    @property
    def is_bounded(self) -> bool:
        """Whether there is a limit to how far its values may be generalised."""
        marked = isinstance(self.taxonomy, Taxonomy) and bool(self.taxonomy.allowed)
        return bool(self.max_generalization) or self.max_width is not None or marked

    def boundary(self, domain: Taxonomy | Continuum) -> Boundary | None:
        """Return how far the values of its domain may be generalised; None where there is no limit."""
        if isinstance(domain, Continuum):
            if self.max_width is None:
                return None
            # A value of a coarsened column stands for a whole cell of the grid.
            return boundary_by_width(domain, self.max_width - (self.min_width or 0))
        names = self.max_generalization or domain.allowed
        if not names:
            return None
        if self.min_generalization and isinstance(self.taxonomy, Taxonomy):  # whose chains have lost their other names
            names = tuple(node.name for name in names if (node := self.taxonomy.called(name)) is not None)
        if problems := boundary_problems(domain, names):  # of a "flat" taxonomy: it is made of the data
            key = ("attributes", self.name, "max_generalization")
            raise DataError(*(problem.at(key=key) for problem in problems))
        return named_boundary(domain, names)


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
                raise ParameterError(f"attribute {name}: an identifier is never released; it cannot be an attribute")

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
