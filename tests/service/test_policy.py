"""What a policy answers: every reason of refusal, what it adds to a wish, and what was released already."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from masquerade.data.schema import Attribute, Schema
from masquerade.data.taxonomy import Branch, Taxonomy
from masquerade.errors import BadInput, ParameterError
from masquerade.privacy.k_anonymity import KAnonymity
from masquerade.privacy.l_diversity import LDiversity
from masquerade.privacy.t_closeness import TCloseness
from masquerade.service.answering import Load, Refusal, accepts, answer
from masquerade.service.card import card_of, rounded_up
from masquerade.service.ledger import Ledger, append, record_of
from masquerade.service.negotiation import Agreed
from masquerade.service.policy import check_policy, read_policy
from masquerade.service.request import Request, read_request
from masquerade.service.terms import Deal, Price
from service.parties import BANK, CLINIC, IDLE, NOW, OPEN, carried, offer, policy, reasons, request

K, L = "k-anonymity", "l-diversity"


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
            {"adversaries": ["malicious"]},
            {},
            'adversary "semi-honest" is not allowed; allowed: malicious',
        ),
        ({"argmax": ["plain"]}, {}, 'argmax "secure" is not allowed; allowed: plain'),
        ({"argmax": ["secure"]}, {"argmax": "plain"}, 'argmax "plain" is not allowed; allowed: secure'),
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
        access="private", users=["ben"], purposes=["audit"], adversaries=["malicious"], sessions=2
    )
    told = reasons(strict, request(deadline=5), load=Load(2, NOW))
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
    unread = msgspec.structs.replace(CLINIC, snapshot=None)
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


@settings(deadline=None, max_examples=50)
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


# What was released already.


def _agreed(asked: Request, **changes: Any) -> Deal:
    ended, _ = carried(asked, {"bank": policy(least_k=20), "clinic": policy(**changes)})
    assert isinstance(ended, Agreed), ended
    return ended.deal


FIRST = _agreed(request())
LEDGER = Ledger((record_of(FIRST, "clinic", NOW - 100),))


@pytest.mark.parametrize(
    ("asked", "difference"),
    [
        (
            {"privacy": [{"model": K, "qid": ["age", "job", "salary"], "k": 50}]},
            "other QIDs (age, job; age, town; job, salary before, age, job, salary; age, town now)",
        ),
        (
            {"attributes": ["age", "job", "salary", "town"]},
            "other columns (age, disease, job, salary, town before, age, job, salary, town now)",
        ),
        ({"class": None}, "another class (income before, none now)"),
        ({"score": "info-gain"}, "another score (gain-ratio before, info-gain now)"),
        ({"adversary": "malicious"}, "another protocol (semi-honest before, malicious now)"),
    ],
)
def test_a_second_release_that_could_break_the_first_is_refused(
    asked: dict[str, Any], difference: str
) -> None:
    told = reasons(policy(), request(**asked), ledger=LEDGER)
    assert f"a second release with {difference} can break the first" in told
    offer(policy(allow_rerelease=True), request(**asked), ledger=LEDGER)
    offer(policy(), request(**asked), msgspec.structs.replace(CLINIC, snapshot="dd" * 32), ledger=LEDGER)


def test_the_same_request_again_is_answered_with_what_was_agreed() -> None:
    assert offer(policy(), request()).parts != FIRST.terms.parts  # the bank insisted on a larger k
    again = offer(policy(), request(), ledger=LEDGER)
    assert again.parts == FIRST.terms.parts
    ended, _ = carried(request(), {"bank": policy(least_k=20), "clinic": policy()}, ledger=LEDGER)
    assert isinstance(ended, Agreed)
    assert ended.deal.terms.hash == FIRST.terms.hash
    assert accepts(policy(), ended.deal, CLINIC, LEDGER, IDLE) == ()


def test_no_deal_with_a_smaller_k_is_signed() -> None:
    weaker = _agreed(request())
    parts = [dict(each) | {"k": 19} for each in weaker.terms.requirements]
    terms = msgspec.structs.replace(weaker.terms, requirements=tuple(parts))
    weaker = msgspec.structs.replace(weaker, terms=terms)
    told = accepts(policy(), weaker, CLINIC, LEDGER, IDLE)
    assert any(
        "a second release with a weaker requirement than k-anonymity (k = 20)" in each for each in told
    )
    assert accepts(policy(allow_rerelease=True), weaker, CLINIC, LEDGER, IDLE) == ()
    assert accepts(policy(), weaker, CLINIC, Ledger(), IDLE) == ()


def test_a_stricter_second_release_is_let_through() -> None:
    parts = [dict(each) | {"k": 50} for each in FIRST.terms.requirements]
    assert {
        part.parameters()["k"] for part in offer(policy(), request(privacy=parts), ledger=LEDGER).parts
    } == {50}


def test_other_parties_make_another_release_of_the_same_people() -> None:
    record = msgspec.structs.replace(LEDGER.records[0], parties=("clinic", "shop"), terms="00")
    told = accepts(policy(), FIRST, CLINIC, Ledger((record,)), IDLE)
    assert told == (
        "a second release with other parties (clinic, shop before, bank, clinic now) can break the first",
    )


def test_a_new_snapshot_waits_for_its_interval() -> None:
    changed = msgspec.structs.replace(CLINIC, snapshot="dd" * 32)
    patient = policy(least_snapshot_interval=3600)
    assert reasons(patient, request(), changed, ledger=LEDGER) == (
        "another snapshot of patients was released 100 seconds ago; "
        "a new one is released 3500 seconds from now at the earliest",
    )
    offer(patient, request(), changed, ledger=LEDGER, load=Load(0, NOW + 3500))
    offer(patient, request(), ledger=LEDGER)  # the old snapshot may go on


def test_the_ledger_is_a_file_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert Ledger.load(path) == Ledger()
    record = LEDGER.records[0]
    append(path, record)
    with path.open("ab") as file:
        file.write(b'{"adversary":"' + b"x" * 5_000)  # the machine stopped here
    assert Ledger.load(path).records == (record,)
    later = msgspec.structs.replace(record, time=NOW)
    append(path, later)
    assert Ledger.load(path) == Ledger((record, later)) == LEDGER.with_record(later)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["release"]["time"] for line in lines] == [NOW - 100, NOW]


# Before signing.


def _changed(deal: Deal, **terms: Any) -> Deal:
    return msgspec.structs.replace(deal, terms=msgspec.structs.replace(deal.terms, **terms))


def test_a_party_accepts_what_it_agreed_to_and_nothing_else() -> None:
    deal, replace = FIRST, msgspec.structs.replace
    assert accepts(policy(), deal, CLINIC, Ledger(), IDLE) == ()
    assert accepts(policy(least_k=20), deal, BANK, Ledger(), IDLE) == ()

    def told(changed: Deal, **changes: Any) -> str:
        return "\n".join(accepts(policy(**changes), changed, CLINIC, Ledger(), IDLE))

    bank, clinic = deal.terms.provisions
    assert "another snapshot or schema" in told(
        _changed(deal, provisions=(bank, replace(clinic, snapshot="00")))
    )
    assert "another snapshot or schema" in told(_changed(deal, provisions=(bank,)))
    assert "another price" in told(replace(deal, prices={**deal.prices, "clinic": Price(1)}))
    assert "the deal lacks k-anonymity (k = 21) over age, job" in told(deal, least_k=21)
    assert 'purpose "marketing" is not allowed' in told(
        replace(deal, purpose="marketing"), purposes=["research"]
    )
    assert 'recipient "eve"' in told(
        replace(deal, recipients=("ana", "eve")), access="private", users=["ana"]
    )
    assert "shows the coordinator the specializations" in told(replace(deal, show_steps=True))
    assert told(replace(deal, show_steps=True), show_steps=True) == ""
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


# Reading.


def test_a_request_has_all_its_problems_told_at_once() -> None:
    with pytest.raises(ParameterError) as caught:
        read_request(
            {
                "atributes": ["age"],
                "budget": -1,
                "adversary": "malicous",
                "most_error": 1.5,
                "argmax": "secret",
                "epsilon": float("nan"),
                "deadline": "tomorrow",
                "providers": {"age": 7},
                "privacy": [{"model": "k-anonimity"}, {"model": K, "qid": ["age"], "k": 0}],
            },
            "ask.toml",
        )
    assert sorted(caught.value.problems) == [
        'ask.toml: adversary: must be one of "semi-honest", "malicious"; got "malicous" (did you mean "malicious"?)',
        'ask.toml: argmax: must be one of "secure", "plain"; got "secret" (did you mean "secure"?)',
        'ask.toml: atributes: unknown key (did you mean "attributes"?); known here: user, purpose, attributes, '
        "class, privacy, most_error, budget, recipients, providers, kind, m, third_party, parties, score, "
        "adversary, argmax, epsilon, normalize, deadline, attempts, show_steps",
        "ask.toml: budget: must be a whole number of cents, of at least 0; got -1",
        "ask.toml: deadline: must be a date and time with its zone, such as 2030-01-31T12:00:00Z, "
        'or seconds since 1970; got "tomorrow"',
        "ask.toml: epsilon: must be a finite number of at least 0; got nan",
        "ask.toml: most_error: must be a number of at least 0 and at most 1: the largest classification error; "
        "got 1.5",
        'ask.toml: privacy[1].model: no model "k-anonimity" (did you mean "k-anonymity"?); available: '
        "k-anonymity, l-diversity, entropy-l-diversity, recursive-l-diversity, t-closeness, alpha-k-anonymity, "
        "confidence-bounding, p-sensitive-k-anonymity, m-privacy",
        "ask.toml: privacy[2].k: must be a whole number of at least 1; got 0",
        'ask.toml: providers: must be a table of attributes and who contributes them, such as { age = "bank" }; '
        "got 7",
        "ask.toml: purpose: missing; say what the table is for",
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"attributes": []}, "attributes: missing"),
        ({"attributes": ["age", "job", "age"]}, 'attributes: "age" is listed twice'),
        ({"class": "age"}, 'class: "age" is among the attributes too'),
        ({"class": None, "most_error": 0.2}, "most_error: needs a class"),
        ({"class": None, "score": "gain-ratio"}, 'score: "gain-ratio" needs a class attribute'),
        ({"score": "certainty"}, 'score: "certainty" cannot be recomputed'),
        ({"score": "gain"}, 'score: no score "gain"'),
        (
            {"attributes": ["job", "ages"]},
            r'privacy\[1\].qid: "age" is not among the attributes \(did you mean',
        ),
        (
            {"privacy": [{"model": L, "qid": ["age"], "l": 2, "sensitive": "diseas"}]},
            r'privacy\[1\].sensitive: "diseas" is not among the attributes \(did you mean "disease"\?\)',
        ),
        ({"providers": {"weight": "clinic"}}, 'providers.weight: "weight" is not among'),
        ({"attempts": 11}, "attempts: must be a whole number from 1 to 10; got 11"),
        (
            {"deadline": tomllib.loads("d = 2030-01-01T00:00:00")["d"]},
            "deadline: must be a date and time with",
        ),
    ],
)
def test_what_is_wrong_with_a_request(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=f"^request: {problem}"):
        request(**changes)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text() | st.just("age"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("model"), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from([*request().content(), "other"]), ANYTHING, max_size=4))
def test_whatever_is_sent_is_read_or_refused_in_words(content: dict[str, Any]) -> None:
    problems: list[str] = []
    for read, whole in ((read_request, request().content()), (read_policy, OPEN)):
        try:
            read(whole | content)
        except BadInput as error:
            problems += error.problems or ("nothing is said",)
    assert not [problem for problem in problems if not problem.isprintable() or problem == "nothing is said"]


def test_a_request_is_a_table() -> None:
    with pytest.raises(ParameterError, match="request: must be a table of keys and values"):
        read_request([1])


def test_a_request_reads_back_from_its_canonical_form() -> None:
    wish = [
        {"model": "t-closeness", "qid": ["age"], "t": 0.25, "sensitive": "disease"},
        {"model": "entropy-l-diversity", "qid": ["age"], "l": 2.5, "sensitive": "disease"},
        {
            "model": "alpha-k-anonymity",
            "qid": ["age"],
            "alpha": 0.5,
            "k": 3,
            "sensitive": "disease",
            "values": ["HIV"],
        },
    ]
    deadline = tomllib.loads("d = 2030-01-31T12:00:00+02:00")["d"]
    asked = request(privacy=wish, most_error=0.2, deadline=deadline, providers={"age": "clinic"})
    assert asked.deadline == 1_896_084_000
    back = read_request(json.loads(asked.canonical()))
    assert back == asked
    assert back.canonical() == asked.canonical()
    assert b"0.25" in asked.canonical()
    assert not any(isinstance(each, float) for each in msgspec.to_builtins(asked.content()).values())


def test_a_policy_has_all_its_problems_told_at_once() -> None:
    text = """
    access = "public"
    users = ["ana"]
    adversaries = ["honest"]
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
    told = "\n".join(caught.value.problems)
    for expected in (
        "policy: least_k: missing",
        'policy: users: listed, but access = "public" lets everybody ask',
        'policy: adversaries: must be a list of one or more of "semi-honest", "malicious"; got "honest"',
        'policy: session: unknown key (did you mean "sessions"?)',
        'policy: price.per_atribute: unknown key (did you mean "per_attribute"?)',
        "policy: privacy[1].qid: missing; for a k over all attributes write least_k",
        "policy: privacy[2].sensitive: missing",
    ):
        assert expected in told
    with pytest.raises(ParameterError, match=r"price.per_record: needs publish_records = true"):
        policy(publish_records=False, price={"per_record": 1})


