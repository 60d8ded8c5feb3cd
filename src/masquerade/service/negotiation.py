"""From the parties' answers to one deal that every policy accepts, or to all the reasons why there is none.

The requirement is the strictest of all: whatever anybody insists on holds, and what another part covers is left out. In
a horizontal session so is m, the number of colluding providers.
When an answer lacks something that another party insists on, the joint requirement goes back as a counter-offer. A
policy only ever adds to what it is asked, over QIDs of a finite set, so this ends, as a rule in the second or third
round. The order of the answers does not matter. No I/O here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from masquerade.errors import ParameterError
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.contract import (
    EVERYBODY,
    Contribution,
    written_requirement,
)
from masquerade.protocol.party import ASSEMBLER
from masquerade.protocol.remote_sensitive import refuse_remote_sensitive
from masquerade.service.answering import Offer, Refusal
from masquerade.service.horizontal import collaboration_of, different, unsuitable
from masquerade.service.request import Request
from masquerade.service.terms import Deal, Terms, cost, covering, read_parts, strictest

MOST_ROUNDS = 8
THE_REQUEST = "request"  # whose reasons are nobody's but the request's own

Reasons = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Agreed:
    """Every party offered exactly this."""

    deal: Deal


@dataclass(frozen=True)
class CounterOffer:
    """The joint requirement, which not all have answered yet: send `request` to all parties again."""

    request: Request
    price: int  # what it would cost at most, in cents
    insisted: Mapping[str, tuple[GroupRequirement, ...]]  # by party: what it added to the round before


@dataclass(frozen=True)
class Refused:
    """Every reason of every party; those of `THE_REQUEST` are about the whole. `busy`: may work out later."""

    reasons: Reasons
    busy: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """One line a reason."""
        return tuple(f"{who}: {reason}" for who, each in self.reasons.items() for reason in each)


def negotiate(
    request: Request, answers: Iterable[Offer | Refusal], earlier: Sequence[CounterOffer] = ()
) -> Agreed | CounterOffer | Refused:
    """One round. `answers` are to the last of the `earlier` counter-offers, or to the request when there is none."""
    by_party = [_readable(each) for each in _by_party(answers)]
    offers = [each for each in by_party if isinstance(each, Offer)]
    asked = earlier[-1].request.privacy if earlier else request.privacy
    offered = [part for offer in offers for part in offer.parts]
    joint = strictest([*request.privacy, *asked, *offered], request.kind)
    m = max([request.colluding, *(offer.m for offer in offers)])
    refusals = [each for each in by_party if isinstance(each, Refusal)]
    reasons: dict[str, list[str]] = {each.party: list(each.reasons) for each in refusals}
    for who, reason in _conflicts(request, offers, joint, complete=not refusals):
        reasons.setdefault(who, []).append(reason)
    if request.is_horizontal:
        for who, reason in _about_providers(request, offers, joint, m, complete=not refusals):
            reasons.setdefault(who, []).append(reason)
    if reasons:
        whole = {who: tuple(dict.fromkeys(reasons[who])) for who in sorted(reasons)}
        return Refused(whole, set(whole) == {each.party for each in refusals if each.busy})
    covers = covering(request.kind)
    insisted = {
        offer.party: tuple(part for part in offer.parts if not any(covers(each, part) for each in asked))
        for offer in offers
    }
    if all(offer.parts == joint and offer.m == m for offer in offers):
        return Agreed(_deal(request, offers, joint, m))
    if len(earlier) >= MOST_ROUNDS:
        return Refused(
            {
                offer.party: (
                    f"still asks for more after {MOST_ROUNDS} rounds: {_listed(insisted[offer.party])}",
                )
                for offer in offers
                if insisted[offer.party]
            }
            or {THE_REQUEST: (f"no agreement after {MOST_ROUNDS} rounds",)}
        )
    price = cost((offer.price for offer in offers), _records(request, offers))
    return CounterOffer(request.wishing(joint, m), price, insisted)


def _by_party(answers: Iterable[Offer | Refusal]) -> list[Offer | Refusal]:
    found = sorted(answers, key=lambda each: each.party)
    for first, second in pairwise(found):
        if first.party == second.party:
            raise ParameterError(f"party {first.party} answered twice")
    return found


def _readable(given: Offer | Refusal) -> Offer | Refusal:
    """An offer whose requirements nobody can read is as good as a refusal."""
    if isinstance(given, Offer):
        try:
            read_parts(given.requirements, "its offer", given.kind)
        except ParameterError as error:
            return Refusal(given.party, error.lines)
    return given


def _conflicts(
    request: Request, offers: Sequence[Offer], joint: Sequence[GroupRequirement], *, complete: bool
) -> Iterator[tuple[str, str]]:
    """What stands between the offers, each with whom it concerns. Gaps count once everybody has offered."""
    if complete and len(offers) < 2:
        what = "horizontal session" if request.is_horizontal else "mashup"
        yield THE_REQUEST, f"a {what} needs at least two parties; {len(offers)} can contribute"
    if complete and not joint:
        yield THE_REQUEST, "nobody asks for a privacy requirement; give at least one [[privacy]] entry"
    for offer in offers:
        if offer.party in (ASSEMBLER, THE_REQUEST):
            yield offer.party, f'"{offer.party}" cannot name a party here; take another'
        holder = EVERYBODY if request.is_horizontal else offer.party
        foreign = [column.name for column in offer.columns if column.holder != holder]
        unasked = [column.name for column in offer.columns if column.name not in request.attributes]
        if foreign or unasked:
            yield (
                offer.party,
                f"offers columns that are not its own or not wanted: {_names([*foreign, *unasked])}",
            )
        unknown = {name for part in offer.parts for name in part.qid} - set(request.attributes)
        unknown |= {part.sensitive for part in offer.parts if part.sensitive is not None} - set(
            request.released
        )
        if unknown:
            yield offer.party, f"asks for a requirement over {_names(unknown)}, which is not wanted"
    yield from _about_roles(request, offers, joint)
    if not request.is_horizontal:
        yield from _about_holders(request, offers, complete=complete)
        yield from _about_class(request, offers, complete=complete)
    records = _records(request, offers)
    if records is not None and (complete or not request.is_horizontal):
        yield from _about_size(request, offers, joint, records)
    price = cost((offer.price for offer in offers), records)
    if price > request.budget:
        each = ", ".join(f"{offer.party} {cost([offer.price], records)}" for offer in offers)
        yield THE_REQUEST, f"costs up to {price} cents ({each}); the budget is {request.budget}"


def _about_holders(request: Request, offers: Sequence[Offer], *, complete: bool) -> Iterator[tuple[str, str]]:
    for name in request.attributes:
        holders = [offer.party for offer in offers if any(column.name == name for column in offer.columns)]
        if len(holders) > 1:
            for holder in holders:
                yield holder, f'"{name}": {" and ".join(holders)} have it; name one contributor in providers'
        elif not holders and complete:
            yield THE_REQUEST, f'no party contributes "{name}"'


def _about_roles(
    request: Request, offers: Sequence[Offer], joint: Sequence[GroupRequirement]
) -> Iterator[tuple[str, str]]:
    """Requirements that go together neither with each other nor with who holds what; told to all who ask for them."""
    columns = [column for offer in offers for column in offer.columns]
    raw = {column.name for column in columns if column.role == "sensitive"}
    raw |= {part.sensitive for part in joint if part.sensitive is not None}
    for part in joint:
        for name in part.qid:
            if name in raw:
                for who in _asking(part, request, offers):
                    yield who, f'{part}: "{name}" is sensitive and released as it is; it cannot be in a QID'
    for part, reason in refuse_remote_sensitive(joint, {column.name: column.holder for column in columns}):
        for who in _asking(part, request, offers):
            yield who, reason


def _about_size(
    request: Request, offers: Sequence[Offer], joint: Sequence[GroupRequirement], records: int
) -> Iterator[tuple[str, str]]:
    """A group of k records needs k records: where the parties' numbers show that they lack them, nobody tries."""
    fewest = next(offer.party for offer in offers if request.is_horizontal or offer.records == records)
    have = f"{fewest} has at most {records} records, and no more can be common"
    have = f"the parties have at most {records} records together" if request.is_horizontal else have
    for part in joint:
        if (part.required_size or 1) > records:
            for who in _asking(part, request, offers):
                yield who, f"{part} cannot be reached: {have}"


