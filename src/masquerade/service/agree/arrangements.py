"""What follows for a session from how its parties hold their data, by arrangement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from masquerade.arrangement import Arrangement
from masquerade.data import Schema, Taxonomy, write_number
from masquerade.errors import Problem, hint
from masquerade.privacy import GroupRequirement
from masquerade.protocol import EVERYBODY, Proposal
from masquerade.service.agree.objections import unfit_problems
from masquerade.service.agree.policy import Policy
from masquerade.service.agree.request import Request
from masquerade.service.agree.terms import AttributeDomain, Offer, Price, PriceList, Terms
from masquerade.service.cards import FLAT, ColumnCard, SchemaCard, fingerprint_of, unknown_column
from masquerade.service.wire.control import PublishedDataset

# --- kind ---------------------------------------------------------------------------------------------------
# What differs between vertical and horizontal sessions: everything that depends on what the parties hold.
#
# Discovery, policies, negotiation, contracts and figures ask the rules of the session's arrangement;
# nothing else knows how many arrangements there are. What a session computes is the method's affair
# (`masquerade.methods`).

THE_REQUEST = "request"  # the "party" of reasons that concern the request itself

Available = Mapping[str, Sequence[PublishedDataset]]  # by party: the datasets that a user may ask for
Reason = tuple[str, str]  # whom it concerns, and why


@dataclass(frozen=True)
class Match:
    """Who would contribute what; `problems` say why a request cannot be met as it stands."""

    contributors: Mapping[str, tuple[str, ...]]  # by column, including the class: the parties that hold it
    datasets: Mapping[str, str]  # by party that takes part: the dataset that it is asked for
    problems: tuple[Problem, ...]

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties that take part, in the order of the contract."""
        return tuple(sorted(self.datasets))


class SessionRules(ABC):
    """What follows for sessions whose parties hold their data in one arrangement."""

    name: ClassVar[Arrangement]
    title: ClassVar[str]  # what such a session is called in a sentence: "a …"
    everybody: ClassVar[str]  # whose records are released, as a phrase
    of_a_party: ClassVar[str]  # which of one party's records are released, as a phrase
    made: ClassVar[str] = "made"  # how a release came about, before "by" a method
    one_shares_class: ClassVar[bool] = False  # whether one party may let the others know the class
    each_bounds_records: ClassVar[bool] = False  # whether no more records are released than any party has

    # --- finding the parties ---

    @abstractmethod
    def match(self, request: Request, available: Available) -> Match:
        """Match a request with the datasets that its user may ask for."""

    # --- one party's answer ---

    @abstractmethod
    def holder(self, party: str) -> str:
        """Return the holder that a contract names for this party's columns."""

    def least_m(self, policy: Policy, request: Request) -> int:
        """Return how many colluding providers the release must withstand."""
        return 0

    def joint_k(self, policy: Policy, request: Request) -> int:
        """Return the k over the attributes of all parties together; 0 where one party's are all of them."""
        return 0

    def reservations(self, policy: Policy, request: Request, card: SchemaCard) -> Iterator[str]:
        """Yield a policy's objections to a session in this arrangement."""
        yield from ()

    def axes(self, schema: Schema | None, names: set[str]) -> tuple[AttributeDomain, ...]:
        """Return how these columns are generalised, where all parties must do it alike."""
        return ()

    @abstractmethod
    def price(self, prices: PriceList, card: SchemaCard, names: Sequence[str]) -> Price:
        """Return the price a party asks for its columns."""

    # --- the agreement ---

    @abstractmethod
    def conflicts(self, request: Request, offers: Sequence[Offer], *, complete: bool) -> Iterator[Reason]:
        """Yield the conflicts between the offers; gaps count once every party has offered."""

    @abstractmethod
    def records(self, offers: Sequence[Offer | SchemaCard]) -> int | None:
        """Return an upper bound on the released records, as far as offers, or cards before them, state them."""

    @abstractmethod
    def few_records(self, offers: Sequence[Offer], records: int) -> str:
        """Explain why at most this many records are released."""

    def class_from(self, request: Request, offers: Sequence[Offer]) -> str | None:
        """Return the party that shares the class with the others; None where all hold it."""
        return None

    # --- for people ---

    def figures(self, terms: Terms, records: int) -> dict[str, Any]:
        """Return the figures that only releases in this arrangement report."""
        return {"kind": self.name}