def test_a_policy_speaks_of_columns_that_are_there() -> None:
    check_policy(policy(privacy=[{"model": L, "l": 2, "sensitive": "disease"}]), CLINIC)
    wrong = policy(price={"attributes": {"agee": 5}}, privacy=[{"model": L, "l": 2, "sensitive": "illness"}])
    with pytest.raises(ParameterError) as caught:
        check_policy(wrong, CLINIC, "clinic.toml")
    assert caught.value.problems == (
        'clinic.toml: price.attributes: patients has no column "agee" (did you mean "age"?); '
        "it has age, town, disease, income",
        'clinic.toml: privacy[1].sensitive: patients has no column "illness"; it has age, town, disease, income',
    )


def test_the_example_of_the_manual() -> None:
    manual = Path(__file__).parents[2] / "docs/howto/policy.md"
    example = manual.read_text().split("```toml\n")[1].split("```")[0]
    written = read_policy(tomllib.loads(example))
    assert written.least_k == 10
    assert len(written.privacy) == 3
    assert set(written.model_dump()) == set(tomllib.loads(example))  # every key is shown
    assert OPEN.keys() <= set(written.model_dump())


# What is published.


def test_a_card_never_has_values() -> None:
    tree = Taxonomy(Branch("Anywhere", (Branch("North", (Branch("Kiel"), Branch("Husum"))), Branch("Ulm"))))
    schema = Schema(
        [
            Attribute("town", taxonomy=tree),
            Attribute("age", "continuous", lower=18, upper=97),
            Attribute("job", taxonomy="flat"),
            Attribute("firm", taxonomy=Taxonomy.flat(["Acme", "Zeta"])),
            Attribute("land", taxonomy=Taxonomy(Branch("Utopia"))),
        ]
    )
    card = card_of(
        "clinic", "patients", schema, identifier="ssn", key=bytes(32), sensitive=["disease"], records=4_321
    )
    written = msgspec.json.encode(card).decode()
    assert '"Anywhere"' in written
    for value in ("North", "Kiel", "Husum", "Ulm", "18", "97", "Acme", "Zeta", "Utopia", "4321"):
        assert f'"{value}"' not in written
        assert f":{value}" not in written
    assert (card.records, card.names) == (4_400, ("town", "age", "job", "firm", "land", "disease"))
    assert card.columns[3].taxonomy is None
    assert [column.role for column in card.columns][-1] == "sensitive"
    other = Schema([Attribute("age", "continuous", lower=18, upper=98)])
    first, second = (
        card_of("clinic", "p", each, identifier="ssn", key=bytes(32))
        for each in (Schema([Attribute("age", "continuous", lower=18, upper=97)]), other)
    )
    assert first.schema != second.schema  # other bounds make another release
    assert first.schema != card_of("clinic", "p", other, identifier="ssn", key=b"1" * 32).schema
    with pytest.raises(ParameterError, match='"ssn" identifies people'):
        card_of("clinic", "p", schema, identifier="ssn", key=bytes(32), sensitive=["ssn"])


@given(st.integers(0, 10**9))
def test_records_are_rounded_up(records: int) -> None:
    told = rounded_up(records)
    assert records <= told
    assert told % 100 == 0
    assert told - records < max(100, records / 9)
    assert len(str(told).rstrip("0")) <= 2


def test_a_key_that_is_no_text_is_told() -> None:
    with pytest.raises(ParameterError, match="a key holds half a character"):
        read_policy({"least_k": 2, "\ud800": 1})
