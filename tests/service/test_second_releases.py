"""What was released already, held against what is asked now: by a policy, from its ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from masquerade.service.answering import accepts
from masquerade.service.ledger import Ledger, append, record_of
from masquerade.service.negotiation import Agreed
from masquerade.service.offers import Load
from service.parties import CLINIC, IDLE, NOW, K, carried, dealt, offer, policy, reasons, request

FIRST = dealt(request(), bank=policy(least_k=20))
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
        ({"algorithm": {"score": "info-gain"}}, "another score (gain-ratio before, info-gain now)"),
        ({"algorithm": {"adversary": "malicious"}}, "another adversary (semi-honest before, malicious now)"),
        ({"algorithm": {"name": "dka-datafly"}}, "another method (tds before, dka-datafly now)"),
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
    weaker = dealt(request(), bank=policy(least_k=20))
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
    assert Ledger.load(path) == Ledger((record, later))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["release", "recovered", "release"]
    assert [line["fields"]["time"] for line in lines[::2]] == [NOW - 100, NOW]
