"""Parties with real nodes tell how far their columns together identify people: granted, signed, counted, downloaded."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any

import pytest

from masquerade.errors import NotFound, ParameterError
from masquerade.service import Coordinator, SessionRecord, SignedContract, Status, described, preview
from service.coordinators import started
from service_house import House

GRANTED = {"ratios": 4, "precision": 0, "least_records": 20}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    policies: dict[str, Any] = {
        "bank": {"joint_keys": GRANTED, "price": {"per_attribute": 100, "per_record": 1}},
        "clinic": {"joint_keys": {**GRANTED, "ratios": 3}, "allow_rerelease": False},
    }
    yield from started(House(tmp_path_factory.mktemp("house"), people=60, policies=policies))


def asked(**changes: Any) -> dict[str, Any]:
    """A question about two sets of columns, one of them of both parties."""
    method = {"name": "joint-keys", "sets": [["job", "town"], ["salary", "town"]], "least_records": 20, **changes}
    columns = dict.fromkeys(name for each in method["sets"] or () for name in each)
    return {"purpose": "research", "attributes": [*columns], "budget": 100_000, "algorithm": method}


def answered(house: House, coordinator: Coordinator, request: dict[str, Any]) -> SessionRecord:
    return house.finished(coordinator, coordinator.ask(house.user("ana"), request).id)


def common(house: House) -> list[dict[str, str]]:
    """The joined records, which nobody has."""
    tables = [
        {row["ssn"]: row for row in csv.DictReader((house.folder / f"{party}.csv").read_text().splitlines())}
        for party in house.parties
    ]
    return [{**tables[0][ssn], **tables[1][ssn]} for ssn in tables[0] if ssn in tables[1]]


def test_the_ratios_are_those_of_the_joined_records(house: House, coordinator: Coordinator) -> None:
    done = answered(house, coordinator, asked())
    assert (done.status, done.cause) == (Status.PUBLISHED, None)
    ana, people = house.user("ana"), common(house)
    answer = json.loads(coordinator.table(ana, done.id, "json").read_text())
    assert answer["common_records"] == len(people)
    for told in answer["ratios"]:
        groups = {tuple(row[name] for name in told["key"]) for row in people}
        assert told["ratio"] == pytest.approx(len(groups) / len(people))
    summary = coordinator.summary(ana, done.id)
    assert summary["cost"]["parties"] == {"bank": 2 * 100 + len(people), "clinic": 0}
    page = coordinator.report(ana, done.id).read_text()
    assert "of the common records would be left, if of those alike in job, town only one were kept" in page
    with pytest.raises(NotFound, match="an answer, which is there as json"):
        coordinator.table(ana, done.id, "csv")

    written = coordinator.contract(ana, done.id)
    made = preview(SignedContract.read(json.dumps(written).encode()), "clinic")
    assert made.columns == ()
    text = "\n".join(described(made))
    assert "bank, the coordinator and the recipients: the distinct ratio of job, town" in text
    assert "no record is released: the parties answer a question with ratios" in text


def test_the_ledger_counts_ratios_and_the_policy_bounds_them(house: House, coordinator: Coordinator) -> None:
    """Two are told; two more are too many for the clinic, and one is not. What opens none does not count."""
    few = answered(house, coordinator, asked(sets=[["job", "age"]], least_records=55))
    assert few.status is Status.FAILED
    assert "fewer than 55 records in common; no ratio is opened" in str(few.cause)
    answered(house, coordinator, asked())
    again = answered(house, coordinator, asked())  # the same question tells nothing new
    assert again.status is Status.PUBLISHED
    refused = answered(house, coordinator, asked(sets=[["job", "age"], ["salary", "age"]]))
    assert refused.status is Status.REFUSED
    assert "2 more would exceed the 3 that the policy grants" in str(refused.cause)
    assert "bank" not in str(refused.cause)
    last = answered(house, coordinator, asked(sets=[["job", "age"]]))
    assert last.status is Status.PUBLISHED
    ledger = (house.folder / "clinic-state" / "ledger.jsonl").read_text()
    assert ledger.count('"joint-keys"') == 2
    nothing_left = answered(house, coordinator, asked(sets=[["salary", "age"]]))
    assert "3 ratios of this snapshot of people were told before" in str(nothing_left.cause)
    # Ratios have no groups: a table may still be released, even where no second one may.
    table = answered(house, coordinator, house.request())
    assert (table.status, table.cause) == (Status.PUBLISHED, None)


def test_what_a_policy_does_not_grant(house: House, coordinator: Coordinator) -> None:
    refused = answered(house, coordinator, asked(least_records=5, sample=7))
    assert "ratios are told over 20 common records or more" in str(refused.cause)
    raw = answered(house, coordinator, asked(sets=[["job", "disease"]]))
    assert '"disease" is sensitive; it may be in a joint key only where the policy names it' in str(raw.cause)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (asked() | {"attributes": ["job", "town"]}, '"salary" is not among the attributes'),
        (asked() | {"class": "income"}, "joint-keys has no use for it; leave it out"),
        (asked() | {"privacy": [{"model": "k-anonymity", "qid": ["job"], "k": 2}]}, "opens ratios alone"),
        (asked(sets=[["job", "salary"], ["job", "town"]]), "all are bank's; a joint key has columns of two parties"),
        (asked(precision=0.3), "precision must be 1 divided by a whole number"),
    ],
)
def test_what_cannot_be_asked(house: House, coordinator: Coordinator, request_: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        coordinator.ask(house.user("ana"), request_)
