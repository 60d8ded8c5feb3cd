"""What was released already, held against what is asked now: by a policy, from its ledger."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from masquerade.service import Ledger
from masquerade.service.agree.answering import accepts, answer
from masquerade.service.agree.further_releases import against_second, rolls_up
from masquerade.service.agree.policy import Policy
from masquerade.service.agree.terms import Deal, Refusal
from masquerade.service.ledger import append, record_of
from service.parties import BANK, CLINIC, NOW, K, carried, dealt, offer, policy, reasons, request

FIRST = dealt(request(algorithm={"name": "tds"}), bank=policy(least_k=20))
LEDGER = Ledger((record_of(FIRST, "clinic", NOW - 100),))


QIDS = "k-anonymity (k = 20) over age, job, salary, town"


def stricter(k: int) -> dict[str, Any]:
    return {"privacy": [dict(each) | {"k": k} for each in FIRST.terms.requirements]}


@pytest.mark.parametrize(
    ("asked", "difference"),
    [
        ({"attributes": ["age", "job", "salary", "town"]}, "with disease; a second release without disease could"),
        (
            {"attributes": ["job", "age", "salary", "town", "disease"]},
            "in the order age, job, salary, town, disease; a second release with the columns in the order job, age, ",
        ),
        (stricter(40), f"already released with {QIDS}; a second release with {QIDS.replace('20', '40')} could"),
        ({"class": None}, "already released with class = income"),
        ({"normalize": "casefold"}, "already released with normalize = strip; a second release with casefold could"),
        ({"algorithm": {"score": "info-gain"}}, "score = gain-ratio; a second release with info-gain could"),
        ({"algorithm": {"argmax": "plain"}}, "argmax = secure; a second release with plain could"),
        ({"algorithm": {"adversary": "malicious"}}, "adversary = semi-honest; a second release with malicious could"),
        ({"algorithm": {"epsilon": 0.5}}, "already released with epsilon = 0.01; a second release with 0.5 could"),
        ({"algorithm": {"name": "dka-datafly"}}, "already released with method = tds; a second release with dka could"),
    ],
)
def test_a_second_release_that_could_break_the_first_is_refused(asked: dict[str, Any], difference: str) -> None:
    told = reasons(policy(), request(**asked), ledger=LEDGER)
    (sentence,) = told
    assert difference in sentence
    offer(policy(allow_rerelease=True), request(**asked), ledger=LEDGER)


def test_the_same_request_again_is_answered_with_what_was_agreed() -> None:
    assert offer(policy(), request()).parts != FIRST.terms.parts  # the bank insisted on a larger k
    assert len(offer(policy(), request()).methods) > 1  # which it leaves open
    again = offer(policy(), request(), ledger=LEDGER)
    assert [each["name"] for each in again.methods] == ["tds"]
    assert again.parts == FIRST.terms.parts
    ended, _ = carried(request(), {"bank": policy(least_k=20), "clinic": policy()}, ledger=LEDGER)
    assert isinstance(ended, Deal)
    assert ended.terms.hash == FIRST.terms.hash
    assert accepts(policy(), ended, CLINIC, LEDGER, NOW) == ()


def test_columns_that_are_released_as_they_are_come_last_in_any_order() -> None:
    """The bank does not know that the clinic calls the disease sensitive; the earlier terms do."""
    ledger = Ledger((record_of(FIRST, "bank", NOW - 100),))
    asked = request(attributes=["age", "disease", "job", "salary", "town"])
    assert offer(policy(least_k=20), asked, BANK, ledger=ledger).parts == FIRST.terms.parts


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"snapshot": "dd" * 32}, "with table of bank = aaaaaaaaaaaa; a second release with dddddddddddd could"),
        ({"schema": "dd" * 32}, "with schema of bank = 111111111111; a second release with dddddddddddd could"),
        ({"dataset": "others"}, "already released on other terms; a second release on these terms could"),
        ({"party": "shop"}, "already released with parties = bank, clinic"),
    ],
)
def test_another_party_with_another_table_makes_another_release_of_the_same_people(
    change: dict[str, str], difference: str
) -> None:
    bank, clinic = FIRST.terms.provisions
    record = LEDGER.records[0]
    terms = msgspec.structs.replace(FIRST.terms, provisions=(msgspec.structs.replace(bank, **change), clinic))
    told = against_second(record.terms, terms)
    (sentence,) = told
    assert difference in sentence
    assert told[0] in accepts(policy(), msgspec.structs.replace(FIRST, terms=terms), CLINIC, LEDGER, NOW)


def test_no_deal_with_another_k_is_signed() -> None:
    for k in (19, 21):
        parts = [dict(each) | {"k": k} for each in FIRST.terms.requirements]
        terms = msgspec.structs.replace(FIRST.terms, requirements=tuple(parts))
        deal = msgspec.structs.replace(FIRST, terms=terms)
        told = accepts(policy(), deal, CLINIC, LEDGER, NOW)
        assert any("already released with k-anonymity" in each for each in told)
        assert accepts(policy(allow_rerelease=True), deal, CLINIC, LEDGER, NOW) == ()
        assert accepts(policy(), deal, CLINIC, Ledger(), NOW) == ()


def test_of_several_earlier_releases_any_may_be_repeated() -> None:
    """As they may be there when a policy has allowed them for a while."""
    other = dealt(request(**{"class": None, "algorithm": {"name": "tds"}}), bank=policy(least_k=20))
    both = Ledger((*LEDGER.records, record_of(other, "clinic", NOW - 50)))
    for deal in (FIRST, other):
        assert accepts(policy(), deal, CLINIC, both, NOW) == ()
    (told,) = reasons(policy(), request(**{"class": None, "normalize": "none"}), ledger=both)
    assert "already released with normalize = strip;" in told  # the nearest one is named


def could_be_made_of(own: Policy, asked: dict[str, Any]) -> str | None:
    """The hash of the earlier release of which the clinic's refusal says that it would do."""
    given = answer(own, request(**asked), CLINIC, LEDGER, NOW)
    assert isinstance(given, Refusal)
    return given.earlier


