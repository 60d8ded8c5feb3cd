"""The contract of a mashup: what all parties agreed to, in one canonical form whose hash names the session.

Canonical JSON: keys sorted, no white space, no floats (decimals are texts), attributes as a list in the order of the
joint schema. Every party computes the hash itself; the handshake compares it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, Self, get_args

import msgspec

from masquerade.arrangement import Arrangement
from masquerade.data import Attribute, Number, Schema, Table, Taxonomy, read_number
from masquerade.errors import ParameterError
from masquerade.forms import read_declared, read_json, without_floats
from masquerade.net import PROTOCOL_VERSION
from masquerade.privacy import REQUIREMENTS, Conjunction, GroupRequirement, Requirement, without_redundant
from masquerade.protocol.align.alignment_ways import BY_SIZE

# --- attribute terms ----------------------------------------------------------------------------------------
# What is agreed about an attribute besides its holder: how general its values become at most, and what it weighs.
#
# Written as canonical JSON has it (decimals are texts). A party's own schema may say something else, or
# mark nodes of a taxonomy: in a session the contract counts.


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
    return Schema((agreed.get(each.name, AttributeTerms(each.name)).applied(each) for each in own), own.identifiers)


def _text(number: Number | None) -> str | None:
    return None if number is None else repr(number)


def _number(written: str | None) -> Number | None:
    return None if written is None else read_number(written)


# --- method choice ------------------------------------------------------------------------------------------
# Why a contract has the method that it has, where nobody named one: data that all parties sign.


class PassedOver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A method that would have been preferred, and why it was not taken."""

    method: dict[str, Any]  # as a contract has it
    refuses: tuple[str, ...] = ()  # what of the contract it cannot do
    not_allowed_by: tuple[str, ...] = ()  # the parties whose policy does not have it


class MethodChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reason for the method taken, and the methods preferred to it, in their order."""

    because: str
    passed_over: tuple[PassedOver, ...] = ()

    def summary(self) -> dict[str, Any]:
        """Return the entry in the JSON summary."""
        written: dict[str, Any] = msgspec.to_builtins(self)
        return written


# --- contract -----------------------------------------------------------------------------------------------

# Identifiers of one party: more than enough for a country, and too few to try all nine-digit numbers.
MOST_RECORDS = 20_000_000
EVERYBODY = "*"  # the holder of a column that every party has, each about its own people

OutcomeRole = Literal["duration", "event"]
OUTCOMES: tuple[OutcomeRole, ...] = get_args(OutcomeRole)
Role = Literal["attribute", "sensitive"] | OutcomeRole


class Contribution(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One column of the release, or of the records that a model is learned from, and the party that has it."""

    name: str
    holder: str
    role: Role


class Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agreed terms: who hands in which columns, and what the release must satisfy."""

    parties: tuple[str, ...]  # the order matters: the last compares the blinded lists
    columns: tuple[Contribution, ...]
    requirements: tuple[dict[str, Any], ...]
    method: dict[str, Any]  # its name and parameters; decimals are texts
    choice: MethodChoice | None = None  # why it is this method, if nobody named one
    attributes: tuple[AttributeTerms, ...] = ()  # what is agreed about some of them
    class_name: str | None = None
    class_from: str | None = None  # who shares the class; None when every party holds it
    provider: str | None = None  # where all hold the same columns: the one that names each record's provider
    m: int = 0  # in that case: how many providers may collude
    keep_provider: bool = False
    normalize: Literal["none", "strip", "casefold"] = "strip"
    most_records: int = MOST_RECORDS
    version: int = PROTOCOL_VERSION
    nonce: str = msgspec.field(default_factory=lambda: secrets.token_hex(16))

    def canonical(self) -> bytes:
        """Return the contract as canonical JSON."""
        return msgspec.json.encode(self, order="sorted")

    @property
    def hash(self) -> bytes:
        """The hash of the canonical form, which names the session."""
        return hashlib.sha256(self.canonical()).digest()

    @classmethod
    def read(cls, data: bytes) -> Contract:
        """Read a contract from its JSON."""
        contract: Contract = read_json(data, cls, "contract")
        return contract

    @property
    def arrangement(self) -> Arrangement:
        """How the parties hold their data."""
        return "vertical" if self.provider is None else "horizontal"

    @property
    def aligned_by(self) -> str:
        """The way in which common records are found (protocol/align/align.py), if the arrangement is vertical."""
        return str(self.method.get("align", BY_SIZE))

    @property
    def requirement(self) -> Requirement:
        """All requirements."""
        return Conjunction(tuple(read_requirement(each) for each in self.requirements))

    @property
    def parts(self) -> tuple[GroupRequirement, ...]:
        """The requirements that no other covers."""
        return without_redundant(self.requirement.parts)

    @property
    def qid_columns(self) -> tuple[Contribution, ...]:
        """The columns that are generalised, in the joint order."""
        qid = self.requirement.qid_attributes
        return tuple(column for column in self.columns if column.role == "attribute" and column.name in qid)

    @property
    def holders(self) -> dict[str, str]:
        """The party that holds each column."""
        return {column.name: column.holder for column in self.columns}

    @property
    def bounded(self) -> tuple[str, ...]:
        """The attributes whose values may be generalised only so far, of those that are generalised."""
        limited = {each.name for each in self.attributes if each.is_bounded}
        return tuple(column.name for column in self.qid_columns if column.name in limited)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each attribute that has another one than 1."""
        return {each.name: each.priority for each in self.attributes if each.weight is not None}

    def columns_of(self, party: str) -> tuple[Contribution, ...]:
        """Return the columns that a party hands in, in the joint order, without the class."""
        return tuple(column for column in self.columns if column.holder in (party, EVERYBODY))

    def handed_in_by(self, party: str) -> tuple[str, ...]:
        """Return the names of a party's columns of the release, its class last."""
        names = [column.name for column in self.columns_of(party)]
        if self.class_holder == party and self.class_name is not None:
            names.append(self.class_name)
        return tuple(names)

    @property
    def release_order(self) -> tuple[str, ...]:
        """The columns of the release: attributes in the joint order, the class, then what is sensitive."""
        order = [column.name for column in self.columns if column.role == "attribute"]
        order += [self.class_name] if self.class_name is not None else []
        order += [column.name for column in self.columns if column.role == "sensitive"]
        return tuple(dict.fromkeys(order))

    @property
    def class_holder(self) -> str | None:
        """The party that hands in the class."""
        return None if self.class_name is None else self.class_from or self.parties[0]

    def columns_needed(self, party: str) -> tuple[str, ...]:
        """Return the columns that a party must have, without the identifier."""
        names = [column.name for column in self.columns_of(party)]
        if self.class_name is not None and self.class_from in (None, party):
            names.append(self.class_name)
        return tuple(dict.fromkeys(names))


def written_requirement(part: GroupRequirement) -> dict[str, Any]:
    """Write a requirement in a form that canonical JSON can hold."""
    return {"model": part.model, "qid": list(part.qid), **without_floats(part.parameters())}


def read_requirement(written: Mapping[str, Any]) -> GroupRequirement:
    """Invert `written_requirement`."""
    parameters = dict(written)
    model = REQUIREMENTS.get(str(parameters.pop("model", None)))
    if model is None or model.wraps:
        raise ParameterError(f"contract: no requirement model {written.get('model')!r}")
    made, problems = read_declared(model, parameters)
    if made is None:
        raise ParameterError(*problems).within(f"contract: {model.model}")
    return made
