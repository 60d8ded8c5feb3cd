"""A policy's answer to a request: an offer with everything the party insists on, or a refusal with every reason.

An offer contains what was wished, so a party answers a counter-offer as it answers a request. Answering its own offer
adds nothing, which is why a negotiation ends. Before a party signs, `accepts` holds the finished deal, which others put
together, against the policy once more, by the same objections. The reasons themselves are in objections.py and
further_releases.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from masquerade.arrangement import ARRANGEMENTS
from masquerade.data import Schema
from masquerade.errors import ParameterError
from masquerade.methods import product_of, unnamed_method, written_method
from masquerade.privacy import GroupRequirement, KAnonymity
from masquerade.protocol import (
    AskedMethod,
    AttributeTerms,
    Contribution,
    MethodChoice,
    Proposal,
    Role,
    SessionMethod,
    proposal_of,
    written_requirement,
)
from masquerade.service.agree.arrangements import RULES, SessionRules
from masquerade.service.agree.boundaries import joint_terms, offered_terms
from masquerade.service.agree.further_releases import (
    against_roll_up,
    against_second,
    agreed_before,
    as_released,
    differences,
    rolls_up,
)
from masquerade.service.agree.objections import (
    against_alignments,
    against_guarded_class,
    against_method,
    against_number,
    against_request,
    against_schema,
    against_snapshot,
    shown_before,
    triggered,
    unfit_columns,
)
from masquerade.service.agree.policy import Policy
from masquerade.service.agree.request import Request
from masquerade.service.agree.terms import Deal, Offer, Provision, Refusal, ServiceLevel, Terms, strictest
from masquerade.service.cards import SchemaCard
from masquerade.service.ledger import Ledger


@dataclass(frozen=True)
class _Party:
    """One party before one request, or a deal read as one: what it judges by, and its columns that are wanted."""

    policy: Policy
    asked: Request
    card: SchemaCard
    ledger: Ledger
    now: int  # seconds since 1970
    schema: Schema | None

    @property
    def rules(self) -> SessionRules:
        return RULES[self.asked.arrangement]

    @property
    def has_groups(self) -> bool:
        return self.asked.method.makes.has_groups

    @cached_property
    def mine(self) -> tuple[Contribution, ...]:
        return _contributed(self.asked, self.card)

    @property
    def attributes(self) -> list[str]:
        """Those of its columns that are generalised."""
        return [column.name for column in self.mine if column.role == "attribute"]

    def shown(self) -> tuple[dict[str, Terms], dict[str, Terms]]:
        """Return the terms of what was released of this snapshot, and of what was declined, by their hash.

        Roll-ups add nothing to intersect, and the same terms declined twice show the same groups.
        """
        if self.card.snapshot is None:
            return {}, {}
        of = self.card.dataset, self.card.snapshot
        released, declined = (
            {
                each.terms.hash.hex(): each.terms
                for each in found
                if each.terms.source is None and product_of(each.terms).has_groups
            }
            for found in (self.ledger.of_snapshot(*of), self.ledger.declined_of(*of))
        )
        return released, {name: terms for name, terms in declined.items() if name not in released}

    @property
    def binding(self) -> dict[str, Terms]:
        """The terms of this snapshot's releases by their hash; what is declined too often is one of them."""
        released, declined = self.shown()
        return released | dict([*declined.items()][self.policy.max_declined :])

    @property
    def earlier(self) -> tuple[Terms, ...]:
        """The terms of the releases that a further one must repeat or be made of, if it has groups to cut."""
        return () if self.policy.allow_rerelease or not self.has_groups else tuple(self.binding.values())


@dataclass(frozen=True)
class _Draft:
    """What a party would offer, should nothing speak against it."""

    terms: Terms  # as far as this party knows them; see further_releases.py
    method: AskedMethod  # what is left of the choice, if there is one
    contradictions: tuple[str, ...]  # of boundaries
    repeats: Terms | None = None  # the earlier release that it comes nearest to, if one binds it
    coarser: str | None = None  # the hash of one from which it could be made instead