def proposal(parts: Sequence[GroupRequirement], m: int, offers: Sequence[Offer], *, complete: bool) -> Proposal:
    """Combine the offers into the proposal that a method checks."""
    holder = {column.name: column.holder for offer in offers for column in offer.columns}
    parties = tuple(offer.party for offer in offers) if complete else None
    limited = frozenset(each.name for offer in offers for each in offer.attributes if each.is_bounded)
    return Proposal(tuple(parts), m, parties, holder, bounded=limited)


def refused(request: Request, known: Proposal) -> Iterator[Problem]:
    """Yield the method's refusals, each with the key of the request that it concerns."""
    for problem in request.method.refusals(known):
        yield Problem(problem.sentence, key=problem.key[:1] if problem.key[:1] == ("privacy",) else ("algorithm",))


def holders_of(name: str, available: Available) -> tuple[str, ...]:
    """The parties that have a column."""
    holding = (party for party, offered in available.items() if any(name in each.card.names for each in offered))
    return tuple(sorted(holding))


def not_offered(key: str, name: str, available: Available) -> Problem:
    """The problem with a key that names a column which no party offers."""
    known = sorted({column for each in available.values() for one in each for column in one.card.names})
    return Problem(f'no party offers "{name}"{hint(name, known)}', key=(key,))


# --- horizontal ---------------------------------------------------------------------------------------------
# Horizontal sessions: the parties hold the same columns about different people, and some of them may
# collude.
#
# Kinds, roles and taxonomies are compared by the cards; bounds are compared when the parties make their
# offers.


class Horizontal(SessionRules):
    """A party takes part if it has all columns, declared alike; all records of all parties are released."""

    name: ClassVar[Arrangement] = "horizontal"
    title: ClassVar[str] = "horizontal session"
    everybody: ClassVar[str] = "all providers' records"
    of_a_party: ClassVar[str] = "all of its complete records, published together with those of the other parties"
    made: ClassVar[str] = "published together"

    def match(self, request: Request, available: Available) -> Match:
        """Match the datasets that have all columns and may be published together with others."""
        holders = {name: holders_of(name, available) for name in request.released}
        problems = [not_offered(request.key_of(name), name, available) for name, held in holders.items() if not held]
        cards: dict[str, SchemaCard] = {}
        for party in request.parties or sorted(available):
            if party not in available:
                known = sorted(available)
                there = ", ".join(known) or "none"
                text = f'there is no provider "{party}"{hint(party, known)}; there are {there}'
                problems.append(Problem(text, key=("parties",)))
                continue
            cards_of_party = (each.card for each in available[party] if each.card.horizontal)
            card = next((each for each in cards_of_party if {*request.released} <= {*each.names}), None)
            if card is not None:
                cards[party] = card
            elif request.parties:
                problems.append(Problem(_lacking(party, request, available[party]), key=("parties",)))
        # Additions by policies are checked with the offers
        wished = Proposal(request.privacy, request.colluding)
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

    def axes(self, schema: Schema | None, names: set[str]) -> tuple[AttributeDomain, ...]:
        """Return how these columns are generalised, which all parties must do alike."""
        return tuple(axis for axis in axes_of(schema or Schema(())) if axis.name in names)

    def price(self, prices: PriceList, card: SchemaCard, names: Sequence[str]) -> Price:
        """Return a fixed price that includes the per-record rate: all of a party's records are released."""
        return Price(sum(map(prices.of, names)) + prices.per_record * (card.records or 0))

    def conflicts(self, request: Request, offers: Sequence[Offer], *, complete: bool) -> Iterator[Reason]:
        """Yield the columns on which the providers differ."""
        for name in request.contributed:
            roles: dict[str, str] = dict.fromkeys((offer.party for offer in offers), "none")
            roles |= {offer.party: each.role for offer in offers for each in offer.columns if each.name == name}
            if len(set(roles.values())) > 1:
                each = ", ".join(f"{party} {role}" for party, role in roles.items())
                yield THE_REQUEST, f'"{name}" does not have the same role everywhere: {each}'
                continue
            axes = [(offer.party, offer.axis(name)) for offer in offers]
            if len({axis for _, axis in axes}) > 1:
                ways = ", ".join(f"{party} {_way(axis)}" for party, axis in axes)
                text = f'"{name}" is not generalised alike: {ways}; agree on one taxonomy and the same bounds'
                yield THE_REQUEST, text
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


