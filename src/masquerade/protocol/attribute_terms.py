"""What is agreed about an attribute besides its holder: how general its values become at most, and what it weighs.

Written as canonical JSON has it (decimals are texts). A party's own schema may say something else, or mark nodes of a
taxonomy: in a session the contract counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Self

import msgspec

from masquerade.data.continuum import Number, read_number
from masquerade.data.schema import Attribute, Schema
from masquerade.data.table import Table
from masquerade.data.taxonomy import Taxonomy


class AttributeTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The terms of one attribute; what is not said is as in any release."""

    name: str
    max_generalization: tuple[str, ...] = ()  # the nodes up to which values may be generalised
    max_width: str | None = None  # of intervals of numbers without a taxonomy
    min_generalization: tuple[str, ...] = ()  # the finest values that a release shows
    min_width: str | None = None
    weight: str | None = None  # its priority

    @classmethod
    def of(cls, attribute: Attribute) -> Self:
        """Return what a schema says of an attribute, be it in a job or by the marks of a taxonomy's file."""
        marked = attribute.taxonomy.allowed if isinstance(attribute.taxonomy, Taxonomy) else ()
        return cls(
            attribute.name,
            attribute.max_generalization or marked,
            _text(attribute.max_width),
            attribute.min_generalization,
            _text(attribute.min_width),
            None if attribute.weight == 1 else repr(attribute.weight),
        ).named_by(attribute)

    def named_by(self, attribute: Attribute) -> Self:
        """Return the same with each node by the one name that all parties know it by: the lowest of a chain."""
        tree = attribute.taxonomy
        if not isinstance(tree, Taxonomy):
            return self
        most, least = (
            tuple(dict.fromkeys(node.name if (node := tree.called(name)) else name for name in names))
            for names in (self.max_generalization, self.min_generalization)
        )
        return msgspec.structs.replace(self, max_generalization=most, min_generalization=least)

    @property
    def says_something(self) -> bool:
        """Whether anything is agreed."""
        return self != type(self)(self.name)

    @property
    def is_bounded(self) -> bool:
        """Whether there is a limit to how far its values may be generalised."""
        return bool(self.max_generalization) or self.max_width is not None

    @property
    def priority(self) -> float:
        """Its weight."""
        return 1.0 if self.weight is None else float(self.weight)

    def applied(self, attribute: Attribute) -> Attribute:
        """Return the attribute with these terms in place of its own."""
        taxonomy = attribute.taxonomy
        if isinstance(taxonomy, Taxonomy) and taxonomy.allowed:
            taxonomy = replace(taxonomy, allowed=())
        return replace(
            attribute,
            taxonomy=taxonomy,
            max_generalization=self.max_generalization,
            max_width=_number(self.max_width),
            min_generalization=self.min_generalization,
            min_width=_number(self.min_width),
            weight=self.priority,
        )


def terms_of(schema: Iterable[Attribute]) -> tuple[AttributeTerms, ...]:
    """Return the terms of the attributes about which a schema says something."""
    return tuple(terms for each in schema if (terms := AttributeTerms.of(each)).says_something)


def agreed_table(table: Table, terms: Iterable[AttributeTerms]) -> Table:
    """Return a party's table with the agreed terms in place of those of its own schema."""
    schema = agreed_schema(table.schema, terms)
    return table if schema == table.schema else table.with_schema(schema)


def agreed_schema(own: Schema, terms: Iterable[AttributeTerms]) -> Schema:
    """Return a schema with the agreed terms in place of its own."""
    agreed = {each.name: each for each in terms}
    return Schema(
        (agreed.get(each.name, AttributeTerms(each.name)).applied(each) for each in own), own.identifiers
    )


def _text(number: Number | None) -> str | None:
    return None if number is None else repr(number)


def _number(written: str | None) -> Number | None:
    return None if written is None else read_number(written)
