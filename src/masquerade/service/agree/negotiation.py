"""From the parties' answers to one deal that every policy accepts, or to all the reasons why none exists.

The requirement is the strictest of all: whatever any party insists on holds, and parts covered by others are left out.
In a horizontal session the same goes for m, the number of colluding providers, and for boundaries; of a model, for the
number of people that it rests on.
When an answer lacks something that another party insists on, the joint requirement goes back as a counter-offer. A
policy only ever adds to what it is asked, over QIDs of a finite set, so this ends, as a rule in the second or third
round. The order of the answers does not matter. No I/O here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

from masquerade.arrangement import ARRANGEMENTS
from masquerade.errors import ParameterError
from masquerade.methods import written_method
from masquerade.privacy import GroupRequirement
from masquerade.protocol import (
    ASSEMBLER,
    Agreed,
    AskedMethod,
    Contribution,
    MethodChoice,
    PassedOver,
    Proposal,
    written_requirement,
)
from masquerade.service.agree.arrangements import RULES, THE_REQUEST, Reason, proposal
from masquerade.service.agree.boundaries import joint_terms
from masquerade.service.agree.request import Request
from masquerade.service.agree.terms import (
    AS_ASKED,
    Deal,
    Offer,
    Refusal,
    ServiceLevel,
    Terms,
    cost,
    names_of,
    read_parts,
    strictest,
)

MOST_ROUNDS = 8
Reasons = Mapping[str, tuple[str, ...]]
# By party: what it insists on, also over all attributes together
Offered = Mapping[str, tuple[GroupRequirement, ...]]


@dataclass(frozen=True)
class CounterOffer:
    """The joint requirement, which not all parties have answered yet: send `request` to all of them again."""

    request: Request
    price: int  # what it would cost at most, in cents
    insisted: Mapping[str, tuple[GroupRequirement, ...]]  # by party: what it added to the previous round


def said_by(reasons: Reasons) -> tuple[str, ...]:
    """Return each reason once, with the parties that give it in brackets; those of `THE_REQUEST` name nobody.

    Reasons that differ only in the name of the party that gives them are told once, of "this party".
    """
    by_text: dict[str, list[str]] = {}
    for who, each in reasons.items():
        for reason in dict.fromkeys(each):
            by_text.setdefault(reason, []).append(who)
    # By the reason without the name of the only one who gives it
    alike: dict[str, list[tuple[str, str]]] = {}
    for reason, names in by_text.items():
        common = re.sub(rf"\b{re.escape(names[0])}\b", "\0", reason) if len(names) == 1 else reason
        alike.setdefault(common, []).append((reason, ", ".join(names)))
    lines = []
    for common, told in alike.items():
        text = told[0][0] if len(told) == 1 else common.replace("\0", "this party")
        whom = ", ".join(names for _, names in told)
        lines.append(f"{THE_REQUEST}: {text}" if whom == THE_REQUEST else f"{text} ({whom})")
    return tuple(lines)


@dataclass(frozen=True)
class Refused:
    """Every reason of every party; those of `THE_REQUEST` concern the whole. `busy`: may succeed later.

    `earlier`: the hash of the terms whose release can be rolled up instead, if that is all that is against it.
    """

    reasons: Reasons
    busy: bool = False
    earlier: str | None = None
    instead: Sequence[Mapping[str, Any]] = ()  # by refusal: the keys that could be otherwise

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each reason, with everybody who gives it."""
        return said_by(self.reasons)


