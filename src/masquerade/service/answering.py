"""What a policy says to a request: an offer with everything the party insists on, or a refusal with every reason.

An offer contains what was wished, so a party answers a counter-offer as it answers a request. To answer its own offer
adds nothing: that is why a negotiation ends. Before a party signs, `accepts` holds the finished deal, which others have
put together, against the policy once more. The reasons themselves are in reservations.py and ledger.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from masquerade.errors import ParameterError
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.contract import (
    EVERYBODY,
    Collaboration,
    Contribution,
    written_requirement,
)
from masquerade.protocol.remote_sensitive import refuse_remote_sensitive
from masquerade.service.card import SchemaCard
from masquerade.service.horizontal import collaboration_of
from masquerade.service.ledger import Ledger, Released, objections
from masquerade.service.policy import Policy
from masquerade.service.request import Kind, Request
from masquerade.service.reservations import against_request, against_snapshot, triggered
from masquerade.service.terms import Axis, Deal, Price, Provision, covering, read_parts, strictest

ANOTHER_SNAPSHOT = "the deal is about another snapshot or schema than the one offered"


class Offer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="offer"):
    """What a party brings, and what it insists on."""

    provision: Provision
    columns: tuple[Contribution, ...]  # without the class
    requirements: tuple[dict[str, object], ...]  # with what was wished
    price: Price
    holds_class: bool = False
    shares_class: bool = False  # it lets the other parties know the class of the common records
    records: int | None = None
    needs_approval: bool = False
    show_steps: bool = False
    m: int = 0  # in a horizontal session: against so many colluding providers, at least
    axes: tuple[Axis, ...] = ()  # there too: how each of the columns is generalised

    @property
    def party(self) -> str:
        """Who offers."""
        return self.provision.party

    @property
    def parts(self) -> tuple[GroupRequirement, ...]:
        """The requirements."""
        return read_parts(self.requirements, f"the offer of {self.party}", self.kind)

    @property
    def kind(self) -> Kind:
        """What kind of request it answers: columns of this party alone, or those that everybody has."""
        return "horizontal" if any(column.holder == EVERYBODY for column in self.columns) else "vertical"

    def axis(self, name: str) -> Axis | None:
        """How a column is generalised, in a horizontal session."""
        return next((axis for axis in self.axes if axis.name == name), None)


class Refusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="refusal"):
    """Why a party does not take part; `busy` when it may do so later, because its load is the only reason."""

    party: str
    reasons: tuple[str, ...]
    busy: bool = False


@dataclass(frozen=True)
class Load:
    """What a party is doing: its running sessions, and the time in seconds since 1970."""

    running: int
    now: int


def answer(
    policy: Policy,
    request: Request,
    card: SchemaCard,
    ledger: Ledger,
    load: Load,
    axes: Sequence[Axis] = (),
) -> Offer | Refusal:
    """The policy's answer. The table must have been read: the card names its snapshot.

    `axes` say how the dataset's attributes are generalised; only a horizontal request needs them.
    """
    mine = _contributed(request, card)
    released = _released(card, ledger)
    parts = _insisted(policy, request, mine)
    m = _against(policy, request)
    if not policy.allow_rerelease:  # a repeated request is answered with what was agreed then
        parts = strictest([*parts, *_agreed_before(released, request)], request.kind)
        m = max(
            [m, *(each.collaboration.m for each in released if request.is_horizontal and each.collaboration)]
        )
    reasons = [
        *against_request(policy, request, card, mine, load.now, axes),
        *against_snapshot(policy, card, ledger, load.now),
    ]
    if not policy.allow_rerelease:
        reasons += objections(
            released,
            parts=parts,
            columns=_in_order(request, mine),
            class_name=request.class_name,
            score=request.score_name,
            adversary=request.adversary,
            schema=card.schema,
            collaboration=_carried_out(request, m, parts),
            parties=request.parties or None,
        )
    busy = load.running >= policy.sessions
    if busy:
        reasons.append(f"{load.running} sessions are running; at most {policy.sessions} at once are allowed")
    if reasons:
        return Refusal(card.party, tuple(dict.fromkeys(reasons)), busy and len(reasons) == 1)
    holds_class = request.class_name is not None and card.column(request.class_name) is not None
    priced = [column.name for column in mine]
    priced += [request.class_name] if holds_class and request.class_name is not None else []
    names = {column.name for column in mine if column.role == "attribute"}
    return Offer(
        provision=Provision(card.party, card.dataset, card.snapshot or "", card.schema),
        columns=mine,
        requirements=tuple(written_requirement(part) for part in parts),
        price=_price(policy, request, card, priced),
        holds_class=holds_class,
        shares_class=holds_class and policy.share_class,
        records=card.records if policy.publish_records else None,
        needs_approval=policy.needs_approval,
        show_steps=policy.show_steps,
        m=m,
        axes=tuple(axis for axis in axes if axis.name in names) if request.is_horizontal else (),
    )


def accepts(
    policy: Policy,
    deal: Deal,
    card: SchemaCard,
    ledger: Ledger,
    load: Load,
    axes: Sequence[Axis] = (),
) -> tuple[str, ...]:
    """Why the policy does not let the party sign this deal; nothing when it does.

    The coordinator put the deal together, and is not trusted with it: all that concerns this party is recomputed.
    """
    try:
        request = deal.as_request()
        asked = deal.terms.parts
    except ParameterError as error:
        return error.lines
    terms = deal.terms
    answered = answer(policy, request, card, ledger, load, axes)
    reasons = list(answered.reasons) if isinstance(answered, Refusal) else []
    if isinstance(answered, Offer):
        if terms.provision(card.party) != answered.provision:
            reasons.append(ANOTHER_SNAPSHOT)
        holder = EVERYBODY if request.is_horizontal else card.party
        if {*answered.columns} != {column for column in terms.columns if column.holder == holder}:
            reasons.append("the deal asks for other columns than those offered")
        covers = covering(request.kind)
        lacking = [part for part in answered.parts if not any(covers(each, part) for each in asked)]
        reasons += [f"the deal lacks {part}, which the policy insists on" for part in lacking]
        if terms.m < answered.m:
            reasons.append(f"the deal has m = {terms.m}; the policy insists on {answered.m}")
        if {*terms.axes} != {*answered.axes}:
            reasons.append("the deal generalises attributes in another way than offered")
        if deal.prices.get(card.party) != answered.price:
            reasons.append("the deal names another price than the one offered")
        if terms.class_from == card.party and not answered.shares_class:
            reasons.append("the deal has this party share the class, which the policy does not allow")
        if deal.show_steps and not answered.show_steps:
            reasons.append(
                "the deal shows the coordinator the specializations, which the policy does not allow"
            )
    if _is_unlike(deal, request) or terms.collaboration != _carried_out(request, terms.m, asked):
        reasons.append("the deal is carried out in another way than a horizontal request is")
    holders = {column.name: column.holder for column in terms.columns}
    reasons += [reason for _, reason in refuse_remote_sensitive(asked, holders)]
    if not policy.allow_rerelease:
        others = [each for each in _released(card, ledger) if each.terms != terms.hash.hex()]
        reasons += objections(
            others,
            parts=asked,
            columns=[column.name for column in terms.columns],
            class_name=terms.class_name,
            score=terms.score,
            adversary=terms.adversary,
            schema=card.schema,
            collaboration=terms.collaboration,
            parties=terms.parties,
            final=True,
        )
    return tuple(dict.fromkeys(reasons))


def _is_unlike(deal: Deal, request: Request) -> bool:
    """Whether a horizontal deal says something where only a vertical one has something to say."""
    terms = deal.terms
    said = (terms.score, terms.argmax, terms.adversary, terms.epsilon, terms.normalize, deal.show_steps)
    usual = (
        *("", request.argmax, request.adversary, request.epsilon, request.normalize),
        request.show_steps,
    )
    return request.is_horizontal and (terms.class_from is not None or said != usual)


def _in_order(request: Request, mine: Sequence[Contribution]) -> list[str]:
    """The wanted columns in the order of a deal: those that are released as they are come last."""
    raw = {column.name for column in mine if column.role == "sensitive"}
    return sorted(request.attributes, key=lambda name: name in raw)


def _contributed(request: Request, card: SchemaCard) -> tuple[Contribution, ...]:
    """The party's columns among those wanted, unless the request names another contributor."""
    holder = EVERYBODY if request.is_horizontal else card.party
    found = []
    for name in request.attributes:
        column = card.column(name)
        if column is not None and request.providers.get(name, card.party) == card.party:
            found.append(
                Contribution(name, holder, "attribute" if column.role == "attribute" else "sensitive")
            )
    return tuple(found)


