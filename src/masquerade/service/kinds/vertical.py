"""Vertical sessions: the parties hold different columns about the same people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from masquerade.errors import Problem
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.method import Proposal
from masquerade.service.card import SchemaCard
from masquerade.service.control import PublishedDataset
from masquerade.service.fitness import unfit_problems
from masquerade.service.kinds.horizontal import Horizontal
from masquerade.service.kinds.kind import (
    THE_REQUEST,
    Available,
    Match,
    Reason,
    SessionRules,
    holders_of,
    not_offered,
    refused,
)
from masquerade.service.offers import Offer
from masquerade.service.policy import Policy
from masquerade.service.request import Request
from masquerade.service.terms import Price, PriceList, Terms


class Vertical(SessionRules):
    """A party takes part if it contributes a column, be it the class alone; the common records are released."""

    name: ClassVar[Arrangement] = "vertical"
    title: ClassVar[str] = "mashup"
    everybody: ClassVar[str] = "all common records"
    of_a_party: ClassVar[str] = "the records that all parties have"
    one_shares_class: ClassVar[bool] = True
    each_bounds_records: ClassVar[bool] = True

    def match(self, request: Request, available: Available) -> Match:
        """Match each party with one dataset that has everything the party contributes."""
        holders = {name: holders_of(name, available) for name in request.released}
        problems: list[Problem] = []
        wanted: dict[str, list[str]] = {}  # by party: what it contributes
        # Several parties with all columns may hold different people.
        alike = not Horizontal().match(request, available).problems
        for name in request.contributed:
            chosen = _chosen(name, holders[name], request, problems, alike=alike)
            if chosen is not None:
                wanted.setdefault(chosen, []).append(name)
        sharer = _sharer(request, holders, wanted, problems)
        if sharer is not None:
            wanted.setdefault(sharer, [])
        datasets = {
            party: dataset
            for party, names in wanted.items()
            if (dataset := _dataset(party, names, request.class_name, available[party], problems)) is not None
        }
        problems += _about_all(request, holders, wanted, available)
        for party, dataset in datasets.items():
            card = next(each.card for each in available[party] if each.card.dataset == dataset)
            problems += unfit_problems(request, card)
        if not problems:
            holder = {name: party for party, names in wanted.items() for name in names}
            known = Proposal(request.privacy, parties=tuple(sorted(wanted)), holder=holder)
            # A policy may still add what a requirement lacks.
            problems += [each for each in refused(request, known) if each.key != ("privacy",)]
        return Match(holders, datasets, tuple(dict.fromkeys(problems)))

    def holder(self, party: str) -> str:
        """The party itself."""
        return party

    def joint_k(self, policy: Policy, request: Request) -> int:
        """Return the policy's least k over all wanted columns, unless it is content with the QIDs asked for."""
        return policy.least(request.attributes) if policy.joint_qid == "all" else 0

    def price(self, prices: PriceList, card: SchemaCard, names: Sequence[str]) -> Price:
        """Return a fixed sum for the columns, and a rate for each common record."""
        return Price(sum(map(prices.of, names)), prices.per_record)

    def conflicts(self, request: Request, offers: Sequence[Offer], *, complete: bool) -> Iterator[Reason]:
        """Yield columns that no party or several contribute, and a class that not all parties know."""
        yield from _about_holders(request, offers, complete=complete)
        yield from _about_class(request, offers, complete=complete)

    def records(self, offers: Sequence[Offer | SchemaCard]) -> int | None:
        """Return the smallest stated number: no more records are common than any party has."""
        return min((offer.records for offer in offers if offer.records is not None), default=None)

    def few_records(self, offers: Sequence[Offer], records: int) -> str:
        """Name the party that has the fewest."""
        fewest = next(offer.party for offer in offers if offer.records == records)
        return f"{fewest} has at most {records} records, and no more can be common"

    def class_from(self, request: Request, offers: Sequence[Offer]) -> str | None:
        """Return the party that the request names, or else the one that holds the class; None if all hold it."""
        if request.class_name is None:
            return None
        named = request.providers.get(request.class_name)
        if named is None and not all(offer.holds_class for offer in offers):
            return next(offer.party for offer in offers if offer.holds_class)
        return named

    def figures(self, terms: Terms, records: int) -> dict[str, Any]:
        """Return the number of common records."""
        return {"kind": self.name, "common_records": records}


def _chosen(
    name: str, holders: Sequence[str], request: Request, problems: list[Problem], *, alike: bool
) -> str | None:
    named = request.providers.get(name)
    if named is not None:
        if named not in holders:
            others = f"; it is held by {', '.join(holders)}" if holders else ""
            text = f'"{named}" does not offer "{name}"{others}'
            problems.append(Problem(text, key=("providers", name)))
            return None
        return named
    if len(holders) > 1:
        text = f'"{name}" is held by {" and ".join(holders)}; name one of them in providers'
        text += ', or ask for the people of all with kind = "horizontal"' if alike else ""
        problems.append(Problem(text, key=("attributes",)))
        return None
    return holders[0] if holders else None


def _sharer(
    request: Request,
    holders: Mapping[str, Sequence[str]],
    wanted: Mapping[str, Sequence[str]],
    problems: list[Problem],
) -> str | None:
    """Return the party that takes part to share the class: the named one, or the holder if no other party has it."""
    name = request.class_name
    if name is None or (name not in request.providers and set(holders[name]) & set(wanted)):
        return None
    return _chosen(name, holders[name], request, problems, alike=False)


def _dataset(
    party: str,
    names: Sequence[str],
    class_name: str | None,
    datasets: Sequence[PublishedDataset],
    problems: list[Problem],
) -> str | None:
    """Return the one dataset of a party that has all of these columns; of several, one with the class."""
    able = [each.card for each in datasets if all(each.card.column(name) is not None for name in names)]
    if not able:
        held = ", ".join(sorted(each.card.dataset for each in datasets))
        text = f"no dataset of {party} ({held}) has all of {', '.join(names)}"
        text += "; a session takes one dataset of each party"
        problems.append(Problem(text, key=("attributes",)))
        return None
    with_class = [card for card in able if class_name is not None and card.column(class_name) is not None]
    return (with_class or able)[0].dataset


def _about_all(
    request: Request,
    holders: Mapping[str, Sequence[str]],
    wanted: Mapping[str, Sequence[str]],
    available: Available,
) -> list[Problem]:
    problems = [
        not_offered(request.key_of(name), name, available)
        for name in request.contributed
        if not holders[name]
    ]
    if request.class_name is not None:
        held = holders[request.class_name]
        if not held:
            problems.append(not_offered("class", request.class_name, available))
    if not problems and len(wanted) == 1:
        text = f"all are {next(iter(wanted))}'s; a mashup needs columns of at least two parties"
        problems.append(Problem(text, key=("attributes",)))
    return problems


def _about_holders(request: Request, offers: Sequence[Offer], *, complete: bool) -> Iterator[Reason]:
    for name in request.contributed:
        holders = [offer.party for offer in offers if any(column.name == name for column in offer.columns)]
        if len(holders) > 1:
            for holder in holders:
                yield holder, f'"{name}": {" and ".join(holders)} have it; name one contributor in providers'
        elif not holders and complete:
            yield THE_REQUEST, f'no party contributes "{name}"'


def _about_class(request: Request, offers: Sequence[Offer], *, complete: bool) -> Iterator[Reason]:
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