def negotiate(
    request: Request,
    answers: Iterable[Offer | Refusal],
    earlier: Sequence[CounterOffer] = (),
    source: str | None = None,
) -> Deal | CounterOffer | Refused:
    """Run one round, which ends in a deal when every party offers exactly that.

    `answers` are to the last of the `earlier` counter-offers, or to the request if there are none.
    With `source` the parties were asked for a roll-up of the release of those terms.
    """
    found = sorted(answers, key=lambda each: each.party)
    request = request.resting_on(max((each.min_records for each in found if isinstance(each, Offer)), default=0))
    for first, second in pairwise(found):
        if first.party == second.party:
            raise ParameterError(f"party {first.party} answered twice")
    by_party = [_readable(each) for each in found]
    offers = [each for each in by_party if isinstance(each, Offer)]
    asked = earlier[-1].request.privacy if earlier else request.privacy
    columns = [column for offer in offers for column in offer.columns]
    offered = {
        offer.party: strictest([*offer.parts, *offer.joint_parts(columns)], request.arrangement) for offer in offers
    }
    joint = strictest([*request.privacy, *asked, *chain(*offered.values())], request.arrangement)
    m = max([request.colluding, *(offer.m for offer in offers)])
    refusals = [each for each in by_party if isinstance(each, Refusal)]
    reasons: dict[str, list[str]] = {each.party: list(each.reasons) for each in refusals}
    method = request.method.restricted(  # without the methods that some party does not take
        lambda each: all(written_method(each) in offer.methods for offer in offers if offer.methods)
    )
    for who, reason in _conflicts(request, method, offers, offered, joint, m, complete=not refusals):
        reasons.setdefault(who, []).append(reason)
    if reasons:
        whole = {who: tuple(dict.fromkeys(reasons[who])) for who in sorted(reasons)}
        known = {each.earlier for each in refusals if each.party in whole}
        only = known.pop() if len(known) == 1 and {*whole} == {each.party for each in refusals} else None
        busy = set(whole) == {each.party for each in refusals if each.busy}
        return Refused(whole, busy, only, [each.instead for each in refusals if each.instead])
    covers = ARRANGEMENTS[request.arrangement].covers
    insisted = {
        party: tuple(part for part in parts if not any(covers(each, part) for each in asked))
        for party, parts in offered.items()
    }
    people = request.min_records
    if all((offered[each.party], each.m, each.min_records) == (joint, m, people) for each in offers):
        return _deal(request, method, offers, joint, m, source)
    if len(earlier) >= MOST_ROUNDS:
        more = {party: " & ".join(map(str, parts)) for party, parts in insisted.items() if parts}
        told = {party: (f"still asks for more after {MOST_ROUNDS} rounds: {parts}",) for party, parts in more.items()}
        return Refused(told or {THE_REQUEST: (f"no agreement after {MOST_ROUNDS} rounds",)})
    price = cost((offer.price for offer in offers), RULES[request.arrangement].records(offers))
    return CounterOffer(request.wishing(joint, m), price, insisted)


def _readable(given: Offer | Refusal) -> Offer | Refusal:
    """Turn an offer with unreadable requirements into a refusal."""
    if isinstance(given, Offer):
        try:
            read_parts(given.requirements, "its offer", given.arrangement)
        except ParameterError as error:
            return Refusal(given.party, error.lines)
    return given


def _conflicts(
    request: Request,
    method: AskedMethod,
    offers: Sequence[Offer],
    offered: Offered,
    joint: Sequence[GroupRequirement],
    m: int,
    *,
    complete: bool,
) -> Iterator[Reason]:
    """Yield the conflicts between the offers, each with whom it concerns. Gaps count once every party has offered."""
    rules = RULES[request.arrangement]
    if complete and len(offers) < 2:
        yield THE_REQUEST, f"a {rules.title} needs at least two parties; {len(offers)} can contribute"
    has_groups = request.method.makes.has_groups
    if complete and not joint and has_groups:
        yield THE_REQUEST, "nobody asks for a privacy requirement; give at least one [[privacy]] entry"
    for offer in offers:
        if offer.party in (ASSEMBLER, THE_REQUEST):
            yield offer.party, f'"{offer.party}" cannot name a party here; take another'
        holder = rules.holder(offer.party)
        foreign = [column.name for column in offer.columns if column.holder != holder]
        unasked = [column.name for column in offer.columns if column.name not in request.contributed]
        if foreign or unasked:
            yield offer.party, f"offers columns that are not its own or not wanted: {names_of([*foreign, *unasked])}"
        unknown = {name for part in offer.parts for name in part.qid} - set(request.attributes)
        unknown |= {part.sensitive for part in offer.parts if part.sensitive is not None} - set(request.released)
        if unknown:
            yield offer.party, f"asks for a requirement over {names_of(unknown)}, which is not wanted"
    # Requirements that conflict with who holds what, for every party that asks for them
    raw = {column.name for offer in offers for column in offer.columns if column.role == "sensitive"}
    raw |= {part.sensitive for part in joint if part.sensitive is not None}
    for part in joint:
        for name in (each for each in part.qid if each in raw):
            for who in _asking(part, request, offered):
                yield who, f'{part}: "{name}" is sensitive and released as it is; it cannot be in a QID'
    yield from rules.conflicts(request, offers, complete=complete)
    if joint or not has_groups:
        yield from _about_method(request, method, offers, offered, joint, m, complete=complete)
    records = rules.records(offers)
    if records is not None and (complete or rules.each_bounds_records):
        # A group of k records needs k records, and the parties state how many they have
        have = rules.few_records(offers, records)
        for part in (each for each in joint if (each.required_size or 1) > records):
            for who in _asking(part, request, offered):
                yield who, f"{part} cannot be reached: {have}"
    price = cost((offer.price for offer in offers), records)
    if price > request.budget:
        each = ", ".join(f"{offer.party} {cost([offer.price], records)}" for offer in offers)
        yield THE_REQUEST, f"costs up to {price} cents ({each}); the budget is {request.budget}"


