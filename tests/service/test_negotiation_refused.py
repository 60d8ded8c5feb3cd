"""Where no deal is possible: every reason of everybody, and an end after so many rounds."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import msgspec
import pytest

from masquerade.errors import ParameterError
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.requirement import GroupRequirement
from masquerade.privacy.t_closeness import TCloseness
from masquerade.service.agree.answering import answer
from masquerade.service.agree.negotiation import MOST_ROUNDS, CounterOffer, Refused, negotiate
from masquerade.service.agree.offers import Refusal
from masquerade.service.agree.request import Request
from masquerade.service.agree.terms import Deal
from masquerade.service.cards import ColumnCard
from masquerade.service.ledger import Ledger
from service.parties import BANK, CLINIC, IDLE, SHOP, K, L, carried, dealt, offer, policy, refused, request


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
    told = refused(
        request(budget=10), bank=policy(price={"per_attribute": 30}), clinic=policy(purposes=["care"])
    )
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
    open_to_all = {"bank": policy(), "clinic": policy()}
    ended, _ = carried(request(), open_to_all, (both, CLINIC))
    assert isinstance(ended, Refused)
    reason = '"age": bank and clinic have it; name one contributor in providers'
    assert ended.reasons == {"bank": (reason,), "clinic": (reason,)}
    assert ended.lines == (f"{reason} (bank, clinic)",)
    ended, _ = carried(request(providers={"age": "bank"}), open_to_all, (both, CLINIC))
    assert isinstance(ended, Deal)
    assert ended.terms.columns[0].holder == "bank"

    assert refused(request(attributes=["age", "job", "colour"])) == {
        "request": ('no party contributes "colour"',)
    }
    distant = refused(
        request(),
        clinic=policy(
            privacy=[{"model": "t-closeness", "qid": ["age", "job"], "t": 0.3, "sensitive": "disease"}]
        ),
    )
    assert list(distant) == ["clinic"]
    assert "needs a secure check that this version does not have" in distant["clinic"][0]
    wished = [{"model": "t-closeness", "qid": ["job"], "t": 0.3, "sensitive": "disease"}]
    assert list(refused(request(privacy=wished))) == ["request"]
    diverse = [{"model": L, "qid": ["job"], "l": 2, "sensitive": "disease"}]  # which is checked secretly
    ended, _ = carried(request(privacy=diverse), open_to_all)
    assert isinstance(ended, Deal)
    ended, _ = carried(request(attributes=["age", "town"], privacy=[]), open_to_all, (CLINIC,))
    assert isinstance(ended, Refused)
    assert ended.reasons == {"request": ("a mashup needs at least two parties; 1 can contribute",)}


def test_what_the_method_refuses_concerns_the_request_or_who_asks_for_it() -> None:
    dka = {"name": "dka-datafly"}
    wanted = {"attributes": ["age", "job"], "class": None, "algorithm": dka}
    written = {"name": "dka", "align": "auto", "local": "datafly", "join": "assembler"}
    assert dealt(request(**wanted)).terms.method == written
    everybody = dict.fromkeys(("bank", "clinic", "shop"), policy())
    qid = ["age", "job", "colour"]
    both = [{"model": L, "qid": qid, "l": 2, "sensitive": "disease"}]
    joined = {"attributes": [*qid, "disease"], "privacy": both, "algorithm": dka | {"join": "parties"}}
    ended, _ = carried(request(**wanted | joined), everybody, (BANK, CLINIC, SHOP))
    assert isinstance(ended, Refused)
    assert ended.lines == ('request: dka: join = "parties" takes two parties; got 3',)
    insisting = policy(privacy=[{"model": "t-closeness", "t": 0.3, "sensitive": "disease"}])
    told = refused(request(**wanted | {"attributes": ["age", "job", "disease"]}), clinic=insisting)
    assert "dka: t-closeness cannot be tested on shared counts of one group alone" in told["request"]


def test_load_alone_can_be_waited_for() -> None:
    busy = Refusal("bank", ("4 sessions are running",), busy=True)
    ended = negotiate(request(), [busy, offer(policy(), request())])
    assert isinstance(ended, Refused)
    assert ended.busy
    ended = negotiate(request(budget=0), [busy, offer(policy(price={"per_attribute": 1}), request())])
    assert isinstance(ended, Refused)
    assert not ended.busy


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
            answer(policy(least_k=more), asked, BANK, Ledger(), IDLE),
            answer(policy(), asked, CLINIC, Ledger(), IDLE),
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


def test_who_insists_on_such_a_k_is_named() -> None:
    told = refused(request(), bank=policy(least_k=6_000))
    assert set(told) == {"bank"}
    assert all("(k = 6000)" in each and "clinic has at most 5000 records" in each for each in told["bank"])


def test_other_models_with_a_k_need_as_many_records() -> None:
    model = {"model": "alpha-k-anonymity", "qid": ["age"], "alpha": 0.9, "k": 5_001, "sensitive": "disease"}
    (reason,) = refused(request(privacy=[model]))["request"]
    assert "k = 5001" in reason
    assert reason.endswith(" cannot be reached: clinic has at most 5000 records, and no more can be common")


def test_a_number_of_records_that_is_not_told_refuses_nothing() -> None:
    silent = policy(publish_records=False)
    assert KAnonymity(["age", "job"], 20_000) in dealt(_k(20_000), clinic=silent).terms.parts
    assert "bank has at most 31000 records" in refused(_k(31_001), clinic=silent)["request"][0]
    assert dealt(_k(10**9), clinic=silent, bank=silent).records is None


def test_a_refusal_does_not_hide_a_k_that_is_too_large() -> None:
    told = refused(_k(5_001), bank=policy(purposes=["care"]))
    assert set(told) == {"bank", "request"}


@pytest.mark.parametrize(
    ("reasons", "lines"),
    [
        ({"bank": ("no",), "clinic": ("no",)}, ("no (bank, clinic)",)),
        ({"bank": ("no", "later", "no"), "clinic": ("later",)}, ("no (bank)", "later (bank, clinic)")),
        (
            {"bank": ("the table of bank changed",), "clinic": ("the table of clinic changed",)},
            ("the table of this party changed (bank, clinic)",),
        ),
        (
            {"bank": ("clinic has it",), "clinic": ("bank has it",)},
            ("clinic has it (bank)", "bank has it (clinic)"),
        ),
        ({"request": ("too dear",), "bank": ("no",)}, ("request: too dear", "no (bank)")),
    ],
    ids=["equal", "some equal", "equal but for their own name", "about each other", "of the whole"],
)
def test_a_reason_is_told_once_with_all_who_give_it(
    reasons: dict[str, tuple[str, ...]], lines: tuple[str, ...]
) -> None:
    assert Refused(reasons).lines == lines
