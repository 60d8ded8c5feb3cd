"""What a policy answers: every reason of refusal, what it adds to a wish, and what it signs."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.privacy.t_closeness import TCloseness
from masquerade.service.agree.answering import accepts, answer
from masquerade.service.agree.offers import Load, Refusal
from masquerade.service.agree.policy import read_policy
from masquerade.service.agree.terms import Deal, Price
from masquerade.service.ledger import Ledger
from service.parties import BANK, CLINIC, IDLE, NOW, K, L, dealt, offer, policy, reasons, request


@pytest.mark.parametrize(
    ("changes", "asked", "reason"),
    [
        ({"access": "private", "users": ["ben"]}, {}, 'user "ana" may not ask'),
        (
            {"access": "private", "users": ["ana"]},
            {"recipients": ["ana", "eve"]},
            'recipient "eve" may not be given a release',
        ),
        (
            {"purposes": ["research", "audit"]},
            {"purpose": "reserch"},
            'purpose "reserch" is not allowed (did you mean "research"?); allowed: research, audit',
        ),
        (
            {"methods": {"tds": {"adversary": ["malicious"]}}},
            {"algorithm": {"name": "tds"}},
            'adversary "semi-honest" is not allowed; allowed: malicious',
        ),
        (
            {"methods": {"tds": {"argmax": ["plain"]}}},
            {"algorithm": {"name": "tds"}},
            'argmax "secure" is not allowed; allowed: plain',
        ),
        (
            {"methods": {"tds": {"argmax": ["secure"]}}},
            {"algorithm": {"argmax": "plain"}},
            'argmax "plain" is not allowed; allowed: secure',
        ),
        (
            {"methods": {"dka-datafly": {}, "mondrian": {"third_party": ["trusted"]}}},
            {"algorithm": {"name": "tds"}},
            'method "tds" is not allowed; allowed: dka, mondrian',
        ),
        (
            {"methods": {"tds": {}}},
            {"algorithm": {"name": "dka-datafly"}},
            'method "dka" is not allowed; allowed: tds',
        ),
        (
            {"methods": {"dka-datafly": {}}},
            {"algorithm": {"name": "dka", "local": "mondrian"}},
            'local "mondrian" is not allowed; allowed: datafly',
        ),
        ({}, {"deadline": NOW}, "the request's deadline has passed"),
        (
            {},
            {"attributes": ["job"], "privacy": [], "class": None},
            "patients has none of the wanted columns",
        ),
        (
            {},
            {"providers": {"job": "clinic"}},
            'patients has no column "job"; it has age, town, disease, income',
        ),
        (
            {},
            {"attributes": ["age", "ssn"], "privacy": []},
            '"ssn" identifies people; it is never released',
        ),
        (
            {},
            {"privacy": [{"model": K, "qid": ["age", "disease"], "k": 5}]},
            '"disease" is sensitive and released as it is; it cannot be in a QID',
        ),
        (
            {},
            {"attributes": ["job", "town"], "privacy": [], "class": "age"},
            '"age" is an attribute and generalised; it cannot be the class, which is released as it is',
        ),
        (
            {"privacy": [{"model": L, "l": 3, "sensitive": "disease"}]},
            {"attributes": ["job", "disease"], "privacy": []},
            "l-diversity on disease is required, and no attribute of its QID is wanted",
        ),
    ],
)
def test_each_reason_of_refusal(changes: dict[str, Any], asked: dict[str, Any], reason: str) -> None:
    assert reasons(policy(**changes), request(**asked)) == (reason,)


def test_all_reasons_are_told_not_only_the_first() -> None:
    strict = policy(
        access="private",
        users=["ben"],
        purposes=["audit"],
        methods={"tds": {"adversary": ["malicious"]}},
        sessions=2,
    )
    told = reasons(strict, request(deadline=5, algorithm={"name": "tds"}), load=Load(2, NOW))
    assert told == (
        'user "ana" may not ask',
        'purpose "research" is not allowed; allowed: audit',
        'adversary "semi-honest" is not allowed; allowed: malicious',
        "the request's deadline has passed",
        "2 sessions are running; at most 2 at once are allowed",
    )


def test_a_busy_party_may_be_asked_again() -> None:
    given = answer(policy(sessions=1), request(), CLINIC, Ledger(), Load(1, NOW))
    assert isinstance(given, Refusal)
    assert given.busy
    both = answer(policy(sessions=1), request(deadline=1), CLINIC, Ledger(), Load(1, NOW))
    assert isinstance(both, Refusal)
    assert not both.busy


def test_nothing_is_open_by_default() -> None:
    closed = read_policy({"least_k": 10})
    assert reasons(closed, request()) == (
        'user "ana" may not ask',
        'purpose "research" is not allowed; allowed: none',
    )


def test_a_table_that_was_not_read_has_nothing_to_commit_to() -> None:
    unread = dataclasses.replace(CLINIC, snapshot=None)
    assert reasons(policy(), request(), unread) == (
        "patients has not been read yet: there is no snapshot to commit to",
    )


def test_an_offer_has_everything_the_party_insists_on() -> None:
    strict = policy(
        least_k=10,
        privacy=[
            {"model": K, "qid": ["age", "town"], "k": 40},
            {"model": K, "qid": ["age", "weight"], "k": 90},  # nobody wants the weight
            {"model": L, "l": 3, "sensitive": "disease"},
            {"model": "t-closeness", "qid": ["age", "weight"], "t": 0.25, "sensitive": "disease"},
        ],
        price={"per_attribute": 100, "per_record": 2, "attributes": {"disease": 900}},
        needs_approval=True,
    )
    given = offer(strict, request())
    assert set(given.parts) == {
        KAnonymity(["age", "job"], 10),  # 5 was wished
        KAnonymity(["age", "town"], 40),
        LDiversity(["age", "town"], 3, "disease"),  # without a qid: all that the clinic releases
        TCloseness(["age"], 0.25, "disease"),  # what is wanted of its QID
    }
    assert [(column.name, column.role) for column in given.columns] == [
        ("age", "attribute"),
        ("town", "attribute"),
        ("disease", "sensitive"),
    ]
    assert given.price == Price(100 + 100 + 900 + 100, 2)  # age, town, disease, and the class
    assert (given.provision.snapshot, given.records, given.needs_approval) == ("bb" * 32, 5_000, True)


def test_a_k_is_raised_over_every_qid_that_contains_the_pattern() -> None:
    strict = policy(privacy=[{"model": K, "qid": ["age"], "k": 40}])
    wish = [{"model": K, "qid": ["age", "job"], "k": 60}, {"model": K, "qid": ["job", "salary"], "k": 3}]
    parts = offer(strict, request(privacy=wish)).parts
    assert set(parts) == {
        KAnonymity(["age", "job"], 60),
        KAnonymity(["job", "salary"], 3),
        KAnonymity(["age", "town"], 40),
    }
    wish[0]["k"] = 7
    assert KAnonymity(["age", "job"], 40) in offer(strict, request(privacy=wish)).parts


def test_a_k_counts_for_the_qid_of_another_model_too() -> None:
    wish = [{"model": L, "qid": ["age"], "l": 2, "sensitive": "disease"}]
    parts = offer(policy(least_k=30), request(attributes=["age", "disease"], privacy=wish)).parts
    assert set(parts) == {LDiversity(["age"], 2, "disease"), KAnonymity(["age"], 30)}


def test_models_are_asked_for_only_when_their_attribute_is_released() -> None:
    strict = policy(privacy=[{"model": L, "l": 3, "sensitive": "disease"}])
    parts = offer(strict, request(attributes=["age", "job"])).parts
    assert [part.model for part in parts] == [K]


QIDS = st.lists(st.sampled_from(["age", "job", "salary", "town"]), min_size=1, unique=True)
KS = st.builds(lambda qid, k: {"model": K, "qid": qid, "k": k}, QIDS, st.integers(1, 50))
LS = st.builds(
    lambda qid, least: {"model": L, "qid": qid, "l": least, "sensitive": "disease"}, QIDS, st.integers(1, 5)
)


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(KS | LS, max_size=4), st.lists(KS | LS, max_size=4), st.integers(1, 40))
def test_an_offer_contains_the_wish_and_answering_it_adds_nothing(
    wish: list[dict[str, Any]], insisted: list[dict[str, Any]], least_k: int
) -> None:
    strict = policy(least_k=least_k, privacy=insisted)
    asked = request(privacy=wish)
    given = offer(strict, asked)
    for part in asked.privacy:
        assert any(each.covers(part) for each in given.parts)
    for pattern in (part for part in strict.privacy if isinstance(part, KAnonymity)):
        assert any(each.covers(pattern) for each in given.parts)
        over = [each for each in given.parts if isinstance(each, KAnonymity)]
        assert all(each.k >= pattern.k for each in over if set(pattern.qid) <= set(each.qid))
    assert offer(strict, asked.wishing(given.parts)).parts == given.parts


# Before signing.


def _changed(deal: Deal, **terms: Any) -> Deal:
    return msgspec.structs.replace(deal, terms=msgspec.structs.replace(deal.terms, **terms))


def test_a_party_accepts_what_it_agreed_to_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TCloseness, "circuit", GroupRequirement.circuit)  # as a model of another package
    asked, replace = request(algorithm={"name": "tds"}), msgspec.structs.replace
    deal = dealt(asked, bank=policy(least_k=20))
    assert accepts(policy(), deal, CLINIC, Ledger(), IDLE) == ()
    assert accepts(policy(least_k=20), deal, BANK, Ledger(), IDLE) == ()

    def told(changed: Deal, **changes: Any) -> str:
        return "\n".join(accepts(policy(**changes), changed, CLINIC, Ledger(), IDLE))

    bank, clinic = deal.terms.provisions
    assert told(_changed(deal, provisions=(bank, replace(clinic, snapshot="00")))) == (
        "patients has changed: the contract is about another snapshot of it"
    )
    for others in ((bank, replace(clinic, schema="00")), (bank,)):
        assert "another dataset or schema" in told(_changed(deal, provisions=others))
    assert "another price" in told(replace(deal, prices={**deal.prices, "clinic": Price(1)}))
    assert "the deal lacks k-anonymity (k = 21) over age, job" in told(deal, least_k=21)
    assert 'purpose "marketing" is not allowed' in told(
        replace(deal, purpose="marketing"), purposes=["research"]
    )
    assert 'recipient "eve"' in told(
        replace(deal, recipients=("ana", "eve")), access="private", users=["ana"]
    )
    assert "shows the coordinator the progress" in told(replace(deal, show_progress=True))
    assert told(replace(deal, show_progress=True), show_progress=True) == ""
    assert "share the class" in told(deal, share_class=False)
    columns = tuple(replace(each, role="attribute") for each in deal.terms.columns)
    assert "other columns" in told(_changed(deal, columns=columns))
    distant = {"model": "t-closeness", "qid": ["job"], "t": "0.3", "sensitive": "disease"}
    assert "needs a secure check" in told(_changed(deal, requirements=(*deal.terms.requirements, distant)))
    for broken in (
        {"model": "k"},
        {"model": K, "qid": ["age"], "k": 0},
        {"model": K, "qid": ["age"], "k": 2, "t": "x"},
    ):
        assert told(_changed(deal, requirements=(broken,))).startswith("deal: privacy[1]")
    assert told(replace(deal, purpose="")).startswith("deal: purpose")