def _released(card: SchemaCard, ledger: Ledger) -> tuple[Released, ...]:
    return ledger.of_snapshot(card.dataset, card.snapshot) if card.snapshot is not None else ()


def _agreed_before(released: Sequence[Released], request: Request) -> list[GroupRequirement]:
    """What earlier releases satisfy, as far as it speaks of what is wanted now."""
    known = set(request.released)
    return [
        part
        for each in released
        for part in each.parts
        if known >= {*part.qid, part.sensitive or part.qid[0]}
    ]


def _against(policy: Policy, request: Request) -> int:
    """How many colluding providers the release must withstand."""
    return max(request.colluding, policy.least_m or 0) if request.is_horizontal else 0


def _carried_out(request: Request, m: int, parts: Sequence[GroupRequirement]) -> Collaboration | None:
    return collaboration_of(request, m, parts) if request.is_horizontal and parts else None


def _price(policy: Policy, request: Request, card: SchemaCard, priced: Sequence[str]) -> Price:
    """What is asked for. In a horizontal session all of a party's records are released, so all of it is fixed."""
    fixed = sum(map(policy.price.of, priced))
    if request.is_horizontal:
        return Price(fixed + policy.price.per_record * (card.records or 0))
    return Price(fixed, policy.price.per_record)


def _insisted(policy: Policy, request: Request, mine: Sequence[Contribution]) -> tuple[GroupRequirement, ...]:
    """What was wished, with a k that is large enough over every QID, and what the policy adds."""
    wanted = set(request.attributes)
    own = [column.name for column in mine if column.role == "attribute"]
    parts = [*request.privacy, *(part for part, _ in triggered(policy, request, own) if part is not None)]
    qids = [part.qid for part in parts]
    qids += [pattern.qid for pattern in policy.patterns if wanted >= set(pattern.qid)]
    qids += [tuple(own)] if own else []  # nothing of this party's is released outside a QID
    return strictest([*parts, *(KAnonymity(qid, policy.least(qid)) for qid in qids)], request.kind)
