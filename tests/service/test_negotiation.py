"""From answers to a deal: the strictest of all, whatever the order."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.errors import ParameterError
from masquerade.privacy import (
    ConfidenceBounding,
    EntropyLDiversity,
    GroupRequirement,
    KAnonymity,
    LDiversity,
    RecursiveLDiversity,
    TCloseness,
)
from masquerade.service import ColumnCard, Ledger, Request
from masquerade.service.agree.answering import accepts, answer
from masquerade.service.agree.negotiation import MOST_ROUNDS, CounterOffer, Refused, negotiate
from masquerade.service.agree.terms import Deal, Refusal, strictest
from service.parties import BANK, CLINIC, NOW, SHOP, K, L, carried, dealt, offer, policy, refused, request

ALL = request(attributes=["age", "job", "colour", "salary", "town", "disease"])
CARDS = (BANK, CLINIC, SHOP)


def test_the_strictest_of_all() -> None:
    bank = policy(joint_qid="asked", least_k=3, privacy=[{"model": K, "qid": ["salary"], "k": 30}])
    clinic = policy(
        joint_qid="asked",
        least_k=8,
        privacy=[{"model": K, "qid": ["age"], "k": 12}, {"model": L, "l": 3, "sensitive": "disease"}],
    )
    deal = dealt(request(), bank=bank, clinic=clinic)
    assert set(deal.terms.parts) == {
        KAnonymity(["age", "job"], 12),
        KAnonymity(["age", "town"], 12),
        KAnonymity(["job", "salary"], 30),
        LDiversity(["age", "town"], 3, "disease"),
    }
    assert [(each.name, each.holder, each.role) for each in deal.terms.columns] == [
        ("age", "clinic", "attribute"),
        ("job", "bank", "attribute"),
        ("salary", "bank", "attribute"),
        ("town", "clinic", "attribute"),
        ("disease", "clinic", "sensitive"),
    ]
    assert (deal.terms.class_name, deal.terms.class_from, deal.terms.method["choose"]) == (
        "income",
        "clinic",
        "class-first",
    )
    contract = deal.terms.contract("00" * 16)
    assert contract.parties == ("bank", "clinic")
    assert contract.parts == deal.terms.parts
    assert contract.columns_needed("clinic") == ("age", "town", "disease", "income")


def test_a_counter_offer_says_who_asked_for_what() -> None:
    ended, rounds = carried(
        request(),
        {"bank": policy(joint_qid="asked", least_k=30), "clinic": policy(joint_qid="asked", price={"per_record": 2})},
    )
    assert isinstance(ended, Deal)
    assert rounds[0].insisted["bank"] == (KAnonymity(["age", "job"], 30), KAnonymity(["job", "salary"], 30))
    assert rounds[0].insisted["clinic"] == (KAnonymity(["age", "town"], 2),)
    assert rounds[0].price == 2 * 5_000
    assert rounds[0].request.privacy != request().privacy
    assert len(rounds) == 2  # the bank's k has to be carried to the clinic's QID first


def test_incomparable_requirements_are_all_kept() -> None:
    def parts(model: str, *wanted: dict[str, float]) -> set[object]:
        entries = ({"model": model, "sensitive": "disease", "qid": ["age"], **each} for each in wanted)
        made = [part for each in entries for part in offer(policy(privacy=[each]), request()).parts]
        return {part for part in strictest(made, "vertical") if part.sensitive}

    kept = parts("recursive-l-diversity", {"c": 3, "l": 3}, {"c": 2.0, "l": 2})
    assert kept == {RecursiveLDiversity(["age"], 3, 3, "disease"), RecursiveLDiversity(["age"], 2, 2, "disease")}
    assert parts("t-closeness", {"t": 0.3}, {"t": 0.2}) == {TCloseness(["age"], 0.2, "disease")}
    assert parts("entropy-l-diversity", {"l": 2}, {"l": 2.0}) == parts("entropy-l-diversity", {"l": 2.0}, {"l": 2})


def test_equivalent_writings_are_one() -> None:
    same = [
        EntropyLDiversity(["age", "job"], 2, "disease"),
        EntropyLDiversity(["job", "age"], 2.0, "disease"),
        ConfidenceBounding(["age"], 0.5, "disease", ["HIV", "Flu"]),
        ConfidenceBounding(["age"], 0.5, "disease", ["Flu", "HIV"]),
        KAnonymity(["job", "age"], 3),
        KAnonymity(["age"], 3),
    ]
    assert strictest(same[2:3], "vertical") == strictest(same[3:4], "vertical")
    kept = {tuple(map(repr, strictest(order, "vertical"))) for order in itertools.permutations(same)}
    assert kept == {
        (
            repr(ConfidenceBounding(["age"], 0.5, "disease", ["Flu", "HIV"])),
            repr(KAnonymity(["age", "job"], 3)),
            repr(EntropyLDiversity(["age", "job"], 2, "disease")),
        )
    }


QIDS = st.lists(st.sampled_from(["age", "colour", "job", "salary", "town"]), min_size=1, max_size=3, unique=True)
KS = st.builds(lambda qid, k: {"model": K, "qid": qid, "k": k}, QIDS, st.integers(1, 50))
WISHES = st.lists(KS, max_size=3)
MODELS = st.one_of(
    st.builds(lambda least: {"model": L, "l": least, "sensitive": "disease"}, st.integers(1, 5)),
    st.builds(lambda t: {"model": "t-closeness", "t": t, "sensitive": "disease"}, st.sampled_from([0.1, 0.2, 1, 1.0])),
    st.builds(
        lambda c, least: {"model": "recursive-l-diversity", "c": c, "l": least, "sensitive": "disease"},
        st.sampled_from([1, 2.0, 2, 3.5]),
        st.integers(1, 3),
    ),
    st.builds(
        lambda values, alpha: {
            "model": "confidence-bounding",
            "confidence": alpha,
            "sensitive": "disease",
            "values": values,
        },
        st.permutations(["HIV", "Flu"]),
        st.sampled_from([0.25, 0.5]),
    ),
)


@st.composite
def settings_of(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """What each party's policy says of privacy; the clinic alone holds the disease."""
    return {
        card.party: {
            "least_k": draw(st.integers(1, 30)),
            "privacy": draw(st.lists(KS | MODELS if card is CLINIC else KS, max_size=3)),
        }
        for card in CARDS
    }