def answer(
    policy: Policy,
    request: Request,
    card: SchemaCard,
    ledger: Ledger,
    now: int,
    schema: Schema | None = None,
    source: str | None = None,
) -> Offer | Refusal:
    """Return the policy's answer. The table must have been read: the card names its snapshot.

    `schema` says how the dataset's attributes are generalised; without it, the checks that depend on it are skipped.
    With `source` the release of those terms is to be rolled up.
    """
    party = _Party(policy, request.resting_on(policy.least_people(request)), card, ledger, now, schema)
    draft = _drafted(party, source)
    reasons = [*draft.contradictions, *_objections(party, draft.terms)]
    second, earlier, instead = list[str](), None, dict[str, Any]()
    if source is not None:
        second = against_roll_up(draft.repeats, draft.terms)
    elif draft.repeats is not None and (second := against_second(draft.repeats, draft.terms)):
        earlier = draft.coarser if not reasons else None
        instead = as_released(draft.repeats, draft.terms)
    reasons += second
    if not reasons:
        return _offered(party, draft, source)
    if request.algorithm is not None:  # where the method is left open, it can take every column
        unfit = {name for name, _ in unfit_columns(request, card)}
        own = (column for column in party.mine if column.role == "attribute")
        unfit |= {each.name for each in own if any(against_schema(request.method, [each], schema))}
        if unfit:
            instead["attributes"] = [name for name in request.attributes if name not in unfit]
    return Refusal(card.party, tuple(dict.fromkeys(reasons)), earlier=earlier, instead=instead)


def accepts(
    policy: Policy,
    deal: Deal,
    card: SchemaCard,
    ledger: Ledger,
    now: int,
    schema: Schema | None = None,
    *,
    runs: bool = False,
) -> tuple[str, ...]:
    """Return the reasons why the policy does not let the party sign this deal, or run it now; empty when it may.

    The coordinator put the deal together and is not trusted: everything that concerns this party is recomputed. The
    objections are those to a request, over the whole terms instead of this party's draft of them.
    """
    terms = deal.terms
    try:
        request = deal.asked
        _ = terms.parts  # raises now if the requirements are unreadable
    except ParameterError as error:
        return error.lines
    party = _Party(policy, request.resting_on(policy.least_people(request)), card, ledger, now, schema)
    draft = _drafted(party, terms.source)
    reasons = [*draft.contradictions, *_objections(party, terms, runs=runs)]
    if terms.source is not None:
        reasons += against_roll_up(party.binding.get(terms.source), terms)
    else:  # another of them may be repeated than the one that the draft comes nearest to
        nearest = min(party.earlier, key=lambda each: len(differences(each, terms)), default=None)
        reasons += against_second(nearest, terms) if nearest is not None else []
    provision = terms.provision(card.party)
    changed = provision is not None and provision.snapshot != card.snapshot
    if not reasons:
        offered = _offered(party, draft, terms.source)
        reasons += _departures(deal, offered, card.party, same_snapshot=not changed)
    if changed:
        reasons.insert(0, f"{card.dataset} has changed: the contract is about another snapshot of it")
    reasons += _carried_out(deal, request)
    return tuple(dict.fromkeys(reasons))


# --- objections: the same to a request, over a draft of its terms, and to a deal, over the terms that it has ---


def _objections(party: _Party, terms: Terms, *, runs: bool = False) -> Iterator[str]:
    """Yield what policy and table have against what is asked for; `runs` when it would run now."""
    policy, asked, card, mine = party.policy, party.asked, party.card, party.mine
    yield from against_request(policy, asked, card, mine, party.now)
    yield from party.rules.reservations(policy, asked, card)
    yield from against_schema(asked.method, mine, party.schema)
    yield from against_snapshot(policy, card, party.ledger, party.now)
    yield from against_number(policy, terms, card, party.ledger, runs=runs)
    if runs or not shown_before(terms, card, party.ledger):
        peers = (*terms.parties, *asked.providers.values())  # those that are known: an offer is made before all are
        yield from against_alignments(policy, terms, peers, card, party.ledger, party.now)
    if not policy.allow_rerelease:
        yield from against_guarded_class(terms, card, party.ledger)