def resting(people: int) -> tuple[str, ...]:
    """Return on how many people a model rests, for a person; nothing where none is learned."""
    return (f"no node, row or step of the model rests on fewer than {people:,} people",) if people else ()


def axes_of(schema: Schema) -> tuple[AttributeDomain, ...]:
    """How each attribute of a dataset is generalised."""
    found = []
    for each in schema:
        tree: str | None = fingerprint_of(each.taxonomy) if isinstance(each.taxonomy, Taxonomy) else each.taxonomy
        lower, upper = (None if bound is None else write_number(bound) for bound in (each.lower, each.upper))
        found.append(AttributeDomain(each.name, each.kind, tree, lower, upper))
    return tuple(found)


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
            sides = "; ".join(f"{', '.join(parties)} {_column_way(column)}" for column, parties in ways.items())
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


def _way(axis: AttributeDomain | None) -> str:
    if axis is None:
        return "not at all"
    if axis.taxonomy is not None:
        return "by a flat taxonomy" if axis.taxonomy == FLAT else f"by taxonomy {axis.taxonomy[:8]}"
    bounds = [f"from {axis.lower}"] if axis.lower is not None else []
    bounds += [f"below {axis.upper}"] if axis.upper is not None else []
    return f"as {axis.kind} {' and '.join(bounds) or 'without bounds'}"


# --- vertical -----------------------------------------------------------------------------------------------
# Vertical sessions: the parties hold different columns about the same people.


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
        # The party that takes part to share the class: the named one, or the holder if no other party has it
        shared = request.class_name
        if shared is not None and (shared in request.providers or not {*holders[shared]} & {*wanted}):
            sharer = _chosen(shared, holders[shared], request, problems, alike=False)
            if sharer is not None:
                wanted.setdefault(sharer, [])
        datasets = {
            party: dataset
            for party, names in wanted.items()
            if (dataset := _dataset(party, names, request.class_name, available[party], problems)) is not None
        }
        lacking = [name for name in request.released if not holders[name]]
        problems += [not_offered(request.key_of(name), name, available) for name in lacking]
        if not lacking and len(wanted) == 1:
            text = f"all are {next(iter(wanted))}'s; a mashup needs columns of at least two parties"
            problems.append(Problem(text, key=("attributes",)))
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
        for name in request.contributed:
            holders = [offer.party for offer in offers if any(column.name == name for column in offer.columns)]
            if len(holders) > 1:
                for holder in holders:
                    yield holder, f'"{name}": {" and ".join(holders)} have it; name one contributor in providers'
            elif not holders and complete:
                yield THE_REQUEST, f'no party contributes "{name}"'
        if request.class_name is not None and complete:
            yield from _about_class(request.class_name, request, offers)

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


def _chosen(name: str, holders: Sequence[str], request: Request, problems: list[Problem], *, alike: bool) -> str | None:
    named = request.providers.get(name)
    if named in holders:
        return named
    if named is not None:
        others = f"; it is held by {', '.join(holders)}" if holders else ""
        problems.append(Problem(f'"{named}" does not offer "{name}"{others}', key=("providers", name)))
        return None
    if len(holders) > 1:
        text = f'"{name}" is held by {" and ".join(holders)}; name one of them in providers'
        text += ', or ask for the people of all with kind = "horizontal"' if alike else ""
        problems.append(Problem(text, key=("attributes",)))
        return None
    return holders[0] if holders else None


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


def _about_class(name: str, request: Request, offers: Sequence[Offer]) -> Iterator[Reason]:
    holding = [offer.party for offer in offers if offer.holds_class]
    named = request.providers.get(name)
    if not holding:
        yield THE_REQUEST, f'no party has the class "{name}"'
    elif named is not None and named not in holding:
        yield THE_REQUEST, f'"{named}" does not have the class "{name}"; {" and ".join(holding)} do'
    elif named is None and len(holding) == len(offers):
        return
    elif named is None and len(holding) > 1:
        text = f'the class "{name}" is held by {" and ".join(holding)} only; name the one who shares it in providers'
        yield THE_REQUEST, text
    else:
        sharer = named or holding[0]
        if not any(offer.party == sharer and offer.shares_class for offer in offers):
            yield sharer, f'does not share the class "{name}" with the other parties, who do not all hold it'


RULES: Mapping[Arrangement, SessionRules] = {each.name: each for each in (Vertical(), Horizontal())}
