"""What is agreed: the terms, which decide the release, and the deal around them (for whom, for what, at what price).

`Terms.hash` is the same for the same request to the same snapshots: it keys the cache. It covers neither nonce nor
user. Each party offers its part of them (`Offer`). `Deal` is what all parties sign, once it has a nonce, an expiry and
their keys (signing.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec

from masquerade.arrangement import ARRANGEMENTS, Arrangement
from masquerade.data import AttributeKind
from masquerade.errors import ParameterError
from masquerade.forms import Problems, read_json
from masquerade.net import PROTOCOL_VERSION
from masquerade.privacy import GroupRequirement, KAnonymity, without_redundant
from masquerade.protocol import (
    OUTCOMES,
    AttributeTerms,
    Contract,
    Contribution,
    MethodChoice,
    read_requirement,
    written_requirement,
)
from masquerade.service.agree.boundaries import written_terms
from masquerade.service.agree.request import ClientSignature, Request, only_of, read_privacy, read_request
from masquerade.service.canonical import MOST_WHOLE, canonical, digest


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party's price in cents: a fixed sum for its columns, and a rate for each released record."""

    fixed: int = 0
    per_record: int = 0


class ServiceLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party promises of its answers to the coordinator; None: nothing."""

    response_time: int | None = None  # seconds by which 95 % of them come
    availability: str | None = None  # the share of calls that it answers


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party asks for its columns, in cents: for each, unless it has a price of its own, and for each record."""

    per_attribute: int = 0
    per_record: int = 0
    attributes: dict[str, int] = {}

    def of(self, name: str) -> int:
        """Return the price of a column."""
        return self.attributes.get(name, self.per_attribute)


class Provision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party contributes: a dataset, the commitment to its snapshot, and the digest of its schema."""

    party: str
    dataset: str
    snapshot: str
    schema: str


class AttributeDomain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an attribute is generalised; in a horizontal session all providers must agree on it."""

    name: str
    kind: AttributeKind
    taxonomy: str | None = None  # its fingerprint; "flat": made of the values that occur
    lower: str | None = None
    upper: str | None = None


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """What is requested from which snapshots."""

    provisions: tuple[Provision, ...]  # in the order of the contract's parties
    columns: tuple[Contribution, ...]  # attributes in the joint order, then those released unchanged
    requirements: tuple[dict[str, Any], ...]
    method: dict[str, Any]  # its name and parameters, spelled out
    class_name: str | None = None
    class_from: str | None = None
    normalize: Literal["none", "strip", "casefold"] = "strip"
    # Whether the parties hold different columns or different people
    arrangement: Arrangement = msgspec.field(default="vertical", name="kind")
    m: int = 0  # in a horizontal session: the number of providers that may collude
    axes: tuple[AttributeDomain, ...] = ()  # in a horizontal session, in the order of the columns
    # In the order of the columns, those about which something is agreed
    attributes: tuple[AttributeTerms, ...] = ()
    source: str | None = None  # the hash of earlier terms: their release is rolled up, and no protocol runs
    version: int = PROTOCOL_VERSION

    @cached_property
    def hash(self) -> bytes:
        """The hash that keys the cache."""
        return digest(self)

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties' names."""
        return tuple(each.party for each in self.provisions)

    @cached_property
    def parts(self) -> tuple[GroupRequirement, ...]:
        """The requirements; read once, as a ledger is searched for every answer."""
        return read_parts(self.requirements, "terms", self.arrangement)

    def provision(self, party: str) -> Provision | None:
        """Return what a party contributes, or None if it is not one of the parties."""
        return next((each for each in self.provisions if each.party == party), None)

    def contract(self, nonce: str) -> Contract:
        """Return the contract that the protocol runs by."""
        return Contract(
            parties=self.parties,
            columns=self.columns,
            requirements=self.requirements,
            method=self.method,
            attributes=self.attributes,
            class_name=self.class_name,
            class_from=self.class_from,
            provider=ARRANGEMENTS[self.arrangement].provider,
            m=self.m,
            normalize=self.normalize,
            version=self.version,
            nonce=nonce,
        )


# What a deal has just as its request has it
AS_ASKED = ("user", "most_error", "most_ncp", "most_query_error", "estimate", "budget", "deadline", "attempts")


