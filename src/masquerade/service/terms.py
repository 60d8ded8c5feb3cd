"""What is agreed: the terms, which decide the release, and the deal around them (who, what for, at what price).

`Terms.hash` is the same whenever the same is asked of the same snapshots: it keys the cache. It knows neither nonce nor
user. `Deal` is what all parties sign, once it has a nonce, an expiry and their keys (signing.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from masquerade.data.schema import AttributeKind
from masquerade.errors import ParameterError
from masquerade.forms.problems import Problems
from masquerade.net.channel import PROTOCOL_VERSION
from masquerade.privacy.m_privacy.requirement import covers_against_insiders
from masquerade.privacy.requirement import Covers, GroupRequirement, covers, without_redundant
from masquerade.protocol.contract import (
    PROVIDER,
    Contract,
    Contribution,
    read_requirement,
    written_requirement,
)
from masquerade.service.canonical import canonical, digest
from masquerade.service.form_values import read_privacy
from masquerade.service.request import Kind, Request, read_request


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party asks, in cents: a fixed sum for its columns, and so much for each released record."""

    fixed: int = 0
    per_record: int = 0


class Provision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party brings: a dataset, the commitment to its snapshot, and the digest of its schema."""

    party: str
    dataset: str
    snapshot: str
    schema: str


class Axis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an attribute is generalised, which providers of the same columns must all do alike."""

    name: str
    kind: AttributeKind
    taxonomy: str | None = None  # its fingerprint; "flat": made of the values that occur
    lower: str | None = None
    upper: str | None = None


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of which snapshots."""

    provisions: tuple[Provision, ...]  # in the order of the contract's parties
    columns: tuple[Contribution, ...]  # attributes in the joint order, then what is released as it is
    requirements: tuple[dict[str, Any], ...]
    method: dict[str, Any]  # its name and parameters, spelled out
    class_name: str | None = None
    class_from: str | None = None
    normalize: Literal["none", "strip", "casefold"] = "strip"
    kind: Kind = "vertical"  # whether the parties hold different columns or different people
    m: int = 0  # in a horizontal session: the number of providers that may collude
    axes: tuple[Axis, ...] = ()  # there too, in the order of the columns
    version: int = PROTOCOL_VERSION

    @property
    def hash(self) -> bytes:
        """The key of the cache."""
        return digest(self)

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties' names."""
        return tuple(each.party for each in self.provisions)

    @property
    def parts(self) -> tuple[GroupRequirement, ...]:
        """The requirements."""
        return read_parts(self.requirements, "terms", self.kind)

    def provision(self, party: str) -> Provision | None:
        """What a party brings, if it is one of the parties."""
        return next((each for each in self.provisions if each.party == party), None)

    def contract(self, nonce: str) -> Contract:
        """The contract that the protocol runs by."""
        return Contract(
            parties=self.parties,
            columns=self.columns,
            requirements=self.requirements,
            method=self.method,
            class_name=self.class_name,
            class_from=self.class_from,
            provider=PROVIDER if self.kind == "horizontal" else None,
            m=self.m,
            normalize=self.normalize,
            version=self.version,
            nonce=nonce,
        )


class Deal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The terms, and for whom, for what and at what price they are carried out."""

    terms: Terms
    user: str
    purpose: str
    recipients: tuple[str, ...]
    prices: dict[str, Price]  # by party
    records: (
        int | None
    )  # at most so many are released; None: no party told, or of a horizontal session not all
    budget: int
    most_error: str | None = None
    deadline: int | None = None
    attempts: int = 3  # a session that a party broke is tried again up to so often
    show_steps: bool = False  # whether the coordinator may see the specializations

    @property
    def most_cost(self) -> int:
        """What the release costs at most, in cents."""
        return cost(self.prices.values(), self.records)

    def canonical(self) -> bytes:
        """The deal's one form."""
        return canonical(self)

    @classmethod
    def read(cls, data: bytes) -> Deal:
        """A deal from its JSON."""
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise ParameterError(f"deal: {error}") from None

    def as_request(self) -> Request:
        """The request that asks for exactly this, so that a party can answer it once more before it signs."""
        terms = self.terms
        return read_request(
            {
                "user": self.user,
                "purpose": self.purpose,
                "attributes": [column.name for column in terms.columns],
                "class": terms.class_name,
                "privacy": list(terms.requirements),
                "most_error": self.most_error,
                "budget": self.budget,
                "recipients": list(self.recipients),
                "deadline": self.deadline,
                "attempts": self.attempts,
                "kind": terms.kind,
                "algorithm": terms.method,
                **(_vertical(terms, self.show_steps) if terms.kind == "vertical" else _horizontal(terms)),
            },
            "deal",
        )


def _vertical(terms: Terms, show_steps: bool) -> dict[str, Any]:
    """Who contributes what."""
    holders = {column.name: column.holder for column in terms.columns}
    if terms.class_name is not None and terms.class_from is not None:
        holders[terms.class_name] = terms.class_from
    return {"providers": holders, "normalize": terms.normalize, "show_steps": show_steps}


def _horizontal(terms: Terms) -> dict[str, Any]:
    """Who publishes together, and against how many of them."""
    return {"m": terms.m, "parties": list(terms.parties)}


def cost(prices: Iterable[Price], records: int | None) -> int:
    """What prices come to at most, in cents."""
    return sum(price.fixed + price.per_record * (records or 0) for price in prices)


def read_parts(written: Iterable[Mapping[str, Any]], source: str, kind: Kind) -> tuple[GroupRequirement, ...]:
    """Requirements that somebody else has written; ParameterError with every problem."""
    problems = Problems(source)
    parts = read_privacy([dict(each) for each in written], problems)
    problems.settle(ParameterError)
    return strictest(parts, kind)


def strictest(parts: Iterable[GroupRequirement], kind: Kind) -> tuple[GroupRequirement, ...]:
    """The parts that no other covers, each in one form and all in one order, whatever order they came in."""
    normal = {canonical(written): written for written in (_normal(part) for part in parts)}
    return without_redundant((read_requirement(normal[key]) for key in sorted(normal)), covering(kind))


def covering(kind: Kind) -> Covers:
    """Whether a requirement follows from another in a session of this kind; a horizontal one wraps both in m-privacy.

    With m = 0 too: m grows while the parties negotiate, and what was left out before would be lacking then.
    """
    return covers if kind == "vertical" else covers_against_insiders


def _normal(part: GroupRequirement) -> dict[str, Any]:
    """A requirement written in one way: names sorted, and 2.0 as 2."""
    written = written_requirement(part)
    written["qid"] = sorted(written["qid"])
    if "values" in written:
        written["values"] = sorted(written["values"])
    for name, value in part.parameters().items():
        if isinstance(value, float) and value.is_integer():
            written[name] = int(value)
    return written
