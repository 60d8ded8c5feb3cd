"""Horizontal sessions: the parties hold the same columns about different people, and some of them may collude.

Kinds, roles and taxonomies are compared by the cards; bounds are compared when the parties make their offers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from masquerade.data.continuum import write_number
from masquerade.data.schema import Attribute, Schema
from masquerade.data.taxonomy import Taxonomy
from masquerade.errors import Problem, hint
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.contract import EVERYBODY
from masquerade.protocol.method import Proposal
from masquerade.service.card import FLAT, ColumnCard, SchemaCard, unknown_column
from masquerade.service.card_making import fingerprint_of
from masquerade.service.control import PublishedDataset
from masquerade.service.fitness import unfit_problems
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
from masquerade.service.terms import Axis, Price, PriceList, Terms


class Horizontal(SessionRules):
    """A party takes part if it has all columns, declared alike; all records of all parties are released."""

    name: ClassVar[Arrangement] = "horizontal"
    title: ClassVar[str] = "horizontal session"
    everybody: ClassVar[str] = "all providers' records"
    of_a_party: ClassVar[str] = (
        "all of its complete records, published together with those of the other parties"
    )
    made: ClassVar[str] = "published together"

    def match(self, request: Request, available: Available) -> Match:
        """Match the datasets that have all columns and may be published together with others."""
        holders = {name: holders_of(name, available) for name in request.released}
        problems = [
            not_offered(request.key_of(name), name, available) for name, held in holders.items() if not held
        ]
        cards: dict[str, SchemaCard] = {}
        for party in request.parties or sorted(available):
            if party not in available:
                known = sorted(available)
                there = ", ".join(known) or "none"
                text = f'there is no provider "{party}"{hint(party, known)}; there are {there}'
                problems.append(Problem(text, key=("parties",)))
                continue
            card = _able(request, available[party])
            if card is not None:
                cards[party] = card
            elif request.parties:
                problems.append(Problem(_lacking(party, request, available[party]), key=("parties",)))
        wished = Proposal(
            request.privacy, request.colluding
        )  # additions by policies are checked with the offers
        problems += refused(request, wished)
        problems += [each for card in cards.values() for each in unfit_problems(request, card)]
        if not problems:
            problems += _unlike(request, cards)
        if not problems and len(cards) < 2:
            having = f"only {next(iter(cards))} has" if cards else "no party has"
            columns = ", ".join(request.released)
            text = f"{having} all of {columns}; a horizontal session needs at least two"
            problems.append(Problem(text, key=("attributes",)))
        datasets = {party: card.dataset for party, card in cards.items()}
        return Match(holders, datasets, tuple(dict.fromkeys(problems)))

    def holder(self, party: str) -> str:
        """Return the marker for all parties: each holds the column for its own people."""
        return EVERYBODY

    def least_m(self, policy: Policy, request: Request) -> int:
        """Return the larger of the request's m and the policy's `least_m`."""
        return max(request.colluding, policy.least_m or 0)

    def reservations(self, policy: Policy, request: Request, card: SchemaCard) -> Iterator[str]:
        """Yield objections to publishing together with others who have the same columns."""
        if policy.least_m is None:
            yield (
                f"{card.dataset} takes part in vertical sessions only: its policy has no least_m, "
                "the number of colluding providers that a horizontal release must withstand"
            )
        if request.parties and card.party not in request.parties:
            yield f"is none of the parties that are to publish together: {', '.join(request.parties)}"
        for name in request.released:
            if card.column(name) is None:
                yield unknown_column(card, name)

    def axes(self, schema: Schema | None, names: set[str]) -> tuple[Axis, ...]:
        """Return how these columns are generalised, which all parties must do alike."""
        return tuple(axis for axis in axes_of(schema or Schema(())) if axis.name in names)

    def price(self, prices: PriceList, card: SchemaCard, names: Sequence[str]) -> Price:
        """Return a fixed price that includes the per-record rate: all of a party's records are released."""
        return Price(sum(map(prices.of, names)) + prices.per_record * (card.records or 0))

    def conflicts(self, request: Request, offers: Sequence[Offer], *, complete: bool) -> Iterator[Reason]:
        """Yield the columns on which the providers differ."""
        for name in request.contributed:
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
                yield THE_REQUEST, _unlike_axes(name, axes)
        if request.class_name is not None:
            for offer in offers:
                if not offer.holds_class:
                    yield offer.party, f'does not have the class "{request.class_name}", which all must have'

    def records(self, offers: Sequence[Offer | SchemaCard]) -> int | None:
        """Return the sum over all parties; None unless every party states its number."""
        known = [offer.records for offer in offers if offer.records is not None]
        return sum(known) if len(known) == len(offers) else None

    def few_records(self, offers: Sequence[Offer], records: int) -> str:
        """Explain that the limit is the sum over all parties."""
        return f"the parties have at most {records} records together"

    def figures(self, terms: Terms, records: int) -> dict[str, Any]:
        """Return m, the number of colluding providers."""
        return {"kind": self.name, "m": terms.m}