class Deal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The terms, with the users, purpose and prices they are carried out for."""

    terms: Terms
    user: str
    purpose: str
    recipients: tuple[str, ...]
    prices: dict[str, Price]  # by party
    records: int | None  # upper bound on released records; None: not stated (horizontal: not by all parties)
    budget: int
    most_error: str | None = None
    most_ncp: str | None = None
    most_query_error: str | None = None
    deadline: int | None = None
    attempts: int = 3  # a session that a party broke is tried this many times at most
    show_progress: bool = False  # whether the coordinator may watch: stages, figures, specializations
    signed: ClientSignature | None = None  # what its client signed, if it did
    service: dict[str, ServiceLevel] = msgspec.field(default_factory=dict)  # by party that promises something
    choice: MethodChoice | None = None  # why the terms have their method, if the request leaves it open
    estimate: bool = False  # whether the release waits for its client, whatever it has lost

    @property
    def most_cost(self) -> int:
        """The maximum cost of the release, in cents."""
        return cost(self.prices.values(), self.records)

    def canonical(self) -> bytes:
        """Encode the deal in canonical form."""
        return canonical(self)

    @classmethod
    def read(cls, data: bytes) -> Deal:
        """Decode a deal from its JSON."""
        deal: Deal = read_json(data, cls, "deal")
        return deal

    @cached_property
    def asked(self) -> Request:
        """What it carries out; ParameterError with every problem where no request may ask for that.

        The coordinator has put the deal together. So whatever is required of a request is required of it once more, by
        the same form, and the party's objections are those that it would have to a request. It is read once, however
        often it is asked for.
        """
        terms = self.terms
        holders = {column.name: column.holder for column in terms.columns}
        if terms.class_name is not None and terms.class_from is not None:
            holders[terms.class_name] = terms.class_from
        content = {
            **{name: getattr(self, name) for name in (*AS_ASKED, "purpose", "show_progress")},
            "attributes": [column.name for column in terms.columns if column.role not in OUTCOMES],
            "class": terms.class_name,
            **{str(column.role): column.name for column in terms.columns if column.role in OUTCOMES},
            "privacy": list(terms.requirements),
            "recipients": list(self.recipients),
            "kind": terms.arrangement,
            "algorithm": terms.method,
            "signed": msgspec.to_builtins(self.signed),
            "providers": holders,
            "boundaries": {each.name: written_terms(each) for each in terms.attributes},
            "normalize": terms.normalize,
            "m": terms.m,
            "parties": list(terms.parties),
        }
        return read_request(only_of(terms.arrangement, content), "deal")


def cost(prices: Iterable[Price], records: int | None) -> int:
    """Return the maximum total of the prices, in cents."""
    return sum(price.fixed + price.per_record * (records or 0) for price in prices)


def read_parts(
    written: Iterable[Mapping[str, Any]], source: str, arrangement: Arrangement
) -> tuple[GroupRequirement, ...]:
    """Read requirements written by others; raise ParameterError with every problem."""
    problems = Problems(source)
    parts = read_privacy([dict(each) for each in written], problems)
    problems.settle(ParameterError)
    return strictest(parts, arrangement)


def strictest(parts: Iterable[GroupRequirement], arrangement: Arrangement) -> tuple[GroupRequirement, ...]:
    """Return the parts that no other covers, in canonical form and order, independent of the input order."""
    normal = {canonical(written): written for written in (_normal(part) for part in parts)}
    return without_redundant(
        (read_requirement(normal[key]) for key in sorted(normal)), ARRANGEMENTS[arrangement].covers
    )


def _normal(part: GroupRequirement) -> dict[str, Any]:
    """Write a requirement in its canonical form: names sorted, and 2.0 as 2."""
    written = written_requirement(part)
    written["qid"] = sorted(written["qid"])
    if "values" in written:
        written["values"] = sorted(written["values"])
    for name, value in part.parameters().items():
        if isinstance(value, float) and value.is_integer():
            written[name] = int(value)
    return written


# --- offers -------------------------------------------------------------------------------------------------
# A party's answer to a request: an offer with everything it insists on, or a refusal with every reason.

LeastK = Annotated[int, msgspec.Meta(ge=0, le=MOST_WHOLE)]
Declines = Annotated[int, msgspec.Meta(ge=0, le=MOST_WHOLE)]


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="offer"):
    """What a party contributes, and what it insists on."""

    provision: Provision
    columns: tuple[Contribution, ...]  # excluding the class
    requirements: tuple[dict[str, object], ...]  # including those that were wished
    price: Price
    holds_class: bool = False
    shares_class: bool = False  # it lets the other parties know the class of the common records
    records: int | None = None
    needs_approval: bool = False
    show_progress: bool = False
    # Of the request that it answers
    arrangement: Arrangement = msgspec.field(default="vertical", name="kind")
    m: int = 0  # in a horizontal session: the least number of colluding providers to withstand
    axes: tuple[AttributeDomain, ...] = ()  # in a horizontal session: how each of the columns is generalised
    attributes: tuple[AttributeTerms, ...] = ()  # how far its columns are generalised, and what they weigh
    min_records: LeastK = 0  # how many people every part of a model rests on at least; 0: no model is asked for
    joint_k: LeastK = 0  # over all attributes of all parties together; 0: over the QIDs asked for alone
    service: ServiceLevel = ServiceLevel()
    # Where the request leaves it open: those that it takes; (): any
    methods: tuple[dict[str, object], ...] = ()
    declines: Declines | None = None  # so many releases of this snapshot may still be declined; None: any number

    @property
    def party(self) -> str:
        """The party that makes the offer."""
        return self.provision.party

    @property
    def parts(self) -> tuple[GroupRequirement, ...]:
        """The requirements."""
        return read_parts(self.requirements, f"the offer of {self.party}", self.arrangement)

    def joint_parts(self, columns: Iterable[Contribution]) -> tuple[GroupRequirement, ...]:
        """Return what it insists on over all attributes together, which only all offers name, or the finished deal."""
        qid = tuple({column.name: None for column in columns if column.role == "attribute"})
        return (KAnonymity(qid, self.joint_k),) if qid and self.joint_k else ()

    def axis(self, name: str) -> AttributeDomain | None:
        """Return how a column is generalised in a horizontal session, or None."""
        return next((axis for axis in self.axes if axis.name == name), None)


class Refusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="refusal"):
    """Why a party does not take part; `busy` when its load is the only reason, so that it may do so later.

    `earlier` when an earlier release is the only reason, and can be made coarser to answer the request
    (further_releases.py): the hash of its terms. `instead`: the keys of the request that are in the way of repeating
    that release or of columns that the method can take, with what they could be; nothing that the reasons do not tell.
    """

    party: str
    reasons: tuple[str, ...]
    busy: bool = False
    earlier: str | None = None
    instead: dict[str, Any] = {}


def names_of(names: Iterable[str]) -> str:
    """List names for a person: each once, sorted."""
    return ", ".join(sorted(set(names)))