def _asking(part: GroupRequirement, request: Request, offers: Sequence[Offer]) -> list[str]:
    covers = covering(request.kind)
    if any(covers(each, part) for each in request.privacy):
        return [THE_REQUEST]
    return [offer.party for offer in offers if part in offer.parts]


def _about_class(request: Request, offers: Sequence[Offer], *, complete: bool) -> Iterator[tuple[str, str]]:
    name = request.class_name
    if name is None or not complete:
        return
    holding = [offer.party for offer in offers if offer.holds_class]
    named = request.providers.get(name)
    if not holding:
        yield THE_REQUEST, f'no party has the class "{name}"'
    elif named is not None and named not in holding:
        yield THE_REQUEST, f'"{named}" does not have the class "{name}"; {" and ".join(holding)} do'
    elif named is None and len(holding) == len(offers):
        return
    elif named is None and len(holding) > 1:
        yield (
            THE_REQUEST,
            f'the class "{name}" is held by {" and ".join(holding)} only; name the one who shares it in providers',
        )
    else:
        sharer = named or holding[0]
        if not any(offer.party == sharer and offer.shares_class for offer in offers):
            yield sharer, f'does not share the class "{name}" with the other parties, who do not all hold it'


def _about_providers(
    request: Request, offers: Sequence[Offer], joint: Sequence[GroupRequirement], m: int, *, complete: bool
) -> Iterator[tuple[str, str]]:
    """What providers of the same columns do not have alike, and what cannot be reached in the way that is asked for."""
    for name in request.attributes:
        roles = {
            offer.party: next((column.role for column in offer.columns if column.name == name), "none")
            for offer in offers
        }
        if len(set(roles.values())) > 1:
            each = ", ".join(f"{party} {role}" for party, role in roles.items())
            yield THE_REQUEST, f'"{name}" does not have the same role everywhere: {each}'
            continue
        axes = [(offer.party, offer.axis(name)) for offer in offers]
        if len({axis for _, axis in axes}) > 1:
            yield THE_REQUEST, different(name, axes)
    if request.class_name is not None:
        for offer in offers:
            if not offer.holds_class:
                yield offer.party, f'does not have the class "{request.class_name}", which all must have'
    if complete and joint:
        for problem in unsuitable(request, m, joint):
            yield THE_REQUEST, problem


