"""A policy's answer to a request: an offer with everything the party insists on, or a refusal with every reason.

An offer contains what was wished, so a party answers a counter-offer as it answers a request. Answering its own offer
adds nothing, which is why a negotiation ends. Before a party signs, `accepts` checks the finished deal, which others
put together, against the policy once more. The reasons themselves are in reservations.py and further_releases.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from masquerade.data.schema import Schema
from masquerade.errors import ParameterError
from masquerade.methods import product_of, unnamed_method, written_method
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.arrangement import ARRANGEMENTS
from masquerade.protocol.attribute_terms import AttributeTerms
from masquerade.protocol.contract import Contribution, Role, written_requirement
from masquerade.protocol.method import AskedMethod, Proposal, SessionMethod, proposal_of
from masquerade.protocol.method_choice import MethodChoice
from masquerade.protocol.product import ANSWER
from masquerade.service.boundaries import joint_terms, offered_terms
from masquerade.service.card import SchemaCard
from masquerade.service.fitness import unfit_columns
from masquerade.service.further_releases import (
    against_roll_up,
    against_second,
    agreed_before,
    as_released,
    differences,
    rolls_up,
)
from masquerade.service.kinds import KINDS
from masquerade.service.ledger import Ledger
from masquerade.service.offers import Load, Offer, Refusal
from masquerade.service.policy import Policy
from masquerade.service.ratio_grants import against_number
from masquerade.service.request import Request
from masquerade.service.reservations import (
    against_method,
    against_request,
    against_schema,
    against_snapshot,
    triggered,
)
from masquerade.service.terms import Deal, Provision, ServiceLevel, Terms, strictest


def answer(
    policy: Policy,
    request: Request,
    card: SchemaCard,
    ledger: Ledger,
    load: Load,
    schema: Schema | None = None,
    source: str | None = None,
) -> Offer | Refusal:
    """Return the policy's answer. The table must have been read: the card names its snapshot.

    `schema` says how the dataset's attributes are generalised; without it, the checks that depend on it are skipped.
    With `source` the release of those terms is to be rolled up.
    """
    kind = KINDS[request.kind]
    mine = _contributed(request, card)
    method = _permitted(policy, request, mine, schema)
    m = kind.least_m(policy, request) if request.method.makes.has_groups else 0
    parts = _insisted(policy, request, mine)
    limits, contradictions = offered_terms(mine, schema, policy.boundaries, request.terms)
    if not request.method.makes.has_groups:  # nothing shows a value of a column, however general
        limits, contradictions = (), []
    draft = _draft(request, method, card, mine, parts, m, limits)
    reasons = [
        *contradictions,
        *against_request(policy, request, card, mine, load.now),
        *kind.reservations(policy, request, card),
        *against_schema(request.method, mine, schema),
        *against_snapshot(policy, card, ledger, load.now),
    ]
    if request.method.makes is ANSWER:
        reasons += against_number(policy, draft, card, ledger, runs=False)
    busy = load.running >= policy.sessions
    if busy:
        reasons.append(f"{load.running} sessions are running; at most {policy.sessions} at once are allowed")
    earlier, instead = None, dict[str, Any]()
    if unfit := _unfit(request, card, mine, schema):
        instead = {"attributes": [name for name in request.attributes if name not in unfit]}
    if source is not None:
        known = _binding(policy, card, ledger).get(source)
        if known is not None:
            method, draft = _as_agreed(known, request, method, card, mine, draft)
        reasons += against_roll_up(known, draft)
    elif before := _earlier(policy, request, card, ledger):
        drafts = [(each, *_as_agreed(each, request, method, card, mine, draft)) for each in before]
        nearest, method, draft = min(drafts, key=lambda each: len(differences(each[0], each[2])))
        if second := against_second(nearest, draft):
            coarser = (each.hash.hex() for each, _, asked in drafts if rolls_up(each, asked))
            earlier = next(coarser, None) if not reasons else None
            reasons += second
            instead = {**as_released(nearest, draft), **instead}
    if reasons:
        return Refusal(
            card.party, tuple(dict.fromkeys(reasons)), busy and len(reasons) == 1, earlier, instead
        )
    holds_class = request.class_name is not None and card.column(request.class_name) is not None
    names = {column.name for column in mine if column.role == "attribute"}
    return Offer(
        provision=draft.provisions[0],
        columns=mine,
        requirements=draft.requirements,
        price=kind.price(policy.price.listed, card, priced_columns(request, card)),
        holds_class=holds_class,
        # A model's class stays where it is: whoever holds it computes with it.
        shares_class=holds_class and (policy.share_class or not request.method.makes.has_groups),
        records=card.records if policy.publish_records else None,
        needs_approval=policy.needs_approval,
        show_progress=policy.show_progress,
        kind=request.kind,
        m=draft.m,
        axes=kind.axes(schema, names),
        attributes=draft.attributes,
        joint_k=kind.joint_k(policy, request) if request.method.makes.has_groups else 0,
        service=policy.service,
        methods=tuple(map(written_method, method.possible)) if request.algorithm is None else (),
        declines=_declines(policy, request, card, ledger) if source is None else None,
    )


def _unfit(
    request: Request, card: SchemaCard, mine: Sequence[Contribution], schema: Schema | None
) -> set[str]:
    """Return the columns that the method asked for cannot take; where it is left open, every one can."""
    if request.algorithm is None:
        return set()
    own = {column.name for column in mine if column.role == "attribute"}
    found = {name for name, _ in unfit_columns(request, card)}
    return found | {name for name in own if any(against_schema(request.method, _only(mine, name), schema))}


def _only(mine: Sequence[Contribution], name: str) -> list[Contribution]:
    return [column for column in mine if column.name == name]


def accepts(
    policy: Policy,
    deal: Deal,
    card: SchemaCard,
    ledger: Ledger,
    load: Load,
    schema: Schema | None = None,
    *,
    runs: bool = False,
) -> tuple[str, ...]:
    """Return the reasons why the policy does not let the party sign this deal, or run it now; empty when it may.

    The coordinator put the deal together and is not trusted: everything that concerns this party is recomputed.
    """
    try:
        request = deal.as_request()
        asked = deal.terms.parts
    except ParameterError as error:
        return error.lines
    terms, kind = deal.terms, KINDS[request.kind]
    answered = answer(policy, request, card, ledger, load, schema, terms.source)
    provision = terms.provision(card.party)
    changed = provision is not None and provision.snapshot != card.snapshot
    reasons = [f"{card.dataset} has changed: the contract is about another snapshot of it"] if changed else []
    if isinstance(answered, Refusal):
        reasons += answered.reasons
    if isinstance(answered, Offer):
        if not changed and provision != answered.provision:
            reasons.append("the deal is about another dataset or schema than the one offered")
        holder = kind.holder(card.party)
        if {*answered.columns} != {column for column in terms.columns if column.holder == holder}:
            reasons.append("the deal asks for other columns than those offered")
        covers = ARRANGEMENTS[request.kind].covers
        insisted = (*answered.parts, *answered.joint_parts(terms.columns))
        lacking = [part for part in insisted if not any(covers(each, part) for each in asked)]
        reasons += [f"the deal lacks {part}, which the policy insists on" for part in lacking]
        if terms.m < answered.m:
            reasons.append(f"the deal has m = {terms.m}; the policy insists on {answered.m}")
        own = {column.name for column in answered.columns}
        if {each for each in terms.attributes if each.name in own} != {*answered.attributes}:
            reasons.append("the deal has other boundaries than offered")
        if {*terms.axes} != {*answered.axes}:
            reasons.append("the deal generalises attributes in another way than offered")
        if deal.prices.get(card.party) != answered.price:
            reasons.append("the deal names another price than the one offered")
        if deal.service.get(card.party, ServiceLevel()) != answered.service:
            reasons.append("the deal promises another service level than the one offered")
        if terms.class_from == card.party and not answered.shares_class:
            reasons.append("the deal has this party share the class, which the policy does not allow")
        if deal.show_progress and not answered.show_progress:
            reasons.append("the deal shows the coordinator the progress, which the policy does not allow")
    proposal = proposal_of(terms.contract(""))
    agreed_on = replace(proposal, parts=asked)
    if (
        terms.method != written_method(request.method.agreed(agreed_on, terms.class_name).method)
        or terms.normalize != request.normalize
        or (terms.class_from is not None and not kind.one_shares_class)
    ):
        reasons.append("the deal is carried out in another way than its request asks for")
    if deal.choice is not None and not _follows(deal.choice, terms, agreed_on):
        reasons.append("the deal gives a reason for its method that does not follow from its terms")
    reasons += [problem.sentence for problem in request.method.refusals(proposal)]
    if product_of(terms) is ANSWER:
        reasons += against_number(policy, terms, card, ledger, runs=runs)
    if terms.source is not None:
        reasons += against_roll_up(_binding(policy, card, ledger).get(terms.source), terms)
    else:
        against = [against_second(each, terms) for each in _earlier(policy, request, card, ledger)]
        fewest: list[str] = min(against, key=len, default=[])
        reasons += fewest
    return tuple(dict.fromkeys(reasons))


def _contributed(request: Request, card: SchemaCard) -> tuple[Contribution, ...]:
    """Return the party's columns among those wanted, except those for which the request names another contributor."""
    holder = KINDS[request.kind].holder(card.party)
    found = []
    for name in request.contributed:
        column = card.column(name)
        if column is not None and request.providers.get(name, card.party) == card.party:
            declared: Role = "attribute" if column.role == "attribute" else "sensitive"
            found.append(Contribution(name, holder, request.outcomes.get(name, declared)))
    return tuple(found)