def _departures(deal: Deal, offered: Offer, party: str, *, same_snapshot: bool) -> Iterator[str]:
    """Yield what the deal has otherwise than this party offers it."""
    terms = deal.terms
    if same_snapshot and terms.provision(party) != offered.provision:
        yield "the deal is about another dataset or schema than the one offered"
    holder = RULES[terms.arrangement].holder(party)
    if {*offered.columns} != {column for column in terms.columns if column.holder == holder}:
        yield "the deal asks for other columns than those offered"
    covers, parts = ARRANGEMENTS[terms.arrangement].covers, terms.parts
    for part in (*offered.parts, *offered.joint_parts(terms.columns)):
        if not any(covers(each, part) for each in parts):
            yield f"the deal lacks {part}, which the policy insists on"
    own = {column.name for column in offered.columns}
    limits, level = {each for each in terms.attributes if each.name in own}, deal.service.get(party, ServiceLevel())
    shares_class = terms.class_from == party and not offered.shares_class
    shows = deal.show_progress and not offered.show_progress
    people = deal.asked.min_records
    for departs, how in (
        (people < offered.min_records, f"has min_records = {people}; the policy insists on {offered.min_records}"),
        (terms.m < offered.m, f"has m = {terms.m}; the policy insists on {offered.m}"),
        (limits != {*offered.attributes}, "has other boundaries than offered"),
        ({*terms.axes} != {*offered.axes}, "generalises attributes in another way than offered"),
        (deal.prices.get(party) != offered.price, "names another price than the one offered"),
        (level != offered.service, "promises another service level than the one offered"),
        (shares_class, "has this party share the class, which the policy does not allow"),
        (shows, "shows the coordinator the progress, which the policy does not allow"),
    ):
        if departs:
            yield f"the deal {how}"


def _carried_out(deal: Deal, asked: Request) -> Iterator[str]:
    """Yield what is wrong with how a deal is carried out, whatever this party offers: its method, above all."""
    terms = deal.terms
    proposal = proposal_of(terms.contract(""))
    agreed_on = replace(proposal, parts=terms.parts)
    if (
        terms.method != written_method(asked.method.agreed(agreed_on, terms.class_name).method)
        or terms.normalize != asked.normalize
        or (terms.class_from is not None and not RULES[terms.arrangement].one_shares_class)
    ):
        yield "the deal is carried out in another way than its request asks for"
    if deal.choice is not None and not _follows(deal.choice, terms, agreed_on):
        yield "the deal gives a reason for its method that does not follow from its terms"
    for problem in asked.method.refusals(proposal):
        yield problem.sentence


# --- what is offered ---


def _drafted(party: _Party, source: str | None) -> _Draft:
    """Return what the party would offer: what is wished, what its policy adds, and what earlier releases bind it to."""
    policy, asked = party.policy, party.asked
    m, limits, contradictions = 0, tuple[AttributeTerms, ...](), list[str]()
    if party.has_groups:  # otherwise nothing shows a value of a column, however general
        m = party.rules.least_m(policy, asked)
        limits, contradictions = offered_terms(party.mine, party.schema, policy.boundaries, asked.terms)
    left = asked.method.restricted(
        lambda each: not any(against_method(policy, each)) and not any(against_schema(each, party.mine, party.schema))
    )
    method = left if left.possible else asked.method  # a party that refuses all of them says why
    wrong = tuple(contradictions)
    terms = _terms(party, method, _insisted(party), m, limits)
    before = party.earlier
    if source is not None:
        known = party.binding.get(source)
        before = () if known is None else (known,)
    if not before:
        return _Draft(terms, method, wrong)
    again = [(each, *_as_agreed(each, party, method, terms)) for each in before]
    nearest, method, terms = min(again, key=lambda each: len(differences(each[0], each[2])))
    coarser = (each.hash.hex() for each, _, same in again if rolls_up(each, same))
    return _Draft(terms, method, wrong, nearest, next(coarser, None))


