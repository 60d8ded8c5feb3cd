"""How far attributes are generalised, as a party's policy, its schema and the request have it together.

The coarsest that is allowed is the finest of all "never coarser than": nodes are put together, and of two on one path
the lower counts. The finest that is allowed is the coarsest of all "never finer than". The holder of an attribute, who
alone has its taxonomy, puts them together in its offer; what contradicts itself is a reason to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated

import msgspec
from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from masquerade.data import Attribute, Schema
from masquerade.errors import ParameterError, Problem
from masquerade.forms import key
from masquerade.protocol import AttributeTerms, Contribution
from masquerade.service.canonical import MOST_WHOLE, decimal_text

Text = Annotated[str, Field(min_length=1, max_length=200)]
Nodes = Annotated[tuple[Text, ...], Field(strict=False, min_length=1, max_length=1000)]


def decimal_between(value: object, *, high: float = MOST_WHOLE, positive: bool = False) -> str:
    """Check a number from 0 (or above it) to `high`; return it as text, because contracts have no fractions."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError
    if not isinstance(value, str) and abs(value) > MOST_WHOLE:  # some whole numbers are too large for a float
        raise ValueError
    if not 0 <= float(value) <= high or (positive and float(value) == 0):
        raise ValueError
    return decimal_text(value)


Width = Annotated[str, PlainValidator(partial(decimal_between, positive=True))]

_NODES = 'a list of values of its taxonomy, such as ["Europe", "Asia"]'
_LIMIT = f"{_NODES}, or for numbers and dates (in days) a width"


class PolicyBoundary(BaseModel):
    """`[boundaries.NAME]` of a policy: how fine and how coarse an attribute of this party may be released."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    never_finer_than: Nodes | Width | None = key(None, description=_LIMIT)
    never_coarser_than: Nodes | Width | None = key(None, description=_LIMIT)

    def terms(self, name: str) -> AttributeTerms:
        """Return the same as a contract has it."""
        finest, coarsest = self.never_finer_than, self.never_coarser_than
        return AttributeTerms(
            name,
            coarsest if isinstance(coarsest, tuple) else (),
            coarsest if isinstance(coarsest, str) else None,
            finest if isinstance(finest, tuple) else (),
            finest if isinstance(finest, str) else None,
        )

    def problems(self, attribute: Attribute) -> Iterator[tuple[str, str]]:
        """Yield what this attribute cannot keep to, each with the key that says it."""
        own = AttributeTerms.of(attribute)
        for problem in _contradictions(combined([own, self.terms(attribute.name).named_by(attribute)]), attribute):
            word = str(problem.key[-1])
            yield _POLICY_WORDS.get(word, word), problem.sentence


_POLICY_WORDS = {
    **dict.fromkeys(("max_generalization", "max_width"), "never_coarser_than"),
    **dict.fromkeys(("min_generalization", "min_width"), "never_finer_than"),
}


class RequestedTerms(BaseModel):
    """`[boundaries.NAME]` of a request, with the keys of a job's attribute."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    max_generalization: Nodes | None = key(None, description=_NODES)
    max_width: Width | None = key(None, description="a number above 0; for dates, days")
    min_generalization: Nodes | None = key(None, description=_NODES)
    min_width: Width | None = key(None, description="a number above 0; for dates, days")
    weight: Annotated[str, PlainValidator(decimal_between)] | None = key(None, description="a number of at least 0")

    def terms(self, name: str) -> AttributeTerms:
        """Return the same as a contract has it."""
        return AttributeTerms(
            name,
            self.max_generalization or (),
            self.max_width,
            self.min_generalization or (),
            self.min_width,
            self.weight,
        )


def written_terms(terms: AttributeTerms) -> dict[str, object]:
    """Return the terms of an attribute with the keys of a request."""
    told: dict[str, object] = msgspec.to_builtins(terms)
    return {word: value for word, value in told.items() if word != "name"}


def combined(terms: Sequence[AttributeTerms]) -> AttributeTerms:
    """Return what holds where all of these terms of one attribute do; the last weight counts."""
    wide = [each.max_width for each in terms if each.max_width is not None]
    narrow = [each.min_width for each in terms if each.min_width is not None]
    weights = [each.weight for each in terms if each.weight is not None]
    return AttributeTerms(
        terms[0].name,
        tuple(sorted({name for each in terms for name in each.max_generalization})),
        min(wide, key=float, default=None),
        tuple(sorted({name for each in terms for name in each.min_generalization})),
        max(narrow, key=float, default=None),
        weights[-1] if weights else None,
    )


def joint_terms(
    columns: Sequence[Contribution], offered: Sequence[Sequence[AttributeTerms]]
) -> tuple[AttributeTerms, ...]:
    """Return what holds of each of these columns where all that is offered of it does."""
    found = []
    for column in columns:
        terms = [each for offer in offered for each in offer if each.name == column.name]
        found += [combined(terms)] if terms else []
    return tuple(found)


def offered_terms(
    mine: Sequence[Contribution],
    schema: Schema | None,
    policy: Mapping[str, PolicyBoundary],
    wished: Mapping[str, AttributeTerms],
) -> tuple[tuple[AttributeTerms, ...], list[str]]:
    """Return what a party offers of its own attributes, and what is wrong with it."""
    found, reasons = [], []
    for column in mine:
        name = column.name
        known = schema[name] if schema is not None and name in schema else None
        terms = [AttributeTerms(name)]
        # A weight in the party's own schema is nobody else's affair.
        terms += [msgspec.structs.replace(AttributeTerms.of(known), weight=None)] if known is not None else []
        terms += [policy[name].terms(name)] if name in policy else []
        terms += [wished[name]] if name in wished else []
        agreed = combined([each.named_by(known) for each in terms] if known is not None else terms)
        if not agreed.says_something:
            continue
        if column.role != "attribute":
            reasons.append(f'"{name}": it is released as it is, and has no boundaries')
            continue
        found.append(agreed)
        reasons += [f'"{name}": {each.key[-1]}: {each.sentence}' for each in _contradictions(agreed, known)]
    return tuple(found), reasons


def _contradictions(terms: AttributeTerms, attribute: Attribute | None) -> Sequence[Problem]:
    """Return what is wrong with terms, by the keys of a job; without the attribute as far as known."""
    if attribute is None:
        wide, narrow = terms.max_width, terms.min_width
        crossed = wide is not None and narrow is not None and float(narrow) > float(wide)
        text = f"must be at most max_width, {wide}; got {narrow}"
        return [Problem(text, key=("min_width",))] if crossed else []
    try:
        terms.applied(attribute)
    except ParameterError as error:
        return error.problems
    return []