@settings(deadline=None, max_examples=examples(60))
@given(WISHES, settings_of(), st.permutations(range(3)))
def test_the_order_of_answers_does_not_matter(
    wish: list[dict[str, Any]], chosen: dict[str, dict[str, Any]], order: list[int]
) -> None:
    policies = {name: policy(**each) for name, each in chosen.items()}
    asked = request(attributes=list(ALL.attributes), privacy=wish)
    assert carried(asked, policies, CARDS) == carried(asked, policies, [CARDS[at] for at in order])


@settings(deadline=None, max_examples=examples(60))
@given(WISHES, settings_of())
def test_every_policy_accepts_the_deal_and_answers_it_with_itself(
    wish: list[dict[str, Any]], chosen: dict[str, dict[str, Any]]
) -> None:
    policies = {name: policy(**each) for name, each in chosen.items()}
    ended, rounds = carried(request(attributes=list(ALL.attributes), privacy=wish), policies, CARDS)
    assert isinstance(ended, Deal)
    assert len(rounds) <= 3 < MOST_ROUNDS
    again = ended.asked
    for card in CARDS:
        assert accepts(policies[card.party], ended, card, Ledger(), NOW) == ()
        assert offer(policies[card.party], again, card).parts == ended.terms.parts
    once_more, rounds = carried(again, policies, CARDS)
    assert isinstance(once_more, Deal)
    assert not rounds
    assert once_more.choice is None  # now it is asked for by name
    assert msgspec.structs.replace(once_more, choice=ended.choice) == ended


@settings(deadline=None, max_examples=examples(60))
@given(WISHES, settings_of(), st.data())
def test_a_stricter_policy_never_makes_a_weaker_contract(
    wish: list[dict[str, Any]], chosen: dict[str, dict[str, Any]], data: st.DataObject
) -> None:
    asked = request(attributes=list(ALL.attributes), privacy=wish)
    stricter = {
        name: {
            "least_k": each["least_k"] + data.draw(st.integers(0, 20)),
            "privacy": [
                *(
                    entry | ({"k": entry["k"] + data.draw(st.integers(0, 20))} if "k" in entry else {})
                    for entry in each["privacy"]
                ),
                *data.draw(st.lists(KS | MODELS if name == "clinic" else KS, max_size=2)),
            ],
        }
        for name, each in chosen.items()
    }
    ends = []
    for each in (chosen, stricter):
        ended, _ = carried(asked, {name: policy(**changes) for name, changes in each.items()}, CARDS)
        assert isinstance(ended, Deal)
        ends.append(ended.terms.parts)
    for part in [*ends[0], *asked.privacy]:
        assert any(each.covers(part) for each in ends[1])