def _asking(part: GroupRequirement, request: Request, offered: Offered) -> list[str]:
    covers = ARRANGEMENTS[request.arrangement].covers
    if any(covers(each, part) for each in request.privacy):
        return [THE_REQUEST]
    return [party for party, parts in offered.items() if part in parts]


def _about_method(
    request: Request,
    method: AskedMethod,
    offers: Sequence[Offer],
    offered: Offered,
    joint: Sequence[GroupRequirement],
    m: int,
    *,
    complete: bool,
) -> Iterator[Reason]:
    """Yield what the method cannot do; a requirement that it refuses concerns every party that asks for it."""
    known = proposal(joint, m, offers, complete=complete)
    if not method.ways(known, request.class_name):
        for offer in (each for each in offers if each.methods):
            names = dict.fromkeys(str(each.get("name")) for each in offer.methods)
            yield (offer.party, f"no method suits all parties; of those to choose from it takes {', '.join(names)}")
    for problem in method.refusals(known):
        if problem.key[:1] == ("privacy",):
            for who in _asking(joint[int(problem.key[1])], request, offered):
                yield who, problem.sentence
        elif complete:
            yield THE_REQUEST, problem.sentence


def _agreed_method(request: Request, method: AskedMethod, offers: Sequence[Offer], known: Proposal) -> Agreed:
    """Return the method of the deal; if it was chosen, with whose policies kept a preferred one from being it."""
    agreed = method.agreed(known, request.class_name)
    if agreed.choice is None:
        return agreed
    passed = {str(each.method): each for each in agreed.choice.passed_over}
    preferred = []
    for each in request.method.possible:
        if agreed.method in (ways := each.ways(known, request.class_name)):
            break
        written = written_method(each)
        against = tuple(offer.party for offer in offers if offer.methods and written not in offer.methods)
        if ways:  # otherwise its settings are for another session
            preferred.append(passed.get(str(written)) or PassedOver(written, not_allowed_by=against))
    return replace(agreed, choice=MethodChoice(agreed.choice.because, tuple(preferred)))


def _deal(
    request: Request,
    method: AskedMethod,
    offers: Sequence[Offer],
    joint: Sequence[GroupRequirement],
    m: int,
    source: str | None,
) -> Deal:
    held = {column.name: column for offer in offers for column in offer.columns}
    wanted = [held[name] for name in request.contributed]
    columns: list[Contribution] = sorted(wanted, key=lambda column: column.role == "sensitive")  # stable
    rules = RULES[request.arrangement]
    agreed = _agreed_method(request, method, offers, proposal(joint, m, offers, complete=True))
    terms = Terms(
        provisions=tuple(offer.provision for offer in offers),
        columns=tuple(columns),
        requirements=tuple(written_requirement(part) for part in joint),
        method=written_method(agreed.method),
        class_name=request.class_name,
        class_from=rules.class_from(request, offers),
        normalize=request.normalize,
        arrangement=request.arrangement,
        m=m,
        axes=tuple(axis for column in columns if (axis := offers[0].axis(column.name)) is not None),
        attributes=joint_terms(columns, [offer.attributes for offer in offers]),
        source=source,
    )
    return Deal(
        **{name: getattr(request, name) for name in AS_ASKED},
        terms=terms,
        purpose=request.purpose or "",
        recipients=request.receivers,
        prices={offer.party: offer.price for offer in offers},
        records=rules.records(offers),
        show_progress=request.show_progress and all(offer.show_progress for offer in offers),
        signed=request.signed,
        service={offer.party: offer.service for offer in offers if offer.service != ServiceLevel()},
        choice=agreed.choice,
    )