def _offered(party: _Party, draft: _Draft, source: str | None) -> Offer:
    """Return a draft as an offer, with everything around it that the policy says."""
    policy, asked, card, rules = party.policy, party.asked, party.card, party.rules
    holds_class = asked.class_name is not None and card.column(asked.class_name) is not None
    return Offer(
        provision=draft.terms.provisions[0],
        columns=party.mine,
        requirements=draft.terms.requirements,
        price=rules.price(policy.price.listed, card, priced_columns(asked, card)),
        holds_class=holds_class,
        # A model's class stays where it is: its holder computes with it.
        shares_class=holds_class and (policy.share_class or not party.has_groups),
        records=card.records if policy.publish_records else None,
        needs_approval=policy.needs_approval,
        show_progress=policy.show_progress,
        arrangement=asked.arrangement,
        m=draft.terms.m,
        axes=rules.axes(party.schema, {*party.attributes}),
        attributes=draft.terms.attributes,
        min_records=asked.min_records,
        joint_k=rules.joint_k(policy, asked) if party.has_groups else 0,
        service=policy.service,
        methods=tuple(map(written_method, draft.method.possible)) if asked.algorithm is None else (),
        # So many releases of this snapshot may still be declined; None where no release binds a later one
        declines=max(policy.max_declined - len(party.shown()[1]), 0)
        if source is None and party.has_groups and not policy.allow_rerelease
        else None,
    )


def _contributed(request: Request, card: SchemaCard) -> tuple[Contribution, ...]:
    """Return the party's columns among those wanted, except those for which the request names another contributor."""
    holder = RULES[request.arrangement].holder(card.party)
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


def _follows(choice: MethodChoice, terms: Terms, proposal: Proposal) -> bool:
    """Return whether a choice is the one among the methods that it names; whom others do not allow, they know."""
    told = [each for each in choice.passed_over if each.refuses]
    refusing = [each.method for each in told]

    def named(method: SessionMethod) -> bool:
        ways = method.ways(proposal, terms.class_name)
        return written_method(method) in refusing or terms.method in map(written_method, ways)

    try:
        left = unnamed_method(terms.arrangement).as_agreed(terms.method).restricted(named)
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


def _terms(
    party: _Party, method: AskedMethod, parts: Sequence[GroupRequirement], m: int, limits: tuple[AttributeTerms, ...]
) -> Terms:
    """Return the terms of a request as far as this party knows them; see further_releases.py."""
    asked, card = party.asked, party.card
    own = {column.name: column for column in party.mine}
    return Terms(
        provisions=(Provision(card.party, card.dataset, card.snapshot or "", card.schema),),
        columns=tuple(own.get(name) or Contribution(name, "", "attribute") for name in asked.contributed),
        requirements=tuple(map(written_requirement, parts)),
        method=written_method(method.agreed(Proposal(tuple(parts), m), asked.class_name).method),
        class_name=asked.class_name,
        normalize=asked.normalize,
        arrangement=asked.arrangement,
        m=m,
        attributes=limits,
    )


def _as_agreed(earlier: Terms, party: _Party, method: AskedMethod, draft: Terms) -> tuple[AskedMethod, Terms]:
    """Return the draft with what was agreed for an earlier release: a wish for less gets that again.

    So does a request that leaves the method open, if it may be the one of that release.
    """
    asked = party.asked
    parts = strictest([*draft.parts, *agreed_before(earlier, asked.released)], asked.arrangement)
    m, limits = draft.m, draft.attributes
    if asked.arrangement == earlier.arrangement:
        m = max(m, earlier.m)
        limits = joint_terms(party.mine, [limits, earlier.attributes]) if party.has_groups else limits
    known = Proposal(parts, m)
    again = method.restricted(
        lambda each: any(written_method(way) == earlier.method for way in each.ways(known, asked.class_name))
    )
    method = again if again.possible else method
    return method, _terms(party, method, parts, m, limits)


def _insisted(party: _Party) -> tuple[GroupRequirement, ...]:
    """Return the wished requirements, with a k that is large enough over every QID, and those that the policy adds.

    Of a model or an answer no group is released that could be too small: these are granted by name.
    """
    policy, asked, own = party.policy, party.asked, party.attributes
    if not party.has_groups:
        return asked.privacy
    parts = [*asked.privacy, *(part for part, _ in triggered(policy, asked, own) if part is not None)]
    qids = [part.qid for part in parts]
    qids += [pattern.qid for pattern in policy.patterns if {*asked.attributes} >= {*pattern.qid}]
    qids += [tuple(own)] if own else []  # nothing of this party's is released outside a QID
    return strictest([*parts, *(KAnonymity(qid, policy.least(qid)) for qid in qids)], asked.arrangement)