def test_equal_terms_have_one_hash_and_the_occasion_is_no_part_of_it() -> None:
    deal = dealt(request())
    assert dealt(request()).terms.hash == deal.terms.hash
    for other in (
        dealt(request(purpose="audit")),
        dealt(request(recipients=["ana", "eve"], budget=7_000_000)),
        dealt(request(deadline=1_900_000_000, most_error=0.2)),
        dealt(request(privacy=[{"model": K, "qid": ["job", "age"], "k": 5}])),
        dealt(request(), bank=policy(price={"per_attribute": 1})),
    ):
        assert other.terms.hash == deal.terms.hash
        assert other.canonical() != deal.canonical() or other == deal
    changed = [
        dealt(request(attributes=["job", "age", "salary", "town", "disease"])),
        dealt(request(privacy=[{"model": K, "qid": ["age", "job"], "k": 6}])),
        dealt(request(algorithm={"score": "info-gain"})),
        dealt(request(algorithm={"adversary": "malicious"})),
        dealt(request(normalize="none")),
        dealt(request(**{"class": None})),
    ]
    for card in (dataclasses.replace(CLINIC, snapshot="dd" * 32), dataclasses.replace(CLINIC, schema="dd" * 32)):
        changed.append(dealt(request(), BANK, card))
    hashes = [each.terms.hash for each in (deal, *changed)]
    assert len(set(hashes)) == len(hashes)
    assert Deal.read(deal.canonical()) == deal


def test_who_shares_the_class() -> None:
    closed = policy(share_class=False)
    assert refused(request(), clinic=closed) == {
        "clinic": ('does not share the class "income" with the other parties, who do not all hold it',)
    }
    everybody = dataclasses.replace(BANK, columns=(*BANK.columns, ColumnCard("income", "categorical", "class")))
    assert dealt(request(), everybody, CLINIC, bank=closed, clinic=closed).terms.class_from is None
    assert list(refused(request(**{"class": "wealth"}))) == ["request"]
    (reason,) = refused(ALL, everybody, CLINIC, SHOP)["request"]
    assert "held by bank and clinic only; name the one who shares it" in reason
    named = request(attributes=list(ALL.attributes), providers={"income": "bank"})
    assert dealt(named, everybody, CLINIC, SHOP).terms.class_from == "bank"