def priced_columns(request: Request, card: SchemaCard) -> list[str]:
    """Return the columns that a party is paid for: those that it contributes, and the class if it holds it."""
    name = request.class_name
    holds_class = name is not None and card.column(name) is not None
    return [column.name for column in _contributed(request, card)] + ([name] if holds_class and name else [])


def _earlier(policy: Policy, request: Request, card: SchemaCard, ledger: Ledger) -> tuple[Terms, ...]:
    """Return the terms of the releases that a further one must repeat or be made of, if it has groups to cut."""
    if policy.allow_rerelease or not request.method.makes.has_groups:
        return ()
    return tuple(_binding(policy, card, ledger).values())


def _binding(policy: Policy, card: SchemaCard, ledger: Ledger) -> dict[str, Terms]:
    """Return the terms of this snapshot's releases by their hash; what is declined too often is one of them."""
    released, declined = _shown(card, ledger)
    return released | dict([*declined.items()][policy.max_declined :])


def _declines(policy: Policy, request: Request, card: SchemaCard, ledger: Ledger) -> int | None:
    """Return how many releases of this snapshot may still be declined; None where no release binds a later one."""
    if policy.allow_rerelease or not request.method.makes.has_groups:
        return None
    return max(policy.max_declined - len(_shown(card, ledger)[1]), 0)