def _deal(request: Request, offers: Sequence[Offer], joint: Sequence[GroupRequirement], m: int) -> Deal:
    held = {column.name: column for offer in offers for column in offer.columns}
    wanted = [held[name] for name in request.attributes]
    columns: list[Contribution] = sorted(wanted, key=lambda column: column.role == "sensitive")  # stable
    all_hold = all(offer.holds_class for offer in offers)
    class_from = None
    if request.class_name is not None and not request.is_horizontal:
        class_from = request.providers.get(request.class_name)
        if class_from is None and not all_hold:
            class_from = next(offer.party for offer in offers if offer.holds_class)
    terms = Terms(
        provisions=tuple(offer.provision for offer in offers),
        columns=tuple(columns),
        requirements=tuple(written_requirement(part) for part in joint),
        score=request.score_name,
        class_name=request.class_name,
        class_from=class_from,
        argmax=request.argmax,
        adversary=request.adversary,
        epsilon=request.epsilon,
        normalize=request.normalize,
        collaboration=collaboration_of(request, m, joint) if request.is_horizontal else None,
        axes=tuple(axis for column in columns if (axis := offers[0].axis(column.name)) is not None),
    )
    return Deal(
        terms=terms,
        user=request.user,
        purpose=request.purpose or "",
        recipients=request.receivers,
        prices={offer.party: offer.price for offer in offers},
        records=_records(request, offers),
        budget=request.budget,
        most_error=request.most_error,
        deadline=request.deadline,
        attempts=request.attempts,
        show_steps=request.show_steps and all(offer.show_steps for offer in offers),
    )


def _records(request: Request, offers: Sequence[Offer]) -> int | None:
    """At most so many are released: no more than any party has of common ones, and of different ones all."""
    told = [offer.records for offer in offers if offer.records is not None]
    if request.is_horizontal:
        return sum(told) if len(told) == len(offers) else None
    return min(told, default=None)


def _listed(parts: Iterable[GroupRequirement]) -> str:
    return " & ".join(map(str, parts))


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
