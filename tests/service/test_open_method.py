"""A request that names no method: what parties allow, what the deal says of it, and what a party holds against it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from masquerade.protocol.contract import MethodChoice, PassedOver
from masquerade.service.agree.answering import accepts
from masquerade.service.agree.objections import departures
from masquerade.service.agree.request import Request
from masquerade.service.agree.terms import Deal
from masquerade.service.ledger import Ledger
from service.parties import BANK, CLINIC, IDLE, K, dealt, offer, policy, reasons, refused, request

SHARED = {"model": "l-diversity", "qid": ["age", "job"], "l": 2, "sensitive": "disease"}


def asked(**changes: Any) -> Request:
    qid = ["age", "job", "salary", "town"]
    return request(**{"privacy": [{"model": K, "qid": qid, "k": 5}]} | changes)


def test_where_nothing_is_limited_the_preferred_method_is_agreed() -> None:
    deal = dealt(asked())
    assert (deal.terms.method["name"], deal.terms.method["choose"]) == ("mondrian", "class-first")
    assert deal.choice is not None
    assert deal.choice.passed_over == ()
    assert dealt(asked(**{"class": None})).terms.method["choose"] == "certainty"


def test_a_method_that_refuses_what_the_parties_insist_on_is_passed_over_with_its_reason() -> None:
    deal = dealt(asked(), clinic=policy(privacy=[SHARED]))
    assert deal.terms.method["name"] == "tds"
    assert deal.choice is not None
    assert {each.method["name"] for each in deal.choice.passed_over} == {"mondrian"}
    assert all("shares attributes with it" in each.refuses[0] for each in deal.choice.passed_over)
    for card in (BANK, CLINIC):
        assert accepts(policy(), deal, card, Ledger(), IDLE) == ()


def test_only_what_every_policy_allows_is_chosen_and_who_does_not_is_named() -> None:
    deal = dealt(asked(), bank=policy(methods={"tds": {}, "dka": {}}))
    assert deal.terms.method["name"] == "tds"
    assert deal.choice is not None
    assert [(each.method["name"], each.not_allowed_by) for each in deal.choice.passed_over] == [
        ("mondrian", ("bank",)),
        ("mondrian", ("bank",)),
        ("mondrian", ("bank",)),
    ]
    limited = dealt(asked(), bank=policy(methods={"mondrian": {"choose": ["certainty", "widest"]}}))
    assert limited.terms.method["choose"] == "certainty"


def test_parties_without_a_method_in_common_say_what_each_takes() -> None:
    told = refused(
        asked(), bank=policy(methods={"tds": {}}), clinic=policy(methods={"mondrian": {}, "dka": {}})
    )
    assert told == {
        "bank": ("no method suits all parties; of those to choose from it takes tds",),
        "clinic": ("no method suits all parties; of those to choose from it takes mondrian",),
    }


def test_a_party_that_takes_none_of_them_refuses() -> None:
    told = reasons(policy(methods={"dka": {}}), asked())
    assert told == (
        'method "mondrian" is not allowed; allowed: dka',
        'method "tds" is not allowed; allowed: dka',
    )
    assert offer(policy(methods={"dka": {}}), asked(algorithm={"name": "dka"})).methods == ()


TDS = {
    "name": "tds",
    "align": "auto",
    "score": "gain-ratio",
    "argmax": "secure",
    "adversary": "semi-honest",
    "epsilon": "0.01",
}


@pytest.mark.parametrize(
    "choice",
    [
        MethodChoice("it is the cheapest"),
        MethodChoice(
            "specializing takes QIDs of any kind", (PassedOver({"name": "mondrian"}, ("too slow",)),)
        ),
        MethodChoice(
            "specializing takes QIDs of any kind",
            (PassedOver({"name": "mondrian", "choose": "certainty", "strict": False}, ("too slow",)),),
        ),
    ],
)
def test_no_party_signs_a_reason_that_does_not_follow_from_the_terms(choice: MethodChoice) -> None:
    deal = _by(dealt(asked()), TDS, choice)
    assert accepts(policy(), deal, CLINIC, Ledger(), IDLE) == (
        "the deal gives a reason for its method that does not follow from its terms",
    )


def test_a_signed_request_that_leaves_the_method_open_may_become_any_to_choose_from() -> None:
    signed: Any = type("Signed", (), {"request": asked().content()})()
    agreed = dealt(asked()).asked
    assert not [*departures(agreed, signed)]
    assert not [*departures(_by(dealt(asked()), TDS, None).asked, signed)]
    for other in ({"argmax": "plain"}, {"name": "dka"}, {"name": "mondrian", "strict": True}):
        changed = asked(algorithm=other)
        assert 'algorithm: not what "ana" has signed' in [*departures(changed, signed)]
    named: Any = type("Signed", (), {"request": asked(algorithm={"name": "tds"}).content()})()
    assert 'algorithm: not what "ana" has signed' in [*departures(asked(), named)]


def _by(deal: Deal, method: dict[str, Any], choice: MethodChoice | None) -> Deal:
    terms = msgspec.structs.replace(deal.terms, method=method)
    return msgspec.structs.replace(deal, terms=terms, choice=choice)