def _shown(card: SchemaCard, ledger: Ledger) -> tuple[dict[str, Terms], dict[str, Terms]]:
    """Return the terms of what was released of this snapshot, and of what was declined, by their hash.

    Roll-ups add nothing to intersect, and the same terms declined twice show the same groups.
    """
    if card.snapshot is None:
        return {}, {}
    released, declined = (
        {
            each.terms.hash.hex(): each.terms
            for each in found
            if each.terms.source is None and product_of(each.terms).has_groups
        }
        for found in (
            ledger.of_snapshot(card.dataset, card.snapshot),
            ledger.declined_of(card.dataset, card.snapshot),
        )
    )
    return released, {name: terms for name, terms in declined.items() if name not in released}


def _permitted(
    policy: Policy, request: Request, mine: Sequence[Contribution], schema: Schema | None
) -> AskedMethod:
    """Return what is asked for, without the methods that this party would refuse; if it refuses all, all of them."""
    left = request.method.restricted(
        lambda each: not any(against_method(policy, each)) and not any(against_schema(each, mine, schema))
    )
    return left if left.possible else request.method


def _follows(choice: MethodChoice, terms: Terms, proposal: Proposal) -> bool:
    """Return whether a choice is the one among the methods that it names; whom others do not allow, they know."""
    told = [each for each in choice.passed_over if each.refuses]
    refusing = [each.method for each in told]

    def named(method: SessionMethod) -> bool:
        ways = method.ways(proposal, terms.class_name)
        return written_method(method) in refusing or terms.method in map(written_method, ways)

    try:
        left = unnamed_method(terms.kind).as_agreed(terms.method).restricted(named)
    except ParameterError:  # words that the choice does not have
        return False
    if not left.possible:
        return False
    agreed = left.agreed(proposal, terms.class_name)
    return (
        agreed.choice is not None
        and written_method(agreed.method) == terms.method
        and agreed.choice.because == choice.because
        and [*agreed.choice.passed_over] == told
    )