@pytest.mark.parametrize(
    "asked",
    [
        stricter(40),
        {"attributes": ["age", "job", "salary", "town"]},
        {"attributes": ["job", "age"], **stricter(60), "privacy": [{"model": K, "qid": ["age", "job"], "k": 60}]},
        {"class": None},
    ],
)
def test_less_of_the_same_could_be_made_of_the_earlier_release(asked: dict[str, Any]) -> None:
    assert could_be_made_of(policy(), asked) == FIRST.terms.hash.hex()
    final = dealt(request(**asked), bank=policy(least_k=20))
    assert rolls_up(FIRST.terms, final.terms)
    assert could_be_made_of(policy(purposes=["billing"]), asked) is None  # something else speaks against it


@pytest.mark.parametrize(
    "asked",
    [
        {"attributes": ["job", "age", "salary", "town", "disease"]},  # not less
        {"normalize": "none"},
        {"algorithm": {"epsilon": 0.5}},
        {"normalize": "none", **stricter(40)},  # less, of other people
        {"class": "disease", "attributes": ["age", "job"]},
    ],
)
def test_other_releases_cannot_be_made_of_the_earlier_one(asked: dict[str, Any]) -> None:
    assert could_be_made_of(policy(), asked) is None


def test_what_an_earlier_release_lacks_cannot_be_made_of_it() -> None:
    terms = dealt(request(**stricter(40)), bank=policy(least_k=20)).terms
    assert rolls_up(FIRST.terms, terms)
    bank, clinic = terms.provisions
    for provisions in (
        (msgspec.structs.replace(bank, snapshot="dd" * 32), clinic),
        (bank, clinic, msgspec.structs.replace(bank, party="shop")),
    ):
        assert not rolls_up(FIRST.terms, msgspec.structs.replace(terms, provisions=provisions))
    assert not rolls_up(terms, FIRST.terms)  # a smaller k
    age, *others = terms.columns
    for columns in (
        (*terms.columns, msgspec.structs.replace(age, name="street")),
        (msgspec.structs.replace(age, holder="bank"), *others),
    ):
        assert not rolls_up(FIRST.terms, msgspec.structs.replace(terms, columns=columns))


