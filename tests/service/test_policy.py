"""What a policy answers: every reason of refusal, what it adds to a wish, and what it signs."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from examples import examples
from masquerade.errors import ParameterError
from masquerade.privacy import GroupRequirement, KAnonymity, LDiversity, TCloseness
from masquerade.protocol import MethodChoice, PassedOver
from masquerade.service import Ledger, Request
from masquerade.service.agree.answering import accepts
from masquerade.service.agree.objections import departures
from masquerade.service.agree.policy import check_policy, read_policy
from masquerade.service.agree.terms import Deal, Price
from masquerade.service.ledger import append, record_of
from service.parties import BANK, CLINIC, NOW, OPEN, K, L, dealt, offer, policy, reasons, refused, request
from service.stores import some


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
        ({"methods": {"tds": {}}}, {"algorithm": {"name": "dka-datafly"}}, 'method "dka" is not allowed; allowed: tds'),
        (
            {"methods": {"dka-datafly": {}}},
            {"algorithm": {"name": "dka", "local": "mondrian"}},
            'local "mondrian" is not allowed; allowed: datafly',
        ),
        ({}, {"deadline": NOW}, "the request's deadline has passed"),
        ({}, {"attributes": ["job"], "privacy": [], "class": None}, "patients has none of the wanted columns"),
        ({}, {"providers": {"job": "clinic"}}, 'patients has no column "job"; it has age, town, disease, income'),
        ({}, {"attributes": ["age", "ssn"], "privacy": []}, '"ssn" identifies people; it is never released'),
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
    strict = policy(access="private", users=["ben"], purposes=["audit"], methods={"tds": {"adversary": ["malicious"]}})
    told = reasons(strict, request(deadline=5, algorithm={"name": "tds"}))
    assert told == (
        'user "ana" may not ask',
        'purpose "research" is not allowed; allowed: audit',
        'adversary "semi-honest" is not allowed; allowed: malicious',
        "the request's deadline has passed",
    )


def test_nothing_is_open_by_default_and_nothing_offered_that_was_not_read() -> None:
    closed = read_policy({"least_k": 10})
    assert reasons(closed, request()) == ('user "ana" may not ask', 'purpose "research" is not allowed; allowed: none')
    (told,) = reasons(policy(), request(), dataclasses.replace(CLINIC, snapshot=None))
    assert told == "patients has not been read yet: there is no snapshot to commit to"


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
    strict = policy(privacy=[{"model": L, "l": 3, "sensitive": "disease"}])
    parts = offer(strict, request(attributes=["age", "job"])).parts  # the disease is not released
    assert [part.model for part in parts] == [K]


QIDS = st.lists(st.sampled_from(["age", "job", "salary", "town"]), min_size=1, unique=True)
KS = st.builds(lambda qid, k: {"model": K, "qid": qid, "k": k}, QIDS, st.integers(1, 50))
LS = st.builds(lambda qid, least: {"model": L, "qid": qid, "l": least, "sensitive": "disease"}, QIDS, st.integers(1, 5))


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
    assert accepts(policy(), deal, CLINIC, Ledger(), NOW) == ()
    assert accepts(policy(least_k=20), deal, BANK, Ledger(), NOW) == ()

    def told(changed: Deal, **changes: Any) -> str:
        return "\n".join(accepts(policy(**changes), changed, CLINIC, Ledger(), NOW))

    bank, clinic = deal.terms.provisions
    assert told(_changed(deal, provisions=(bank, replace(clinic, snapshot="00")))) == (
        "patients has changed: the contract is about another snapshot of it"
    )
    for others in ((bank, replace(clinic, schema="00")), (bank,)):
        assert "another dataset or schema" in told(_changed(deal, provisions=others))
    assert "another price" in told(replace(deal, prices={**deal.prices, "clinic": Price(1)}))
    assert "the deal lacks k-anonymity (k = 21) over age, job" in told(deal, least_k=21)
    assert 'purpose "marketing" is not allowed' in told(replace(deal, purpose="marketing"), purposes=["research"])
    assert 'recipient "eve"' in told(replace(deal, recipients=("ana", "eve")), access="private", users=["ana"])
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


# --- Policies as they are read: every problem told at once, and the columns they speak of ---


def test_a_policy_has_all_its_problems_told_at_once() -> None:
    text = """
    access = "public"
    users = ["ana"]
    methods = { tds = { adversary = ["honest"], scores = ["gain-ratio"] }, tsd = {} }
    publish_records = false
    session = 3
    [price]
    per_record = 1
    per_atribute = 2
    [[privacy]]
    model = "k-anonymity"
    k = 5
    [[privacy]]
    model = "l-diversity"
    l = 3
    """
    with pytest.raises(ParameterError) as caught:
        read_policy(tomllib.loads(text), "clinic.toml: policy")
    told = "\n".join(caught.value.lines)
    for expected in (
        "policy: least_k: missing",
        'policy: users: listed, but access = "public" lets everybody ask',
        'policy: methods.tds.adversary: must be a list of one or more of "semi-honest", "malicious"; got "honest"',
        'policy: methods.tds.scores: not a choice of tds (did you mean "score"?); known here: align, score, argmax, '
        "adversary",
        'policy: methods.tsd: no method "tsd" for parties (did you mean "tds"?); there are tds, dka, mondrian',
        'policy: session: unknown key (did you mean "sessions"?)',
        'policy: price.per_atribute: unknown key (did you mean "per_attribute"?)',
        "policy: privacy[1].qid: missing; for a k over all attributes write least_k",
        "policy: privacy[2].sensitive: missing",
    ):
        assert expected in told
    with pytest.raises(ParameterError, match=r"price.per_record: needs publish_records = true"):
        policy(publish_records=False, price={"per_record": 1})
    with pytest.raises(ParameterError, match="a key holds half a character"):
        read_policy({"least_k": 2, "\ud800": 1})


def test_a_policy_speaks_of_columns_that_are_there() -> None:
    check_policy(policy(privacy=[{"model": L, "l": 2, "sensitive": "disease"}]), CLINIC)
    wrong = policy(price={"attributes": {"agee": 5}}, privacy=[{"model": L, "l": 2, "sensitive": "illness"}])
    with pytest.raises(ParameterError) as caught:
        check_policy(wrong, CLINIC, "clinic.toml")
    assert caught.value.lines == (
        'clinic.toml: price.attributes: patients has no column "agee" (did you mean "age"?); '
        "it has age, town, disease, income",
        'clinic.toml: privacy[1].sensitive: patients has no column "illness"; it has age, town, disease, income',
    )


def test_a_list_of_methods_that_learn_is_shown_as_the_table_that_it_is_now() -> None:
    with pytest.raises(ParameterError) as caught:
        read_policy(OPEN | {"learn": ["id3", "cox"]})
    assert caught.value.lines == ('policy: learn: is a table; write it as [learn], with methods = ["id3", "cox"]',)
    wrong = policy(learn={"columns": ["agee"], "class": ["illness"]})
    with pytest.raises(ParameterError) as caught:
        check_policy(wrong, CLINIC, "clinic.toml")
    assert [str(each.key) for each in caught.value.problems] == ["('learn', 'columns')", "('learn', 'class')"]


def test_the_example_of_the_manual() -> None:
    manual = Path(__file__).parents[2] / "docs/howto/policy.md"
    example = manual.read_text().split("```toml\n")[1].split("```")[0]
    written = read_policy(tomllib.loads(example))
    assert written.least_k == 10
    assert len(written.privacy) == 3
    assert set(written.model_dump()) == set(tomllib.loads(example))  # every key is shown
    for name in ("learn", "joint_keys"):
        assert set(getattr(written, name).model_dump(by_alias=True)) == set(tomllib.loads(example)[name])
    assert OPEN.keys() <= set(written.model_dump())


# --- A request that names no method: what parties allow, what the deal says of it, and what a party holds
# against it.

SHARED = {"model": "l-diversity", "qid": ["age", "job"], "l": 2, "sensitive": "disease"}


def asked(**changes: Any) -> Request:
    qid = ["age", "job", "salary", "town"]
    return request(**{"privacy": [{"model": K, "qid": qid, "k": 5}]} | changes)


def test_where_nothing_is_limited_the_preferred_method_is_agreed() -> None:
    deal = dealt(asked())
    assert (deal.terms.method["name"], deal.terms.method["choose"]) == ("mondrian", "class-first")
    assert some(deal.choice).passed_over == ()
    assert dealt(asked(**{"class": None})).terms.method["choose"] == "certainty"


def test_a_method_that_refuses_what_the_parties_insist_on_is_passed_over_with_its_reason() -> None:
    deal = dealt(asked(), clinic=policy(privacy=[SHARED]))
    assert deal.terms.method["name"] == "tds"
    passed_over = some(deal.choice).passed_over
    assert {each.method["name"] for each in passed_over} == {"mondrian"}
    assert all("shares attributes with it" in each.refuses[0] for each in passed_over)
    for card in (BANK, CLINIC):
        assert accepts(policy(), deal, card, Ledger(), NOW) == ()


def test_only_what_every_policy_allows_is_chosen_and_who_does_not_is_named() -> None:
    deal = dealt(asked(), bank=policy(methods={"tds": {}, "dka": {}}))
    assert deal.terms.method["name"] == "tds"
    passed_over = [(each.method["name"], each.not_allowed_by) for each in some(deal.choice).passed_over]
    assert passed_over == [("mondrian", ("bank",))] * 3
    limited = dealt(asked(), bank=policy(methods={"mondrian": {"choose": ["certainty", "widest"]}}))
    assert limited.terms.method["choose"] == "certainty"


def test_parties_without_a_method_in_common_say_what_each_takes() -> None:
    told = refused(asked(), bank=policy(methods={"tds": {}}), clinic=policy(methods={"mondrian": {}, "dka": {}}))
    assert told == {
        "bank": ("no method suits all parties; of those to choose from it takes tds",),
        "clinic": ("no method suits all parties; of those to choose from it takes mondrian",),
    }


def test_a_party_that_takes_none_of_them_refuses() -> None:
    told = reasons(policy(methods={"dka": {}}), asked())
    assert told == ('method "mondrian" is not allowed; allowed: dka', 'method "tds" is not allowed; allowed: dka')
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
        MethodChoice("specializing takes QIDs of any kind", (PassedOver({"name": "mondrian"}, ("too slow",)),)),
        MethodChoice(
            "specializing takes QIDs of any kind",
            (PassedOver({"name": "mondrian", "choose": "certainty", "strict": False}, ("too slow",)),),
        ),
    ],
)
def test_no_party_signs_a_reason_that_does_not_follow_from_the_terms(choice: MethodChoice) -> None:
    deal = _by(dealt(asked()), TDS, choice)
    assert accepts(policy(), deal, CLINIC, Ledger(), NOW) == (
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


# --- What a policy grants of joint keys, and how its ledger counts ---

SETS = [["age", "job"], ["job", "town"]]
GRANTS = {"ratios": 4}


def question(**method: Any) -> Request:
    asked = {"name": "joint-keys", "sets": SETS, "precision": 0.01, **method}
    columns = [*dict.fromkeys(name for each in asked["sets"] for name in each)]
    return request(attributes=columns, privacy=[], algorithm=asked, **{"class": None})


@pytest.mark.parametrize(
    ("grants", "method", "reason"),
    [
        ({}, {}, "ratios of joint keys are not told"),
        (GRANTS, {"precision": None}, "ratios are told in steps of 0.01 or more; asked for exact ones"),
        (GRANTS, {"precision": 0.005}, "ratios are told in steps of 0.01 or more; asked for precision = 0.005"),
        (GRANTS, {"sample": 50}, "asked for 50"),
        (GRANTS, {"least_records": 99}, "ratios are told over 100 common records or more"),
        ({**GRANTS, "columns": ["age"]}, {}, '"town" may not be in a joint key; allowed: age'),
        (GRANTS, {"sets": [["disease", "job"]]}, '"disease" is sensitive'),
        ({"ratios": 1}, {}, "2 more would exceed the 1 that the policy grants"),
    ],
)
def test_nothing_is_told_unless_it_is_granted(grants: dict[str, Any], method: dict[str, Any], reason: str) -> None:
    assert any(reason in each for each in reasons(policy(joint_keys=grants), question(**method)))


def test_what_is_granted_is_offered_without_a_requirement() -> None:
    given = offer(policy(joint_keys=GRANTS, least_k=50), question())
    assert (given.parts, given.m, given.joint_k) == ((), 0, 0)
    assert offer(policy(joint_keys={**GRANTS, "columns": ["disease"]}), question(sets=[["disease", "job"]]))


def test_every_run_counts_and_the_same_question_may_be_asked_again(tmp_path: Path) -> None:
    """A peer may make up another column in each run; but a coordinator may still have the answer."""
    ours = policy(joint_keys=GRANTS)
    deal = dealt(question(), bank=ours, clinic=ours)
    ledger = tmp_path / "ledger.jsonl"
    for run in range(2):
        assert accepts(ours, deal, CLINIC, Ledger.load(ledger), NOW, runs=True) == ()
        append(ledger, record_of(deal, "clinic", NOW - 10 + run))
    told = Ledger.load(ledger)
    assert len(told.records) == 2
    assert accepts(ours, deal, CLINIC, told, NOW) == ()
    (reason,) = accepts(ours, deal, CLINIC, told, NOW, runs=True)
    assert reason.startswith("4 ratios of this snapshot of patients were told before; 2 more")
    assert offer(ours, question(), ledger=told)
    assert reasons(ours, question(sets=[["age", "job"]]), ledger=told)
    declined = Ledger(declined=told.records)  # by the coordinator's word: the peers have seen them
    assert accepts(ours, deal, CLINIC, declined, NOW, runs=True) == (reason,)
    changed = dataclasses.replace(CLINIC, snapshot="dd" * 32)
    patient = policy(joint_keys=GRANTS, least_snapshot_interval=0)
    assert offer(patient, question(), changed, ledger=told)  # another snapshot has its ratios anew
