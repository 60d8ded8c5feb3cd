"""What differs between vertical and horizontal sessions: everything that depends on what the parties hold.

Discovery, policies, negotiation, contracts and figures ask the rules of the session's arrangement; nothing else knows
how many arrangements there are.
What a session computes is the method's affair (`masquerade.methods`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from masquerade.data.schema import Schema
from masquerade.errors import Problem, hint
from masquerade.privacy.requirement import GroupRequirement
from masquerade.protocol.arrangement import Arrangement
from masquerade.protocol.method import Proposal
from masquerade.service.card import SchemaCard
from masquerade.service.control import PublishedDataset
from masquerade.service.offers import Offer
from masquerade.service.policy import Policy
from masquerade.service.request import Request
from masquerade.service.terms import Axis, Price, PriceList, Terms

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

    def axes(self, schema: Schema | None, names: set[str]) -> tuple[Axis, ...]:
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


def proposal(
    parts: Sequence[GroupRequirement], m: int, offers: Sequence[Offer], *, complete: bool
) -> Proposal:
    """Combine the offers into the proposal that a method checks."""
    holder = {column.name: column.holder for offer in offers for column in offer.columns}
    parties = tuple(offer.party for offer in offers) if complete else None
    limited = frozenset(each.name for offer in offers for each in offer.attributes if each.is_bounded)
    return Proposal(tuple(parts), m, parties, holder, bounded=limited)


def refused(request: Request, known: Proposal) -> Iterator[Problem]:
    """Yield the method's refusals, each with the key of the request that it concerns."""
    for problem in request.method.refusals(known):
        yield Problem(
            problem.sentence, key=problem.key[:1] if problem.key[:1] == ("privacy",) else ("algorithm",)
        )


def holders_of(name: str, available: Available) -> tuple[str, ...]:
    """The parties that have a column."""
    return tuple(
        sorted(
            party
            for party, datasets in available.items()
            if any(each.card.column(name) is not None for each in datasets)
        )
    )


def not_offered(key: str, name: str, available: Available) -> Problem:
    """The problem with a key that names a column which no party offers."""
    known = sorted({column for each in available.values() for one in each for column in one.card.names})
    return Problem(f'no party offers "{name}"{hint(name, known)}', key=(key,))
