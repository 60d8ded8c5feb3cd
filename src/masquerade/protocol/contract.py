"""The contract of a mashup: what all parties agreed to, in one canonical form whose hash names the session.

Canonical JSON: keys sorted, no white space, no floats (decimals are texts), attributes as a list in the order of the
joint schema. Every party computes the hash itself; the handshake compares it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from masquerade.errors import ParameterError
from masquerade.forms.declared import read_declared, without_floats
from masquerade.forms.json import read_json
from masquerade.net.channel import PROTOCOL_VERSION
from masquerade.privacy.registry import REQUIREMENTS
from masquerade.privacy.requirement import Conjunction, GroupRequirement, Requirement, without_redundant
from masquerade.protocol.alignment_ways import BY_SIZE
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.attribute_terms import AttributeTerms
from masquerade.protocol.method_choice import MethodChoice

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
        """The way in which common records are found (protocol/align.py), if the arrangement is vertical."""
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
