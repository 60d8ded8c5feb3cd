"""Parties for tests: cards, policies, requests, and negotiations carried to their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from masquerade.service import ColumnCard, Ledger, Request, SchemaCard, read_request
from masquerade.service.agree.answering import answer
from masquerade.service.agree.negotiation import CounterOffer, Refused, negotiate
from masquerade.service.agree.policy import Policy, read_policy
from masquerade.service.agree.terms import Deal, Offer, Refusal

K, L = "k-anonymity", "l-diversity"
NOW = 1_800_000_000

BANK = SchemaCard(
    "bank",
    "customers",
    "ssn",
    (ColumnCard("job", "categorical"), ColumnCard("salary", "continuous")),
    schema="11" * 32,
    records=31_000,
    snapshot="aa" * 32,
)
CLINIC = SchemaCard(
    "clinic",
    "patients",
    "ssn",
    (
        ColumnCard("age", "continuous"),
        ColumnCard("town", "categorical"),
        ColumnCard("disease", "categorical", "sensitive"),
        ColumnCard("income", "categorical", "class"),
    ),
    schema="22" * 32,
    records=5_000,
    snapshot="bb" * 32,
)
SHOP = SchemaCard("shop", "club", "ssn", (ColumnCard("colour", "categorical"),), "33" * 32, 100, snapshot="cc" * 32)

OPEN = {"access": "public", "purposes": ["*"], "least_k": 2, "share_class": True}


def policy(**changes: Any) -> Policy:
    return read_policy(OPEN | changes)


def request(**changes: Any) -> Request:
    wanted = {
        "purpose": "research",
        "attributes": ["age", "job", "salary", "town", "disease"],
        "class": "income",
        "budget": 1_000_000,
        "privacy": [{"model": "k-anonymity", "qid": ["age", "job"], "k": 5}],
    }
    return read_request(wanted | changes).asked_by("ana")


def reasons(policy: Policy, request: Request, card: SchemaCard = CLINIC, **more: Any) -> tuple[str, ...]:
    given = answer(policy, request, card, more.get("ledger", Ledger()), more.get("now", NOW))
    assert isinstance(given, Refusal), given
    return given.reasons


def offer(policy: Policy, request: Request, card: SchemaCard = CLINIC, **more: Any) -> Offer:
    given = answer(policy, request, card, more.get("ledger", Ledger()), more.get("now", NOW))
    assert isinstance(given, Offer), given
    return given


def carried(
    wish: Request,
    policies: Mapping[str, Policy],
    cards: Sequence[SchemaCard] = (BANK, CLINIC),
    ledger: Ledger | None = None,
) -> tuple[Deal | Refused, list[CounterOffer]]:
    """All rounds, with every party answering every time: how they end, and the counter-offers on the way."""
    earlier: list[CounterOffer] = []
    while True:
        asked = earlier[-1].request if earlier else wish
        answers = [answer(policies[card.party], asked, card, ledger or Ledger(), NOW) for card in cards]
        ended = negotiate(wish, answers, earlier)
        if not isinstance(ended, CounterOffer):
            return ended, earlier
        earlier.append(ended)


def dealt(asked: Request, *cards: SchemaCard, **policies: Policy) -> Deal:
    """What bank and clinic agree on, or those with these cards, with open policies or such ones."""
    ended, _ = carried(asked, dict.fromkeys(("bank", "clinic", "shop"), policy()) | policies, cards or (BANK, CLINIC))
    assert isinstance(ended, Deal), ended
    return ended


def refused(asked: Request, *cards: SchemaCard, **policies: Policy) -> dict[str, tuple[str, ...]]:
    """Why they do not agree, by who says so."""
    ended, _ = carried(asked, dict.fromkeys(("bank", "clinic", "shop"), policy()) | policies, cards or (BANK, CLINIC))
    assert isinstance(ended, Refused), ended
    return dict(ended.reasons)