def against(m: int) -> tuple[str, ...]:
    """Return what m-privacy adds to a list of requirements, for a person."""
    return (f"all of it against any {m} colluding provider{'s' if m > 1 else ''}",) if m else ()


def axes_of(schema: Schema) -> tuple[Axis, ...]:
    """How each attribute of a dataset is generalised."""
    return tuple(_axis(attribute) for attribute in schema)


def _able(request: Request, datasets: Sequence[PublishedDataset]) -> SchemaCard | None:
    """Return a party's first dataset that has all columns and may be published together with others."""
    for each in datasets:
        if each.card.horizontal and all(each.card.column(name) is not None for name in request.released):
            return each.card
    return None


def _lacking(party: str, request: Request, datasets: Sequence[PublishedDataset]) -> str:
    names = {name for each in datasets for name in each.card.names}
    lacking = [name for name in request.released if name not in names]
    if lacking:
        return f"{party} has no {', '.join(lacking)}"
    if not any(each.card.horizontal for each in datasets):
        return f"{party} takes part in vertical sessions only"
    return f"no dataset of {party} has all of {', '.join(request.released)}; a session takes one dataset of each party"


def _unlike(request: Request, cards: dict[str, SchemaCard]) -> list[Problem]:
    """Report the columns whose kind, role or taxonomy differs between the parties."""
    problems = []
    for name in request.released:
        ways: dict[ColumnCard | None, list[str]] = {}
        for party, card in cards.items():
            ways.setdefault(card.column(name), []).append(party)
        if len(ways) > 1:
            sides = "; ".join(
                f"{', '.join(parties)} {_column_way(column)}" for column, parties in ways.items()
            )
            text = f'"{name}" is not the same everywhere: {sides}; name those that go together in parties'
            problems.append(Problem(text, key=("attributes",)))
    return problems


def _column_way(column: ColumnCard | None) -> str:
    if column is None:
        return "none"
    if column.role != "attribute":
        return f"as {column.role}"
    tree = column.taxonomy
    return f"as {column.kind}{f' with taxonomy {tree.fingerprint[:8]}' if tree is not None else ''}"


def _unlike_axes(name: str, axes: Iterable[tuple[str, Axis | None]]) -> str:
    """Describe for a person how each party generalises an attribute."""
    ways = ", ".join(f"{party} {_way(axis)}" for party, axis in axes)
    return f'"{name}" is not generalised alike: {ways}; agree on one taxonomy and the same bounds'


def _axis(attribute: Attribute) -> Axis:
    taxonomy = attribute.taxonomy
    tree: str | None = taxonomy if not isinstance(taxonomy, Taxonomy) else fingerprint_of(taxonomy)
    lower, upper = (
        None if bound is None else write_number(bound) for bound in (attribute.lower, attribute.upper)
    )
    return Axis(attribute.name, attribute.kind, tree, lower, upper)


def _way(axis: Axis | None) -> str:
    if axis is None:
        return "not at all"
    if axis.taxonomy is not None:
        return "by a flat taxonomy" if axis.taxonomy == FLAT else f"by taxonomy {axis.taxonomy[:8]}"
    bounds = [f"from {axis.lower}"] if axis.lower is not None else []
    bounds += [f"below {axis.upper}"] if axis.upper is not None else []
    return f"as {axis.kind} {' and '.join(bounds) or 'without bounds'}"