def test_a_requirement_on_the_class_is_nobodys_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over attributes of other parties too, whatever the model: everybody has the class, and checks by itself."""
    monkeypatch.setattr(TCloseness, "circuit", GroupRequirement.circuit)  # as a model of another package
    models = [
        {"model": "t-closeness", "qid": ["job", "age"], "t": 0.3, "sensitive": "income"},  # has no secret check
        {"model": L, "qid": ["job"], "l": 2, "sensitive": "income"},
    ]
    for model in models:
        asked = request(privacy=[{"model": K, "qid": ["age", "job"], "k": 5}, model])
        deal = dealt(asked)
        assert [part.sensitive for part in deal.terms.parts if part.sensitive] == ["income"]
        for card in (BANK, CLINIC):
            assert accepts(policy(), deal, card, Ledger(), NOW) == ()
        assert "income" not in {column.name for column in deal.terms.columns}  # it is released as the class
    told = refused(request(privacy=[models[0] | {"sensitive": "disease"}]))
    assert any("needs a secure check" in reason for reasons in told.values() for reason in reasons)


def test_the_coordinator_sees_steps_only_where_all_grant_it() -> None:
    granting = policy(show_progress=True)
    assert not dealt(request(show_progress=True), bank=granting).show_progress
    assert dealt(request(show_progress=True), bank=granting, clinic=granting).show_progress
    assert not dealt(request(), bank=granting, clinic=granting).show_progress


# --- Where no deal is possible: every reason of everybody, and an end after so many rounds ---


def test_every_reason_of_every_party() -> None:
    told = refused(
        request(algorithm={"name": "tds"}),
        bank=policy(purposes=["audit"], methods={"tds": {"adversary": ["malicious"]}}),
        clinic=policy(access="private", users=["ben"], purposes=["care"]),
    )
    assert told == {
        "bank": (
            'purpose "research" is not allowed; allowed: audit',
            'adversary "semi-honest" is not allowed; allowed: malicious',
        ),
        "clinic": ('user "ana" may not ask', 'purpose "research" is not allowed; allowed: care'),
    }


def test_a_refusal_does_not_hide_what_the_others_offers_would_cost() -> None:
    told = refused(request(budget=10), bank=policy(price={"per_attribute": 30}), clinic=policy(purposes=["care"]))
    assert set(told) == {"clinic", "request"}
    assert told["request"] == ("costs up to 60 cents (bank 60); the budget is 10",)


def test_the_price_is_held_against_the_budget() -> None:
    priced = {
        "bank": policy(price={"per_attribute": 30, "per_record": 1}),
        "clinic": policy(price={"attributes": {"disease": 700}, "per_record": 2}),
    }
    # The common records are no more than the clinic's 5,000.
    assert refused(request(budget=15_759), **priced) == {
        "request": ("costs up to 15760 cents (bank 5060, clinic 10700); the budget is 15759",)
    }
    assert dealt(request(budget=15_760), **priced).most_cost == 15_760


def test_conflicts_between_offers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TCloseness, "circuit", GroupRequirement.circuit)  # as a model of another package
    both = dataclasses.replace(BANK, columns=(*BANK.columns, ColumnCard("age", "continuous")))
    reason = '"age": bank and clinic have it; name one contributor in providers'
    assert refused(request(), both, CLINIC) == {"bank": (reason,), "clinic": (reason,)}
    assert dealt(request(providers={"age": "bank"}), both, CLINIC).terms.columns[0].holder == "bank"

    assert refused(request(attributes=["age", "job", "colour"])) == {"request": ('no party contributes "colour"',)}
    distant = refused(
        request(),
        clinic=policy(privacy=[{"model": "t-closeness", "qid": ["age", "job"], "t": 0.3, "sensitive": "disease"}]),
    )
    assert list(distant) == ["clinic"]
    assert "needs a secure check that this version does not have" in distant["clinic"][0]
    wished = [{"model": "t-closeness", "qid": ["job"], "t": 0.3, "sensitive": "disease"}]
    assert list(refused(request(privacy=wished))) == ["request"]
    diverse = [{"model": L, "qid": ["job"], "l": 2, "sensitive": "disease"}]  # which is checked secretly
    assert dealt(request(privacy=diverse))
    alone = refused(request(attributes=["age", "town"], privacy=[]), CLINIC)
    assert alone == {"request": ("a mashup needs at least two parties; 1 can contribute",)}


def test_what_the_method_refuses_concerns_the_request_or_who_asks_for_it() -> None:
    dka = {"name": "dka-datafly"}
    wanted = {"attributes": ["age", "job"], "class": None, "algorithm": dka}
    written = {"name": "dka", "align": "auto", "local": "datafly", "join": "assembler"}
    assert dealt(request(**wanted)).terms.method == written
    qid = ["age", "job", "colour"]
    both = [{"model": L, "qid": qid, "l": 2, "sensitive": "disease"}]
    joined = {"attributes": [*qid, "disease"], "privacy": both, "algorithm": dka | {"join": "parties"}}
    told = refused(request(**wanted | joined), BANK, CLINIC, SHOP)
    assert told == {"request": ('dka: join = "parties" takes two parties; got 3',)}
    insisting = policy(privacy=[{"model": "t-closeness", "t": 0.3, "sensitive": "disease"}])
    told = refused(request(**wanted | {"attributes": ["age", "job", "disease"]}), clinic=insisting)
    assert "dka: t-closeness cannot be tested on shared counts of one group alone" in told["request"]


def test_load_alone_can_be_waited_for() -> None:
    busy = Refusal("bank", ("4 sessions are running",), busy=True)
    for budget, price in ((1_000_000, 0), (0, 1)):
        given = offer(policy(price={"per_attribute": price}), request())
        ended = negotiate(request(budget=budget), [busy, given])
        assert isinstance(ended, Refused)
        assert ended.busy == (price == 0)


def test_what_a_dishonest_party_may_answer() -> None:
    good = offer(policy(), request())
    bank = offer(policy(), request(), BANK)
    with pytest.raises(ParameterError, match="party bank answered twice"):
        negotiate(request(), [bank, good, bank])

    def told(**changes: Any) -> str:
        ended = negotiate(request(), [msgspec.structs.replace(bank, **changes), good])
        assert isinstance(ended, Refused)
        assert list(ended.reasons) == ["bank"]
        return ended.lines[0]

    assert "its offer: privacy[1].k: must be" in told(requirements=({"model": K, "qid": ["job"], "k": 0},))
    assert "over weight, which is not wanted" in told(requirements=({"model": K, "qid": ["weight"], "k": 2},))
    assert "not its own or not wanted: weight" in told(
        columns=(*bank.columns, msgspec.structs.replace(bank.columns[0], name="weight"))
    )


def test_rounds_are_bounded() -> None:
    """A party that asks for more each time does not keep the others for ever."""
    wish, earlier = request(), list[CounterOffer]()
    for more in itertools.count(10):
        asked = earlier[-1].request if earlier else wish
        answers = [
            answer(policy(least_k=more), asked, BANK, Ledger(), NOW),
            answer(policy(), asked, CLINIC, Ledger(), NOW),
        ]
        ended = negotiate(wish, answers, earlier)
        if not isinstance(ended, CounterOffer):
            break
        earlier.append(ended)
    assert isinstance(ended, Refused)
    assert len(earlier) == MOST_ROUNDS
    assert list(ended.reasons) == ["bank"]
    assert ended.lines[0].startswith("still asks for more after 8 rounds: k-anonymity (k = 18)")


# --- what the parties' numbers of records show ---


def _k(k: int) -> Request:
    return request(privacy=[{"model": K, "qid": ["age", "job"], "k": k}])


def test_a_k_above_the_smallest_partys_records_is_refused() -> None:
    assert KAnonymity(["age", "job"], 5_000) in dealt(_k(5_000)).terms.parts  # the clinic may have so many
    assert refused(_k(5_001)) == {
        "request": (
            "k-anonymity (k = 5001) over age, job cannot be reached: "
            "clinic has at most 5000 records, and no more can be common",
        )
    }

    told = refused(request(), bank=policy(least_k=6_000))
    assert set(told) == {"bank"}, "who insists on it is named"
    assert all("(k = 6000)" in each and "clinic has at most 5000 records" in each for each in told["bank"])
    assert set(refused(_k(5_001), bank=policy(purposes=["care"]))) == {"bank", "request"}, "no refusal hides it"
    model = {"model": "alpha-k-anonymity", "qid": ["age"], "alpha": 0.9, "k": 5_001, "sensitive": "disease"}
    (reason,) = refused(request(privacy=[model]))["request"]  # other models with a k need as many records
    assert "k = 5001" in reason
    assert reason.endswith(" cannot be reached: clinic has at most 5000 records, and no more can be common")


def test_a_number_of_records_that_is_not_told_refuses_nothing() -> None:
    silent = policy(publish_records=False)
    assert KAnonymity(["age", "job"], 20_000) in dealt(_k(20_000), clinic=silent).terms.parts
    assert "bank has at most 31000 records" in refused(_k(31_001), clinic=silent)["request"][0]
    assert dealt(_k(10**9), clinic=silent, bank=silent).records is None


@pytest.mark.parametrize(
    ("reasons", "lines"),
    [
        ({"bank": ("no",), "clinic": ("no",)}, ("no (bank, clinic)",)),
        ({"bank": ("no", "later", "no"), "clinic": ("later",)}, ("no (bank)", "later (bank, clinic)")),
        (
            {"bank": ("the table of bank changed",), "clinic": ("the table of clinic changed",)},
            ("the table of this party changed (bank, clinic)",),
        ),
        ({"bank": ("clinic has it",), "clinic": ("bank has it",)}, ("clinic has it (bank)", "bank has it (clinic)")),
        ({"request": ("too dear",), "bank": ("no",)}, ("request: too dear", "no (bank)")),
    ],
    ids=["equal", "some equal", "equal but for their own name", "about each other", "of the whole"],
)
def test_a_reason_is_told_once_with_all_who_give_it(
    reasons: dict[str, tuple[str, ...]], lines: tuple[str, ...]
) -> None:
    assert Refused(reasons).lines == lines