def test_a_new_snapshot_waits_for_its_interval() -> None:
    changed = dataclasses.replace(CLINIC, snapshot="dd" * 32)
    patient = policy(least_snapshot_interval=3600)
    assert reasons(patient, request(), changed, ledger=LEDGER) == (
        "another snapshot of patients was released 100 seconds ago; "
        "a new one is released 3500 seconds from now at the earliest",
    )
    offer(patient, request(), changed, ledger=LEDGER, now=NOW + 3500)
    offer(patient, request(), ledger=LEDGER)  # the old snapshot may go on
    assert policy().least_snapshot_interval == 7 * 86_400


def test_the_ledger_is_a_file_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert Ledger.load(path) == Ledger()
    record = LEDGER.records[0]
    append(path, record)
    with path.open("ab") as file:
        file.write(b'{"adversary":"' + b"x" * 5_000)  # the machine stopped here
    assert Ledger.load(path).records == (record,)
    append(path, msgspec.structs.replace(record, time=NOW))  # another attempt at the same: it is in it
    later = msgspec.structs.replace(record, time=NOW, recipients=("ben",))
    append(path, later)
    assert Ledger.load(path) == Ledger((record, later))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["release", "recovered", "release"]
    assert [line["fields"]["time"] for line in lines[::2]] == [NOW - 100, NOW]


def declined(*asked: dict[str, Any]) -> Ledger:
    deals = (dealt(request(**each), bank=policy(least_k=20)) for each in asked)
    return Ledger(declined=tuple(record_of(deal, "clinic", NOW - 100) for deal in deals))


METHODS: tuple[dict[str, Any], ...] = tuple(
    {"algorithm": {"name": "tds", "score": score}}
    for score in ("gain-ratio", "info-gain", "discernibility", "info-gain-per-anonymity-loss")
)


@pytest.mark.parametrize("asked", [METHODS[1], {"class": None}, {"normalize": "none"}, stricter(40)])
def test_what_was_declined_does_not_bind(asked: dict[str, Any]) -> None:
    assert offer(policy(), request(**asked), ledger=declined(METHODS[0])).declines == 2
    deal = dealt(request(**asked), bank=policy(least_k=20))
    assert accepts(policy(), deal, CLINIC, declined(METHODS[0]), NOW) == ()


def test_what_is_declined_beyond_the_policys_number_counts_as_released() -> None:
    three, four = declined(*METHODS[:3]), declined(*METHODS)
    assert offer(policy(), request(normalize="none"), ledger=three).declines == 0
    assert any("a second release with" in told for told in reasons(policy(), request(normalize="none"), ledger=four))
    assert offer(policy(), request(**METHODS[3]), ledger=four).declines == 0, "the one that binds"
    for earlier in METHODS[:3]:
        assert reasons(policy(), request(**earlier), ledger=four)
    assert reasons(policy(max_declined=0), request(normalize="none"), ledger=declined(METHODS[0]))
    offer(policy(max_declined=4), request(normalize="none"), ledger=four)


def test_the_same_declined_twice_counts_once_and_where_nothing_binds_nothing_is_counted() -> None:
    assert offer(policy(), request(**METHODS[1]), ledger=declined(METHODS[0], METHODS[0])).declines == 2
    assert offer(policy(allow_rerelease=True), request(), ledger=declined(*METHODS)).declines is None