def _draft(
    request: Request,
    method: AskedMethod,
    card: SchemaCard,
    mine: Sequence[Contribution],
    parts: Sequence[GroupRequirement],
    m: int,
    limits: tuple[AttributeTerms, ...],
) -> Terms:
    """Return the terms of a request as far as this party knows them; see further_releases.py."""
    own = {column.name: column for column in mine}
    return Terms(
        provisions=(Provision(card.party, card.dataset, card.snapshot or "", card.schema),),
        columns=tuple(own.get(name) or Contribution(name, "", "attribute") for name in request.contributed),
        requirements=tuple(map(written_requirement, parts)),
        method=written_method(method.agreed(Proposal(tuple(parts), m), request.class_name).method),
        class_name=request.class_name,
        normalize=request.normalize,
        kind=request.kind,
        m=m,
        attributes=limits,
    )


def _as_agreed(
    earlier: Terms,
    request: Request,
    method: AskedMethod,
    card: SchemaCard,
    mine: Sequence[Contribution],
    draft: Terms,
) -> tuple[AskedMethod, Terms]:
    """Return the draft with what was agreed for an earlier release: whoever wishes for less gets that again.

    So does whoever leaves the method open, if it may be the one of that release.
    """
    parts = strictest([*draft.parts, *agreed_before(earlier, request.released)], request.kind)
    m = max(draft.m, earlier.m) if request.kind == earlier.kind else draft.m
    known = Proposal(parts, m)
    again = method.restricted(
        lambda each: any(
            written_method(way) == earlier.method for way in each.ways(known, request.class_name)
        )
    )
    method = again if again.possible else method
    limits = draft.attributes
    if request.kind == earlier.kind and request.method.makes.has_groups:
        limits = joint_terms(mine, [limits, earlier.attributes])
    return method, _draft(request, method, card, mine, parts, m, limits)


def _insisted(policy: Policy, request: Request, mine: Sequence[Contribution]) -> tuple[GroupRequirement, ...]:
    """Return the wished requirements, with a k that is large enough over every QID, and those that the policy adds.

    Of a model or an answer no group is released that could be too small: these are granted by name.
    """
    if not request.method.makes.has_groups:
        return request.privacy
    wanted = set(request.attributes)
    own = [column.name for column in mine if column.role == "attribute"]
    parts = [*request.privacy, *(part for part, _ in triggered(policy, request, own) if part is not None)]
    qids = [part.qid for part in parts]
    qids += [pattern.qid for pattern in policy.patterns if wanted >= set(pattern.qid)]
    qids += [tuple(own)] if own else []  # nothing of this party's is released outside a QID
    return strictest([*parts, *(KAnonymity(qid, policy.least(qid)) for qid in qids)], request.kind)
